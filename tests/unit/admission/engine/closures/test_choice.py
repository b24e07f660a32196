"""Which nodes a reservation gets, and what closed nodes mean to one workload, by example."""

from dataclasses import replace

import pytest

from admission.engine.closures.closing import NOTHING_CLOSED
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission, Seat
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, NodeName, QueueName, WorkloadKey
from tests.builders.closures.closed_nodes import START, TEAM, drain, gpus, reservation, workload, world
from tests.builders.decided_work import admitted, plan_of


def chosen(snapshot: Snapshot) -> tuple[str, ...]:
    return plan_of(snapshot).chosen_nodes.get("reservation/night", ())


def test_no_node_is_chosen_before_the_lead_time() -> None:
    assert chosen(world(START - 3601, reservation())) == ()
    assert len(chosen(world(START - 3600, reservation()))) == 2


def test_empty_nodes_are_chosen_first() -> None:
    running = {"n0": (workload("a"),), "n2": (workload("b"),)}
    assert chosen(world(START - 3600, reservation(), running=running)) == ("n1", "n3")


def test_work_that_ends_in_time_is_better_than_work_that_is_cut_off() -> None:
    ends = workload("ends", run_time=10_000 - 200)
    running = {"n0": (workload("a"),), "n1": (ends,), "n2": (workload("b"),)}
    assert chosen(world(START - 3600, reservation(), running=running)) == ("n1", "n3")


def test_the_node_of_a_single_pod_is_better_than_one_of_a_gang() -> None:
    running = {"n0": (workload("a"),), "n1": (workload("gang", pods=2),), "n3": (workload("c"),)}
    found = chosen(world(START - 3600, reservation(amounts=gpus(24)), running=running, nodes=5))
    assert set(found) == {"n4", "n0", "n3"}


def test_a_gang_is_cut_off_once_for_all_its_nodes() -> None:
    running = {"n0": (workload("gang", pods=2),), "n2": (workload("other", pods=2),)}
    assert chosen(world(START - 3600, reservation(), running=running)) == ("n0", "n1")


def test_nodes_of_one_rack_and_flavor_are_chosen() -> None:
    racks = {"n0": "r0", "n1": "r1", "n2": "r1", "n3": "r0"}
    running = {"n0": (workload("a"),)}
    assert chosen(world(START - 60, reservation(level="rack"), running=running, racks=racks)) == ("n1", "n2")
    flavors = {"n0": "h100", "n3": "h100"}
    found = world(START - 60, reservation(flavor="h100"), running=running, flavors=flavors)
    assert chosen(found) == ("n0", "n3")


def test_where_no_rack_has_enough_the_one_with_most_is_kept() -> None:
    racks = {"n0": "r0", "n1": "r1", "n2": "r1", "n3": "r2"}
    running = {"n1": (workload("a"),)}
    found = world(START - 60, reservation(level="rack", amounts=gpus(24)), running=running, racks=racks)
    assert chosen(found) == ("n1", "n2")


