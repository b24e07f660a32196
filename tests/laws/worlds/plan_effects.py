"""What the world is after a plan, told by the plain rules and by none of the engine's own bookkeeping."""

from dataclasses import replace

from admission.engine.snapshot import Snapshot
from queues.admissions import AdmissionState, Seat
from queues.plan import Plan
from queues.resources import NOTHING, Resources, total
from queues.workload import AdmissionId, NodeName, WorkloadKey


def seats_after(snapshot: Snapshot, plan: Plan) -> dict[WorkloadKey, list[Seat]]:
    """Seats of open admissions by workload: frees and evictions taken off, admits and adopts put on."""
    freed = {free.admission: free.seats for free in plan.frees}
    evicted = {evict.admission for evict in plan.evicts}
    seats: dict[WorkloadKey, list[Seat]] = {}
    for number, admission in snapshot.admissions.items():
        if admission.state is not AdmissionState.OPEN or number in evicted:
            continue
        gone = admission.ended | freed.get(number, frozenset())
        left = [seat for index, seat in enumerate(admission.seats) if index not in gone]
        seats.setdefault(admission.workload, []).extend(left)
    for admit in (*(adopt.admit for adopt in plan.adopts), *plan.admits):
        seats.setdefault(admit.workload, []).extend(admit.seats)
    return seats


def apply(snapshot: Snapshot, plan: Plan, last: int = 1000) -> Snapshot:
    """The snapshot of the next turn, if nothing else happens. ``last``: no admission was numbered higher before."""
    admissions = dict(snapshot.admissions)
    deltas: dict[NodeName, Resources] = {}
    for free in plan.frees:
        admission = admissions[free.admission]
        for index in free.seats:
            seat = admission.seats[index]
            deltas[seat.node] = deltas.get(seat.node, NOTHING) - seat.takes
        if free.closes:
            del admissions[free.admission]
        else:
            admissions[free.admission] = replace(admission, ended=admission.ended | free.seats)
    holders, pending_again = dict(snapshot.holders), {}
    for evict in plan.evicts:
        admission = admissions[evict.admission]
        admissions[evict.admission] = replace(admission, state=AdmissionState.EVICTING)
        if evict.beneficiary is not None and admission.workload in holders:
            before = snapshot.holders[admission.workload]
            moved = replace(before, evictions=before.evictions + 1, waiting_since=plan.now)
            holders[admission.workload] = pending_again[admission.workload] = moved
    for admit in plan.admits:
        if snapshot.holders or admit.workload in snapshot.claims:
            holders[admit.workload] = snapshot.pending[admit.workload]
    number = max([*snapshot.admissions, last])
    adopted = [adopt.admit for adopt in plan.adopts]
    for admit in (*adopted, *plan.admits):
        number += 1
        admissions[AdmissionId(number)] = admit.opened(AdmissionId(number), plan.now)
        if admit not in adopted:  # adopted pods are on their nodes already
            for seat in admit.seats:
                deltas[seat.node] = deltas.get(seat.node, NOTHING) + seat.takes
    held = seats_after(snapshot, plan)
    pending = {
        key: workload
        for key, workload in {**snapshot.pending, **pending_again}.items()
        if len(held.get(key, ())) < sum(len(pods.wanted()) for pods in workload.pod_sets)
    }
    return replace(
        snapshot,
        admissions=admissions,
        nodes=snapshot.nodes.with_used(deltas),
        pending=pending,
        ended={},
        evictable={},
        unbooked=(),
        started=(),
        holders=holders,
        claims={
            **{key: claim for key, claim in snapshot.claims.items() if key not in plan.dropped},
            **{claim.workload: claim for claim in plan.claims},
        },
    )


def drained(snapshot: Snapshot) -> Snapshot:
    """The same when the pods of everybody who was taken back are gone."""
    deltas: dict[NodeName, Resources] = {}
    left = {}
    for number, admission in snapshot.admissions.items():
        if admission.state is AdmissionState.OPEN:
            left[number] = admission
            continue
        for seat in admission.holding():
            deltas[seat.node] = deltas.get(seat.node, NOTHING) - seat.takes
    held = {admission.workload for admission in left.values()}
    return replace(
        snapshot,
        admissions=left,
        nodes=snapshot.nodes.with_used(deltas),
        holders={key: workload for key, workload in snapshot.holders.items() if key in held},
    )


def given(plan: Plan) -> dict[NodeName, Resources]:
    """What the plan's admits put on each node."""
    sums: dict[NodeName, list[Resources]] = {}
    for admit in plan.admits:
        for seat in admit.seats:
            sums.setdefault(seat.node, []).append(seat.takes)
    return {node: total(takes) for node, takes in sums.items()}
