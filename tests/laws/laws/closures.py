"""Laws about nodes that Reservations and NodeDrains close, as functions that raise. Worlds: ``closing_worlds``."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import strategies as st

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.admissions import AdmissionState
from queues.node_closures import ClosureKind, NodeClosure
from queues.quota.queue import ROOT, Queue
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.workload import (
    NO_FLAVOR,
    NodeName,
    PodSet,
    QueueName,
    Workload,
    WorkloadKey,
)
from tests.laws.laws.decision import plan_of
from tests.laws.worlds.plan_effects import apply, drained
from tests.laws.worlds.snapshots import FLAVORS, GPU, LEVELS, NOW, snapshots

#: Seconds around now: in every phase of a closure.
_AROUND = (-120, -1, 0, 1, 60, 600)
_RUN_TIMES = (None, None, 0, 30, 300, 4000)
_HOLDER = QueueName("holder")


@st.composite
def closures(draw: st.DrawFn, number: int, queues: list[QueueName], nodes: list[NodeName]) -> NodeClosure:
    """One closure in any phase; a reservation with chosen nodes, of which some may be gone, or without."""
    clear_at = NOW + draw(st.sampled_from(_AROUND))
    start = clear_at + draw(st.sampled_from([0, 60]))
    end = draw(st.sampled_from([None, start + 30, start + 3600]))
    is_drain = draw(st.booleans())
    some = st.lists(st.sampled_from([*nodes, NodeName("gone")]), unique=True, max_size=3).map(tuple)
    return NodeClosure(
        kind=ClosureKind.DRAIN if is_drain else ClosureKind.RESERVATION,
        name=f"c{number}",
        lead_from=clear_at - draw(st.sampled_from([0, 30, 3600])),
        clear_at=clear_at,
        start=start,
        end=end,
        queue=None if is_drain else draw(st.sampled_from(queues)),
        amounts=Resources({} if is_drain else {GPU: draw(st.integers(1, 8)) * 1000}),
        flavor=NO_FLAVOR if is_drain else draw(st.sampled_from([NO_FLAVOR, NO_FLAVOR, *FLAVORS])),
        level="" if is_drain else draw(st.sampled_from(["", "", *LEVELS, "moon"])),
        nodes=draw(some) if is_drain or draw(st.booleans()) else (),
        selector=(("rack", "r0"),) if is_drain and draw(st.booleans()) else (),
        of_tenant=not is_drain and draw(st.sampled_from([False, False, True])),
    )


@st.composite
def closing_worlds(draw: st.DrawFn) -> Snapshot:
    """Small worlds with some closures, and run times of some workloads."""
    snapshot = draw(snapshots())
    pending = {
        key: replace(
            each,
            run_time=draw(st.sampled_from(_RUN_TIMES)),
            evictions=draw(st.sampled_from([each.evictions, each.evictions, 1, 3])),
        )
        for key, each in snapshot.pending.items()
    }
    holders = {
        each.workload: pending[each.workload]
        for each in snapshot.admissions.values()
        if each.workload in pending
    }
    queues = {
        name: replace(each, max_run_time=draw(st.sampled_from([None, None, None, 300])))
        for name, each in snapshot.queues.items()
    }
    names, nodes = sorted(queues), list(snapshot.nodes.layout.names)
    found = [draw(closures(number, names, nodes)) for number in range(draw(st.integers(1, 3)))]
    return replace(snapshot, pending=pending, holders=holders, queues=queues, closures=tuple(found))


@st.composite
def booked_worlds(draw: st.DrawFn) -> Snapshot:
    """Small worlds in which one reservation is about to be cleared, for a queue that no quota limits, with a gang that
    asks for all of it: one pod on each node."""
    snapshot = draw(snapshots())
    size = draw(st.sampled_from([2, 4]))
    count = draw(st.integers(1, 3))
    gang = Workload(
        key=WorkloadKey(kind_names.JOB, "booked"),
        namespace="team",
        name="booked",
        queue=_HOLDER,
        priority=draw(st.integers(0, 2)),
        arrival=200,
        created=NOW,
        minimum=count,
        pod_sets=(PodSet(name="main", count=count, minimum=count, takes=Resources({GPU: size * 1000})),),
        generation="1",
    )
    reservation = NodeClosure(
        kind=ClosureKind.RESERVATION,
        name="booked",
        lead_from=NOW - 60,
        clear_at=NOW,
        start=NOW + 30,
        end=NOW + 3600,
        queue=_HOLDER,
        amounts=Resources({GPU: size * count * 1000}),
    )
    queues = {**snapshot.queues, _HOLDER: Queue(name=_HOLDER, parent=ROOT, priority=1)}
    return replace(
        snapshot,
        queues=queues,
        pending={**snapshot.pending, gang.key: gang},
        # What is being adopted or evicted otherwise has no part in it.
        unbooked=(),
        closures=(reservation,),
    )


# ── what is closed, by the plain rules ──────────────────────────────────────────────────────────────────────


def _closed_nodes(snapshot: Snapshot, closure: NodeClosure) -> set[NodeName]:
    """Nodes of a closure after the turn that the snapshot is decided in. Those of a reservation are in the plan."""
    if snapshot.now < closure.lead_from or (closure.end is not None and snapshot.now >= closure.end):
        return set()
    layout = snapshot.nodes.layout
    named = set(plan_of(snapshot).chosen_nodes.get(closure.id, closure.nodes))
    labelled = {
        name
        for column, name in enumerate(layout.names)
        if closure.selector
        and all(layout.labels.of(column).get(key) == value for key, value in closure.selector)
    }
    return (named | labelled) & set(layout.names)


def _longest(workload: Workload, snapshot: Snapshot) -> int | None:
    known = [] if workload.run_time is None else [workload.run_time]
    known += [
        queue.max_run_time
        for name in _above(workload.queue, snapshot)
        if (queue := snapshot.queues[name]).max_run_time is not None
    ]
    return max(1, min(known)) if known else None


def _above(name: QueueName | None, snapshot: Snapshot) -> Iterator[QueueName]:
    seen: set[QueueName] = set()
    while name in snapshot.queues and name is not None and name not in seen:
        seen.add(name)
        yield name
        name = snapshot.queues[name].parent


def _is_holders(queue: QueueName, closure: NodeClosure, snapshot: Snapshot) -> bool:
    return closure.queue is not None and closure.queue in _above(queue, snapshot)


# ── the laws ────────────────────────────────────────────────────────────────────────────────────────────────


def nothing_foreign_outlasts_the_start(snapshot: Snapshot) -> None:
    """On closed nodes only work is placed that is known to end before they are cleared, and the holder's in its window;
    no claim is made for other work there."""
    plan, now = plan_of(snapshot), snapshot.now
    for closure in snapshot.closures:
        closed = _closed_nodes(snapshot, closure)
        placed = [(each.workload, each.queue, each.seats) for each in plan.admits]
        placed += [(each.workload, each.queue, each.seats) for each in plan.claims]
        for key, queue, seats in placed:
            if not closed & {seat.node for seat in seats}:
                continue
            longest = _longest(snapshot.pending[key], snapshot)
            in_time = longest is not None and now + longest <= closure.clear_at
            in_window = now >= closure.start and _is_holders(queue, closure, snapshot)
            assert in_time or in_window, (closure, key)


def what_is_in_the_way_is_evicted(snapshot: Snapshot) -> None:
    """From the second on at which nodes have to be clear, no open admission of another queue has a seat there after the
    turn; and nobody is evicted for a closure before, or from other nodes only. For a reservation of a tenant nobody is
    evicted who was evicted before and has not rested since, or beyond what the tenant deserves (``tenant_nodes``)."""
    plan = plan_of(snapshot)
    evicted = {each.admission: each for each in plan.evicts}
    freed = {each.admission: each.seats for each in plan.frees}
    due: set[WorkloadKey] = set()
    for closure in snapshot.closures:
        if snapshot.now < closure.clear_at:
            continue
        closed = _closed_nodes(snapshot, closure)
        for number, admission in snapshot.admissions.items():
            gone = admission.ended | freed.get(number, frozenset())
            left = {seat.node for index, seat in enumerate(admission.seats) if index not in gone}
            if closure.of_tenant and _rests(admission.workload, snapshot):
                continue
            if left & closed and not _is_holders(admission.queue, closure, snapshot):
                due.add(admission.workload)
                if closure.of_tenant and _states_devices(closure, snapshot):
                    continue
                assert admission.state is not AdmissionState.OPEN or number in evicted, (closure, number)
    for number, evict in evicted.items():
        if evict.code in (ReasonCode.NODES_RESERVED, ReasonCode.MAINTENANCE):
            assert snapshot.admissions[number].workload in due, (number, evict)


def _states_devices(closure: NodeClosure, snapshot: Snapshot) -> bool:
    """Whether a queue states what it deserves, so that this may bound what is cleared for it."""
    above = [snapshot.queues[name] for name in _above(closure.queue, snapshot)]
    return any(limits.deserved for each in above for limits in (each.limits, *each.flavors.values()))


def _rests(key: WorkloadKey, snapshot: Snapshot) -> bool:
    """Whether a workload was evicted before, and has run for less than an hour since, or two, four, up to a day."""
    opened = [
        each.opened_at
        for each in snapshot.admissions.values()
        if each.workload == key and each.state is AdmissionState.OPEN
    ]
    times = snapshot.holders[key].evictions if key in snapshot.holders else 0
    return bool(opened and times) and snapshot.now < max(opened) + min(3600 * 2 ** (times - 1), 86_400)


def a_choice_is_kept(snapshot: Snapshot) -> None:
    """Nodes that were chosen once stay chosen in the next turns, whatever runs on them by then."""
    plan = plan_of(snapshot)
    later = replace(apply(snapshot, plan), now=snapshot.now + 1)
    for closure in later.closures:
        is_chosen = closure.closes_nodes(snapshot.now) and closure.closes_nodes(later.now)
        if closure.kind is ClosureKind.RESERVATION and is_chosen:
            again = plan_of(later).chosen_nodes.get(closure.id, closure.nodes)
            assert set(closure.nodes) <= set(again), (closure, again)


def the_holders_gang_starts_on_the_minute(snapshot: Snapshot) -> None:
    """A gang that fits what its queue has reserved is admitted in the first turn of the window, if its quota allows."""
    plan = plan_of(snapshot)
    cleared = drained(apply(snapshot, plan))
    (reservation,) = cleared.closures
    free = {
        name: cleared.nodes[name][0].get(GPU) - cleared.nodes[name][1].get(GPU) for name in reservation.nodes
    }
    whole = sum(free.values()) >= reservation.amounts[GPU]
    gang = cleared.pending.get(WorkloadKey(kind_names.JOB, "booked"))
    if not whole or gang is None:
        return  # too few nodes, or it had a place at once
    size = gang.pod_sets[0].takes[GPU]
    places = sum(free[name] // size for name in reservation.nodes if _takes_plain_pods(cleared, name))
    if places < gang.minimum:
        return  # it does not fit these nodes
    start, memo = replace(cleared, now=reservation.start), Memo()
    decided, _ = decide(start, memo)
    if gang.key not in {each.workload for each in decided.admits}:
        reason = decided.reasons[gang.key]
        # The quota of a flavor leaves nodes out.
        left_out = reason.facts.get("excluded", {}).get("of other flavors")
        by_quota = reason.code == ReasonCode.QUEUE_LIMIT or "queue" in reason.facts or left_out
        assert by_quota, reason


def _takes_plain_pods(snapshot: Snapshot, name: NodeName) -> bool:
    column = snapshot.nodes.layout.position[name]
    return not any(
        taint.effect in ("NoSchedule", "NoExecute") for taint in snapshot.nodes.layout.taints.of(column)
    )