def test_what_runs_is_looked_at_once_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many reservations that lack nodes cost each turn no more than one of them."""
    looked: list[WorkloadKey] = []
    held = Snapshot.still_held

    def still_held(self: Snapshot, admission: Admission) -> tuple[Seat, ...]:
        looked.append(admission.workload)
        return held(self, admission)

    running = {"n0": (workload("a"),), "n1": (workload("b"),)}
    many = [
        reservation(
            name=f"r{number}",
            amounts=gpus(80),
            level="rack" if number % 2 else "",
            lead_from=0,
            clear_at=START + 10_000 * number,
            start=START + 10_000 * number,
            end=START + 10_000 * number + 9,
        )
        for number in range(8)
    ]
    snapshot = world(START - 60, *many, running=running)
    monkeypatch.setattr(Snapshot, "still_held", still_held)
    after, _ = NOTHING_CLOSED.follow(snapshot)
    assert len(looked) <= 4  # what they take, and when they end
    assert set(after.chosen) == {each.id for each in many}
    assert set(after.chosen["reservation/r0"]) == {"n0", "n1", "n2", "n3"}


def test_what_lacks_nodes_in_each_rack_stays_in_its_rack() -> None:
    racks = {"n0": "r0", "n1": "r0", "n2": "r1", "n3": "r1"}
    kept = reservation(level="rack", amounts=gpus(24), nodes=(NodeName("n2"), NodeName("gone")))
    found = world(START - 60, kept, running={"n3": (workload("a"),)}, racks=racks)
    assert chosen(found) == ("n2", "n3")


def test_a_drain_at_that_time_leaves_its_nodes_out() -> None:
    assert chosen(world(START - 60, reservation(), drain("n0", "n2"))) == ("n1", "n3")


def test_chosen_nodes_stay_and_lost_ones_are_replaced() -> None:
    kept = reservation(nodes=(NodeName("n0"), NodeName("n3")))
    running = {"n0": (workload("a"),), "n3": (workload("b"),)}
    assert plan_of(world(START - 3600, kept, running=running)).chosen_nodes == {}
    lost = reservation(nodes=(NodeName("n0"), NodeName("gone")))
    assert chosen(world(START - 3600, lost, running=running)) == ("n0", "n1")


def test_before_the_window_only_what_ends_in_time_is_admitted() -> None:
    held = reservation(amounts=gpus(32))
    short, late = workload("short", run_time=3000), workload("late", run_time=3600)
    waiting = (short, late, workload("unknown"), workload("own", queue=TEAM))
    assert admitted(plan_of(world(START - 3600, held, pending=waiting))) == {"short"}


@pytest.mark.parametrize("queue", [TEAM, None], ids=["of the holder", "of another queue"])
def test_the_reason_says_until_when_nodes_are_kept_and_names_no_reservation(queue: QueueName | None) -> None:
    """Workloads of several queues may share an answer."""
    waits = workload("waits") if queue is None else workload("waits", queue=queue)
    plan = plan_of(world(START - 60, reservation(amounts=gpus(32)), pending=(waits,)))
    (reason,) = plan.reasons.values()
    assert reason.code == ReasonCode.NO_FIT
    assert "(4 kept for a reservation until 1970-01-02T05:46:40Z: n0, n1, n2 and 1 more)" in reason.message


def test_the_reason_names_three_closures_and_counts_each_node_once() -> None:
    names = [f"n{number}" for number in range(6)]
    drains = [drain(*names[number:], name=f"d{number}") for number in range(6)]
    plan = plan_of(world(START, *reversed(drains), nodes=6, pending=(workload("waits"),)))
    (reason,) = plan.reasons.values()
    assert "(6 kept for nodedrain d0 from 1970-01-02T03:46:40Z on: n0, n1, n2 and 3 more)" in reason.message
    drains = [drain(name, name=f"d{number}") for number, name in enumerate(names)]
    plan = plan_of(world(START, *drains, nodes=6, pending=(workload("waits"),)))
    (reason,) = plan.reasons.values()
    assert "1 kept for nodedrain d2 from 1970-01-02T03:46:40Z on: n2, 3 kept for other" in reason.message
    assert "d3" not in reason.message


def test_a_gang_that_asks_for_a_rack_is_told_of_the_reservation_too() -> None:
    gang = workload("waits", pods=2)
    gang = replace(gang, pod_sets=(replace(gang.pod_sets[0], required_topology="rack"),))
    plan = plan_of(world(START - 60, reservation(amounts=gpus(32)), pending=(gang,)))
    (reason,) = plan.reasons.values()
    assert reason.code == ReasonCode.TOPOLOGY_NO_FIT
    assert "(4 nodes kept for a reservation until 1970-01-02T05:46:40Z: n0, n1" in reason.message


def test_a_whole_gang_is_evicted_when_one_of_its_nodes_has_to_be_clear() -> None:
    gang = workload("gang", pods=2)
    held = drain("n1")
    assert plan_of(world(START - 1, held, running={"n0": (gang,)})).evicts == ()
    (evict,) = plan_of(world(START, held, running={"n0": (gang,)})).evicts
    assert evict.code == ReasonCode.MAINTENANCE
    assert evict.message == "node n1 out of service by nodedrain fix from 1970-01-02T03:46:40Z on"


def test_the_holders_own_work_stays_on_its_nodes() -> None:
    held = reservation(nodes=(NodeName("n0"), NodeName("n1")))
    running = {"n0": (workload("own", queue=TEAM),), "n1": (workload("foreign"),)}
    (evict,) = plan_of(world(START - 120, held, running=running)).evicts
    assert evict.admission == AdmissionId(2)
    assert evict.code == ReasonCode.NODES_RESERVED
    told = "node n1 kept for a reservation until 1970-01-02T05:46:40Z"
    assert evict.message == told, "its name is not for all"


def test_in_the_window_the_holder_is_admitted_and_afterwards_all_are() -> None:
    held = reservation(amounts=gpus(32), nodes=tuple(NodeName(f"n{number}") for number in range(4)))
    own, foreign = workload("own", queue=TEAM, pods=4), workload("foreign")
    assert admitted(plan_of(world(START, held, pending=(own, foreign)))) == {"own"}
    assert admitted(plan_of(world(START + 7200, held, pending=(foreign,)))) == {"foreign"}


def test_a_memo_answers_until_the_next_change_only() -> None:
    held = reservation(amounts=gpus(32))
    snapshot = world(START - 3700, held, pending=(workload("waits", pods=5),))
    _, memo = decide(snapshot, Memo())
    assert memo.until == START - 3600
    before, memo = decide(replace(snapshot, now=START - 3601), memo)
    assert before.chosen_nodes == {}
    after, _ = decide(replace(snapshot, now=START - 3600), memo)
    assert len(after.chosen_nodes["reservation/night"]) == 4


# ── reservations of tenants' administrators ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("of_tenant", "evictions", "goes"),
    [
        pytest.param(True, 0, True, id="never evicted"),
        pytest.param(True, 1, True, id="it has run for more than an hour"),
        pytest.param(True, 3, False, id="it rests for four hours"),
        pytest.param(False, 3, True, id="not from reservations of others"),
    ],
)
def test_work_that_was_evicted_before_rests_from_reservations_of_tenants(
    of_tenant: bool, evictions: int, goes: bool
) -> None:
    """It has run for ten thousand seconds on one of both nodes."""
    other = replace(workload("other"), evictions=evictions)
    closure = reservation(of_tenant=of_tenant)
    assert bool(plan_of(world(START - 120, closure, running={"n0": (other,)}, nodes=2)).evicts) is goes


def test_work_that_rests_is_evicted_as_soon_as_it_has_rested() -> None:
    closure = reservation(of_tenant=True, end=START + 20_000)
    rested = START - 10_000 + 4 * 3600
    other = replace(workload("other"), evictions=3)
    snapshot = world(rested - 1, closure, running={"n0": (other,)}, nodes=2)
    plan, memo = decide(snapshot, Memo())
    assert plan.evicts == ()
    assert memo.until == rested
    (evict,) = decide(replace(snapshot, now=rested), memo)[0].evicts
    assert evict.code is ReasonCode.NODES_RESERVED


def test_nodes_with_work_that_would_rest_are_the_last_to_be_chosen_for_a_tenant() -> None:
    tired, other = replace(workload("tired"), evictions=3), workload("other", pods=2)
    for of_tenant, expected in ((True, ("n1", "n2")), (False, ("n0", "n3"))):
        closure = reservation(of_tenant=of_tenant, amounts=gpus(16))
        snapshot = world(START - 3600, closure, running={"n0": (tired,), "n1": (other,)}, nodes=4)
        if of_tenant:
            snapshot = replace(snapshot, nodes=snapshot.nodes.with_used({NodeName("n3"): gpus(8)}))
        assert plan_of(snapshot).chosen_nodes["reservation/night"] == expected


def test_an_eviction_for_a_reservation_counts_as_one() -> None:
    other = workload("other")
    snapshot = world(START - 120, reservation(), running={"n0": (other,)}, nodes=2)
    (evict,) = plan_of(snapshot).evicts
    assert evict.displaces
    assert not replace(evict, code=ReasonCode.MAINTENANCE).displaces
