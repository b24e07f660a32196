"""When pending workloads should start, as the read API tells it."""

from collections.abc import Mapping
from typing import Any

import msgspec


class ExpectedStartBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When a pending workload should start: within this interval in four of five cases."""

    #: When it was worked out.
    computed: str
    #: It starts at this time or later.
    earliest: str
    #: It starts at this time or earlier; null: nobody can tell, at ``earliest`` or later.
    latest: str | None
    #: True: as far as can be foreseen nothing that ends or comes lets it start.
    never: bool = False
    #: What its own run time goes by: declared | user, image and shape | user and shape |
    #: image and shape | queue and shape | user | shape | everything | prior
    basis: str = ""
    #: Number of ended runs that the run times of all workloads were learned from.
    runs: int = 0


class ExpectedLine(ExpectedStartBody, frozen=True, kw_only=True):
    """One workload in the leader's list."""

    kind: str
    namespace: str
    uid: str


class ExpectedList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``GET …/expected-starts``: of all pending workloads in sight, as of one forecast."""

    #: null: no forecast was made yet.
    computed: str | None
    items: tuple[ExpectedLine, ...] = ()


def start_of(line: ExpectedLine) -> ExpectedStartBody:
    """The line without the names of its workload."""
    fields: Mapping[str, Any] = {name: getattr(line, name) for name in ExpectedStartBody.__struct_fields__}
    return ExpectedStartBody(**fields)
