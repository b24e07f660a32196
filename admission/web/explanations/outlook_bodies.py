"""The outlook of a workload, as the read API answers it: what would let it in, and who could take its place."""

from collections.abc import Mapping
from typing import Any

import msgspec

from admission.web.bodies import Body, ReasonBody, WorkloadBody
from admission.web.lists.expected import ExpectedStartBody


class ChangeBody(Body, frozen=True, kw_only=True):
    """One change that would let a workload in, without any other change."""

    #: turn | time | end | workload | priority | deserved | capability | queue | nodes
    kind: str
    message: str
    #: The numbers behind the sentence; amounts are quantities, times seconds.
    facts: Mapping[str, Any] = {}


class TakerBody(Body, frozen=True, kw_only=True):
    """One rule by which a workload that runs may lose its place."""

    #: Preempted | Reclaimed | Cleared | UnhealthyDevice
    rule: str
    #: Queue of those who could take the place; null: several, which ``message`` names, or no workload takes it.
    queue: str | None
    #: From when on; not after ``now``: already.
    from_: str = msgspec.field(name="from")
    message: str
    #: The numbers behind the sentence; amounts are quantities, times seconds.
    facts: Mapping[str, Any] = {}


class StandingBody(Body, frozen=True, kw_only=True):
    """Who could take the place of a workload that runs."""

    #: Whether it runs on what its queue deserves or on lent quota, and what protects it.
    message: str
    #: Until then it is not evicted for others; null: it may be, or it never is.
    protected_until: str | None
    #: The soonest first. Empty if no workload could take the place.
    takers: tuple[TakerBody, ...]
    #: Why there are none; "": there are some.
    nobody: str


class OutlookBody(WorkloadBody, frozen=True, kw_only=True):
    """``GET …/workloads/{name}/outlook``: what would let a workload in, or keeps it from going on. From the leader."""

    #: The time of the leader's last decision, from which this was computed.
    now: str
    #: 1-based, among the workloads of its queue that are tried; null: it is not tried as it is.
    position: int | None
    queue_length: int | None
    #: Workloads right before it, as "kind/uid", the nearest last (at most ten).
    ahead: tuple[str, ...]
    #: What it waits behind, as a sentence; "" = nothing.
    behind: str
    #: The smallest first; each was tried on a copy of the engine's input. Empty: no known change does, or it is in.
    changes: tuple[ChangeBody, ...]
    #: What is wrong with it though it has seats; null: nothing is known to be, or it has none.
    problem: ReasonBody | None = None
    #: Who could take its place; null: it holds none.
    standing: StandingBody | None = None
    #: When it should start; null: it has seats, or came after the last forecast.
    expected: ExpectedStartBody | None = None
