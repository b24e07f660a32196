"""Two clusters compared when each has come to rest: who starts, and who goes. Pure.

No time passes: turns follow one another, and victims are gone at once, until nothing changes any more.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.host_ports import NotedPorts, ports_of
from admission.engine.plan_limit import NO_LIMIT
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission, AdmissionState, Seat
from queues.plan import Evict, Reason
from queues.read_api.bodies import ReasonBody
from queues.read_api.quantities import quantities
from queues.read_api.trials import ComparisonBody, DifferenceBody
from queues.resources import NOTHING, Resources
from queues.workload import AdmissionId, NodeName, WorkloadKey

#: Workloads that are shown.
MOST_WORKLOADS: Final = 200
#: Turns until a cluster is taken to be at rest.
MOST_TURNS: Final = 16


class Effect(StrEnum):
    """What becomes of a workload by the changes, the most disturbing first."""

    #: It runs, would be evicted, and would wait.
    STOPS = "stops"
    #: It runs with fewer pods: no other nodes have room for them.
    SHRINKS = "shrinks"
    #: It runs, would be evicted, and would start again at once.
    RESTARTS = "restarts"
    #: It would start, and would wait.
    WAITS = "waits"
    #: It waits, and would start.
    STARTS = "starts"
    #: It runs, and more pods of it would start.
    GROWS = "grows"
    #: It would be evicted, and would go on.
    STAYS = "stays"


@dataclass(slots=True)
class _Settled:
    """A cluster at rest."""

    snapshot: Snapshot
    evicts: dict[WorkloadKey, Evict] = field(default_factory=dict)
    reasons: Mapping[WorkloadKey, Reason] = field(default_factory=dict)
    at_rest: bool = False

    def seats(self) -> dict[WorkloadKey, list[Seat]]:
        """Seats by workload."""
        found: dict[WorkloadKey, list[Seat]] = {}
        for admission in self.snapshot.admissions.values():
            if admission.state is AdmissionState.OPEN:
                found.setdefault(admission.workload, []).extend(self.snapshot.still_held(admission))
        return found


def compared(
    snapshot: Snapshot, changed: Snapshot, *, notes: Sequence[str] = (), warnings: Sequence[str] = ()
) -> ComparisonBody:
    """What changes make of the cluster. Both snapshots are of the next turn, without and with them.

    ``notes``, ``warnings``: the changes in words, and what the API server would warn of.
    """
    before, after = _brought_to_rest(snapshot), _brought_to_rest(changed)
    workloads = _differences(snapshot, before, after)
    counts = Counter(each.what for each in workloads)
    order = {str(effect): place for place, effect in enumerate(Effect)}
    workloads.sort(key=lambda each: order[each.what])
    return ComparisonBody(
        changes=tuple(notes),
        warnings=tuple(warnings),
        counts={what: counts[what] for what in order if counts[what]},
        workloads=tuple(workloads[:MOST_WORKLOADS]),
        at_rest=before.at_rest and after.at_rest,
    )


def _brought_to_rest(snapshot: Snapshot) -> _Settled:
    """Turns at one moment until nothing changes."""
    found, memo, last = _Settled(snapshot), Memo(), max(snapshot.admissions, default=AdmissionId(0))
    for _ in range(MOST_TURNS):
        plan, memo = decide(found.snapshot, memo, NO_LIMIT)
        found.reasons = plan.reasons
        if not plan.changes_ledger():
            found.at_rest = True
            break
        for evict in plan.evicts:
            found.evicts.setdefault(found.snapshot.admissions[evict.admission].workload, evict)
        later = found.snapshot.after(plan, last)
        last = max([last, *later.admissions])
        found.snapshot = _without_victims(later)
    if memo.state is not None:
        memo.state.retire()  # nothing collects what refers to itself in a circle
    return found


def _without_victims(snapshot: Snapshot) -> Snapshot:
    """The snapshot when the pods of all that is being evicted are gone."""
    freed: dict[NodeName, Resources] = {}
    left: dict[AdmissionId, Admission] = {}
    ports = NotedPorts(snapshot.nodes.ports)
    for number, admission in snapshot.admissions.items():
        if admission.state is AdmissionState.OPEN:
            left[number] = admission
            continue
        seats = admission.holding()
        for seat in seats:
            freed[seat.node] = freed.get(seat.node, NOTHING) - seat.takes
        if (holder := snapshot.holders.get(admission.workload)) is not None:
            for taken in ports_of(holder, seats):
                ports.remove(*taken)
    if len(left) == len(snapshot.admissions):
        return snapshot
    held = {admission.workload for admission in left.values()}
    return replace(
        snapshot,
        admissions=left,
        nodes=snapshot.nodes.with_used(freed).with_ports(ports.by_node()),
        holders={key: workload for key, workload in snapshot.holders.items() if key in held},
    )


def _differences(snapshot: Snapshot, before: _Settled, after: _Settled) -> list[DifferenceBody]:
    ran = _Settled(snapshot).seats()
    seats = before.seats(), after.seats()
    known = {**snapshot.pending, **snapshot.holders, **after.snapshot.pending}
    found = []
    for key in sorted(known, key=lambda each: (known[each].queue, known[each].arrival, each)):
        what = _difference(key, ran, seats, (before, after))
        if what is None:
            continue
        evict, workload = after.evicts.get(key), known[key]
        beneficiary = None if evict is None or evict.beneficiary is None else known.get(evict.beneficiary)
        reason = None
        if what not in (Effect.STARTS, Effect.STAYS, Effect.GROWS):
            reason = after.reasons.get(key)
            if evict is not None and (reason is None or what is Effect.RESTARTS):
                reason = Reason(code=evict.code, message=evict.message)
        found.append(
            DifferenceBody(
                what=str(what),
                kind=str(key.kind),
                namespace=workload.namespace,
                name=workload.name,
                queue=workload.queue,
                priority=workload.priority,
                pods=sum(pods.wanted_count() for pods in workload.pod_sets),
                asks=quantities(workload.asks()),
                reason=None if reason is None else ReasonBody(code=reason.code, message=reason.message),
                beneficiary=None if beneficiary is None else str(beneficiary),
            )
        )
    return found


def _difference(
    key: WorkloadKey,
    ran: Mapping[WorkloadKey, list[Seat]],
    seats: tuple[Mapping[WorkloadKey, list[Seat]], Mapping[WorkloadKey, list[Seat]]],
    both: tuple[_Settled, _Settled],
) -> Effect | None:
    """What becomes of one workload. None if it is the same with the changes as without them."""
    without, with_changes = (each.get(key, []) for each in seats)
    evicted = [key in each.evicts for each in both]
    if key not in ran or not (without and with_changes):
        if bool(without) == bool(with_changes):
            return None
        gets, loses = (Effect.STAYS, Effect.STOPS) if key in ran else (Effect.STARTS, Effect.WAITS)
        return gets if with_changes else loses
    if evicted[0] != evicted[1]:
        return Effect.RESTARTS if evicted[1] else Effect.STAYS
    if len(with_changes) == len(without):
        return None
    return Effect.GROWS if len(with_changes) > len(without) else Effect.SHRINKS
