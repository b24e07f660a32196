"""Laws of the engine (design §6), on random worlds. Each law is a function that a planted bug must break."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.table import NodeTable
from admission.engine.plan_limit import NO_LIMIT
from admission.engine.snapshot import Snapshot
from queues.admissions import AdmissionState
from queues.plan import Plan
from queues.quota.queue import ROOT
from queues.workload import NodeName, WorkloadKey
from tests.bench.simulate import gang_trace, rules
from tests.bench.simulate.gangs import Simulation
from tests.laws.laws import decision
from tests.laws.worlds.plan_effects import apply
from tests.laws.worlds.settings import in_worlds, law_test
from tests.laws.worlds.snapshots import snapshots
from tests.unit.bench.test_simulated_gangs import busy, folder

worlds = in_worlds(60)


test_no_admission_raises_a_queue_above_a_limit = law_test(
    decision.no_queue_above_a_limit, snapshots(), worlds
)
test_no_admission_raises_a_node_above_what_it_has = law_test(
    decision.no_node_above_what_it_has, snapshots(), worlds
)
test_a_gang_is_admitted_whole_or_not_at_all = law_test(decision.gangs_whole_or_nothing, snapshots(), worlds)
test_every_pending_workload_is_in_the_plan_or_has_one_reason = law_test(
    decision.in_the_plan_or_one_reason, snapshots(), worlds
)
test_pods_stay_in_one_domain_of_the_level_they_require = law_test(
    decision.required_topology_kept, snapshots(), worlds
)
test_parts_lie_in_one_domain_each_and_join_whole = law_test(decision.parts_kept, snapshots(), worlds)
test_pod_sets_that_go_together_lie_in_one_domain = law_test(decision.sets_together, snapshots(), worlds)
test_a_host_port_is_given_to_one_pod_of_a_node = law_test(decision.ports_alone, snapshots(), worlds)
test_pods_go_only_to_nodes_that_their_filter_allows = law_test(
    decision.only_allowed_nodes, snapshots(), worlds
)
test_queues_that_are_paused_closed_broken_or_not_leaves_admit_nothing = law_test(
    decision.stopped_queues_admit_nothing, snapshots(), worlds
)


@worlds
@given(snapshots())
def test_queues_on_hold_admit_nothing_new(snapshot: Snapshot) -> None:
    held = {name: replace(queue, hold="it moves") for name, queue in snapshot.queues.items() if name != ROOT}
    decision.stopped_queues_admit_nothing(replace(snapshot, queues=held))


test_the_order_of_the_input_does_not_matter = law_test(
    decision.independent_of_order, snapshots(), worlds, st.integers()
)


@worlds
@given(snapshots(), snapshots())
def test_the_memo_only_saves_time(before: Snapshot, snapshot: Snapshot) -> None:
    _, memo = decide(before, Memo())
    assert decide(snapshot, memo)[0] == decide(snapshot, Memo())[0]


@worlds
@given(snapshots(), st.integers(0, 7), st.integers(0, 120))
def test_the_memo_only_saves_time_after_a_small_change(snapshot: Snapshot, gone: int, later: int) -> None:
    plan, memo = decide(snapshot, Memo())
    after = apply(snapshot, plan)
    for turn in range(3):
        changed = replace(after, now=after.now + later * turn)
        if turn == 2:
            keys: list[WorkloadKey] = sorted(after.pending)
            changed = replace(
                changed, pending={k: after.pending[k] for k in keys[: max(0, len(keys) - gone)]}
            )
        with_memo, memo = decide(changed, memo)
        assert with_memo == decide(changed, Memo())[0]


@pytest.mark.parametrize("fades", ["", "3600"])
def test_every_turn_of_a_trace_is_decided_as_without_a_memo(tmp_path: Path, fades: str) -> None:
    turns = 0

    def compare(snapshot: Snapshot, plan: Plan) -> None:
        nonlocal turns
        turns += 1
        assert decide(snapshot, Memo())[0] == plan

    made = folder(tmp_path, *busy(20))
    (made / "queues.csv").write_text(f"tenant,quota_gpus,usage_half_life_s\na,16,{fades}\nb,16,{fades}\n")
    case = gang_trace.load(made)
    for snapshot, plan in Simulation(case, rules.under(rules.DEFAULT, case.queues)).turns():
        compare(snapshot, plan)

    assert turns > 50


test_at_a_frozen_time_turns_reach_a_fixed_point = law_test(
    decision.reaches_a_fixed_point, snapshots(), worlds
)
test_nobody_who_fits_is_left_out = law_test(decision.nobody_who_fits_is_left_out, snapshots(), worlds)
test_a_refusal_leaves_no_trace = law_test(decision.refusals_leave_no_trace, snapshots(), worlds)


def test_an_empty_world_has_an_empty_plan() -> None:
    plan, _ = decide(Snapshot(now=0, queues={}, nodes=NodeTable.build(()), pending={}, admissions={}), Memo())
    assert not plan.changes_ledger()
    assert plan.reasons == {}


# ── a plan is bounded ───────────────────────────────────────────────────────────────────────────────────────────

limits = st.integers(1, 5)


def sizes(plan: Plan) -> list[int]:
    """Seats that each change of a plan is about, at least one."""
    counts = [
        *(len(free.seats) for free in plan.frees),
        *(1 for _ in (*plan.evicts, *plan.starts)),
        *(len(adopt.admit.seats) for adopt in plan.adopts),
        # What a workload gets in one go is a change, be it in parts.
        *(
            sum(len(each.seats) for each in parts)
            for _, parts in groupby(plan.admits, key=lambda each: each.workload)
        ),
    ]
    return [max(1, count) for count in counts]


def played(snapshot: Snapshot, limit: int) -> Snapshot:
    """The world when a turn has nothing left to do."""
    memo = Memo()
    for _ in range(300):
        plan, memo = decide(snapshot, memo, limit)
        snapshot = apply(snapshot, plan, last=max([1000, *snapshot.admissions]))
        if not plan.stopped and not plan.changes_ledger():
            return snapshot
    raise AssertionError("no turn has nothing left to do")


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
def test_a_plan_with_a_limit_is_the_beginning_of_the_plan_without(snapshot: Snapshot, limit: int) -> None:
    whole, _ = decide(snapshot, Memo(), NO_LIMIT)
    part, _ = decide(snapshot, Memo(), limit)
    for found, all_of_them in (
        (part.frees, whole.frees),
        (part.adopts, whole.adopts),
        (part.starts, whole.starts),
        (part.admits, whole.admits),
    ):
        assert found == all_of_them[: len(found)]


def tried_at_once(snapshot: Snapshot) -> Snapshot:
    """The same, but all pods of a gang start together, none joins later and none has ended; and no queue has its
    workloads wait for others of it that wait (``maxPending``)."""
    pending = {
        key: replace(
            workload,
            minimum=sum(pods.count for pods in workload.pod_sets),
            pod_sets=tuple(replace(pods, minimum=pods.count) for pods in workload.pod_sets),
        )
        for key, workload in snapshot.pending.items()
    }
    queues = {
        name: replace(queue, max_pending=None, max_pending_per_user=None)
        for name, queue in snapshot.queues.items()
    }
    return replace(snapshot, pending=pending, queues=queues, ended={})


@pytest.mark.long
@worlds
@given(snapshots().map(tried_at_once), limits)
def test_turns_with_a_limit_end_where_turns_without_one_end(snapshot: Snapshot, limit: int) -> None:
    """Not after one turn: the turn after an admission may take it back for a gang that starves.

    What has ended asks for nothing once it was given back; in these worlds it may ask in the same turn. Nothing in them
    says when running work ends, so no reservation depends on what was admitted meanwhile. A gang that gets its minimum
    asks for its other pods from the next turn on, and a queue with ``maxPending`` tries further workloads once others
    got in: there it matters which workloads are tried after them in the same turn.
    """
    assert seats(played(snapshot, limit)) == seats(played(snapshot, NO_LIMIT))


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
