"""When pending workloads should start, as the read API shows it."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec


class ExpectedStartBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When a pending workload should start: within this interval in four of five cases."""

    #: When it was worked out.
    computed: str
    #: It starts at this time or later.
    earliest: str
    #: It starts at this time or earlier; null: not known, but at ``earliest`` or later.
    latest: str | None
    #: True: as far as can be foreseen nothing that ends or comes lets it start.
    never: bool = False
    #: It should have started by this time in four of five cases, and has not; null: that time is still to come. Then
    #: ``earliest`` is now, and ``latest`` null until there is another forecast.
    overdue_since: str | None = None
    #: What its own run time goes by: declared | user, image and shape | user and shape |
    #: image and shape | queue and shape | user | shape | everything | prior
    basis: str = ""
    #: The seconds that it is assumed to run for: as long as it states, or as half of the ended work that its run time
    #: goes by; null: the leader is of an older version.
    run_time: int | None = None
    #: Number of ended runs that the run times of all workloads were learned from.
    runs: int = 0


Start = TypeVar("Start", bound=ExpectedStartBody)


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


def told_at(start: Start, now: str) -> Start:
    """The same as it is to be shown at this time (RFC 3339), which is later than when it was worked out: no part of an
    interval is in the past. A forecast is kept for minutes where there is much to simulate."""
    if start.never or start.earliest >= now:
        return start
    if start.latest is None or start.latest >= now:
        return msgspec.structs.replace(start, earliest=now)
    return msgspec.structs.replace(start, earliest=now, latest=None, overdue_since=start.latest)


def start_of(line: ExpectedLine) -> ExpectedStartBody:
    """The line without the names of its workload."""
    fields: Mapping[str, Any] = {name: getattr(line, name) for name in ExpectedStartBody.__struct_fields__}
    return ExpectedStartBody(**fields)
