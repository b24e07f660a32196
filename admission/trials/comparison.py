"""Two clusters compared when each has come to rest: who starts, who goes, and what queues use. Pure.

No time passes: turns follow one another, and victims are gone at once, until nothing changes any more.
"""

from collections import Counter
from collections.abc import Mapping
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
from queues.quota.accounts import Account, charges
from queues.quota.queue import path_upwards
from queues.resources import NOTHING, PODS, Resources
from queues.workload import NO_FLAVOR, AdmissionId, NodeName, QueueName, Workload, WorkloadKey

#: Turns until a cluster is taken to be at rest.
MOST_TURNS: Final = 16


class Effect(StrEnum):
    """What becomes of a workload by the changes."""

    #: It waits, and would start.
    STARTS = "starts"
    #: It would start, and would wait.
    WAITS = "waits"
    #: It runs, would be evicted, and would wait.
    STOPS = "stops"
    #: It runs, would be evicted, and would start again at once.
    RESTARTS = "restarts"
    #: It runs with fewer pods: no other nodes have room for them.
    SHRINKS = "shrinks"
    #: It runs, and more pods of it would start.
    GROWS = "grows"
    #: It would be evicted, and would go on.
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class WorkloadDifference:
    """One workload for which the changes matter."""

    what: Effect
    workload: Workload
    #: Why it waits or was evicted, with the changes.
    reason: Reason | None
    #: The workload for which it was evicted. None if there is none.
    beneficiary: Workload | None = None


@dataclass(frozen=True, slots=True)
class QueueDifference:
    """What a queue with its subtree uses of a resource, and how many workloads wait in it."""

    queue: QueueName
    resource: str
    used: tuple[int, int]
    waiting: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The cluster at rest, without and with the changes."""

    differences: tuple[WorkloadDifference, ...]
    queues: tuple[QueueDifference, ...]
    #: False: one of them had not come to rest.
    at_rest: bool


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


def compared(snapshot: Snapshot, changed: Snapshot) -> Compared:
    """What changes make of the cluster. Both snapshots are of the next turn, without and with them."""
    before, after = _brought_to_rest(snapshot), _brought_to_rest(changed)
    return Compared(
        differences=tuple(_differences(snapshot, before, after)),
        queues=tuple(_queues(before, after)),
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


def _differences(snapshot: Snapshot, before: _Settled, after: _Settled) -> list[WorkloadDifference]:
    ran = _Settled(snapshot).seats()
    seats = before.seats(), after.seats()
    known = {**snapshot.pending, **snapshot.holders, **after.snapshot.pending}
    found = []
    for key in sorted(known, key=lambda each: (known[each].queue, known[each].arrival, each)):
        what = _difference(key, ran, seats, (before, after))
        if what is None:
            continue
        evict = after.evicts.get(key)
        beneficiary = None if evict is None or evict.beneficiary is None else known.get(evict.beneficiary)
        reason = None
        if what not in (Effect.STARTS, Effect.STAYS, Effect.GROWS):
            reason = after.reasons.get(key)
            if evict is not None and (reason is None or what is Effect.RESTARTS):
                reason = Reason(code=evict.code, message=evict.message)
        found.append(WorkloadDifference(what, known[key], reason, beneficiary))
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


def _queues(before: _Settled, after: _Settled) -> list[QueueDifference]:
    used, waiting = [], []
    for each in (before, after):
        found: Counter[tuple[QueueName, str]] = Counter()
        for admission in each.snapshot.admissions.values():
            amounts = charges(each.snapshot.still_held(admission))
            for account, units in _plain(amounts).items():
                for name in _path(each.snapshot, admission.queue):
                    found[name, account] += units
        used.append(found)
        waits: Counter[QueueName] = Counter()
        for workload in each.snapshot.pending.values():
            waits.update(_path(each.snapshot, workload.queue))
        waiting.append(waits)
    lines = []
    for name, resource in sorted({*used[0], *used[1]}):
        use = used[0][name, resource], used[1][name, resource]
        waits_now = waiting[0][name], waiting[1][name]
        if use[0] != use[1]:
            lines.append(QueueDifference(name, resource, use, waits_now))
    told = {each.queue for each in lines}
    for name in sorted({*waiting[0], *waiting[1]} - told):
        waits_now = waiting[0][name], waiting[1][name]
        if waits_now[0] != waits_now[1]:
            lines.append(QueueDifference(name, "", (0, 0), waits_now))
    return lines


def _plain(amounts: Mapping[Account, int]) -> dict[str, int]:
    return {
        account.resource: units
        for account, units in amounts.items()
        if account.flavor == NO_FLAVOR and account.resource != PODS
    }


def _path(snapshot: Snapshot, queue: QueueName) -> list[QueueName]:
    """A queue and those above it."""
    return [queue, *(each.name for each in path_upwards(queue, snapshot.queues.get) if each.name != queue)]
