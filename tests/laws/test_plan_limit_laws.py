"""A plan is bounded: turns go on where the last one stopped, and come to where one large turn would have come."""

from collections.abc import Callable
from functools import partial
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.plan_limit import NO_LIMIT
from admission.engine.snapshot import Snapshot
from queues.admissions import AdmissionState
from queues.plan import Plan
from queues.workload import NodeName, WorkloadKey
from tests.laws.laws import decision
from tests.laws.worlds.plan_effects import apply
from tests.laws.worlds.snapshots import snapshots

worlds = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
limits = st.integers(1, 5)


def sizes(plan: Plan) -> list[int]:
    """Seats that each change of a plan is about, at least one."""
    counts = [
        *(len(free.seats) for free in plan.frees),
        *(1 for _ in (*plan.evicts, *plan.starts)),
        *(len(adopt.admit.seats) for adopt in plan.adopts),
        *(len(admit.seats) for admit in plan.admits),
    ]
    return [max(1, count) for count in counts]


def played(snapshot: Snapshot, limit: int) -> tuple[Snapshot, int]:
    """Turns until a plan has not stopped: the world then, and the number of turns."""
    memo, turns = Memo(), 0
    while True:
        plan, memo = decide(snapshot, memo, limit)
        snapshot, turns = apply(snapshot, plan, last=max([1000, *snapshot.admissions])), turns + 1
        if not plan.stopped:
            return snapshot, turns
        assert turns < 200


def seats(snapshot: Snapshot) -> dict[WorkloadKey, list[tuple[str, int, NodeName]]]:
    found: dict[WorkloadKey, list[tuple[str, int, NodeName]]] = {}
    for admission in snapshot.admissions.values():
        if admission.state is AdmissionState.OPEN:
            held = ((seat.pod_set, seat.ordinal, seat.node) for seat in admission.holding())
            found.setdefault(admission.workload, []).extend(held)
    return {key: sorted(held) for key, held in found.items() if held}


@worlds
@given(snapshots(), limits)
def test_a_plan_stops_at_its_limit(snapshot: Snapshot, limit: int) -> None:
    plan, _ = decide(snapshot, Memo(), limit)
    if plan.stopped:
        assert sum(sizes(plan)[:-1]) < limit, "only the last change may go beyond the limit"
        assert sum(sizes(plan)) >= limit
    else:
        assert plan == decide(snapshot, Memo(), NO_LIMIT)[0]


@worlds
@given(snapshots(), limits)
def test_turns_with_a_limit_are_decided_as_without_a_memo(snapshot: Snapshot, limit: int) -> None:
    memo = Memo()
    for _ in range(6):
        plan, memo = decide(snapshot, memo, limit)
        assert plan == decide(snapshot, Memo(), limit)[0]
        snapshot = apply(snapshot, plan, last=max([1000, *snapshot.admissions]))


@worlds
@given(snapshots(), limits)
def test_turns_go_on_to_where_one_turn_would_have_come(snapshot: Snapshot, limit: int) -> None:
    """Nothing in these worlds says when running work ends, so no reservation depends on what was admitted meanwhile."""
    at_once, _ = played(snapshot, NO_LIMIT)
    in_turns, _ = played(snapshot, limit)
    assert seats(in_turns) == seats(at_once)


@pytest.mark.parametrize(
    "law",
    [
        decision.no_queue_above_a_limit,
        decision.no_node_above_what_it_has,
        decision.gangs_whole_or_nothing,
        decision.stopped_queues_admit_nothing,
    ],
)
def test_laws_of_a_plan_hold_for_one_that_has_stopped(law: Callable[[Snapshot], None]) -> None:
    @worlds
    @given(snapshots(), limits)
    def holds(snapshot: Snapshot, limit: int) -> None:
        with mock.patch.object(decision.engine, "decide", partial(decide, limit=limit)):
            law(snapshot)

    holds()
