"""What the world is after a plan: ``Snapshot.after``, and the seats by plain arithmetic to hold it against."""

from dataclasses import replace

from admission.engine.snapshot import Snapshot
from queues.admissions import AdmissionState, Seat
from queues.plan import Plan
from queues.resources import NOTHING, Resources, total
from queues.workload import NodeName, WorkloadKey


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
    later = snapshot.after(plan, last_id=last)
    expected = {
        key: sorted(map(_place, seats)) for key, seats in seats_after(snapshot, plan).items() if seats
    }
    assert _open_seats(later) == expected
    return later


def _open_seats(snapshot: Snapshot) -> dict[WorkloadKey, list[tuple[str, int, NodeName]]]:
    found: dict[WorkloadKey, list[tuple[str, int, NodeName]]] = {}
    for admission in snapshot.admissions.values():
        if admission.state is AdmissionState.OPEN and admission.holding():
            found.setdefault(admission.workload, []).extend(map(_place, admission.holding()))
    return {key: sorted(places) for key, places in found.items()}


def _place(seat: Seat) -> tuple[str, int, NodeName]:
    return (seat.pod_set, seat.ordinal, seat.node)


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
