"""Reservations of a tenant's administrators, and the tenant's work beside them: together what the tenant deserves.

Four nodes of eight GPUs; tenants ``team`` and ``others`` deserve 16 each.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues.node_closures import NodeClosure
from queues.plan import Plan
from queues.quota.queue import ROOT, Limits, Queue
from queues.reason_codes import ReasonCode
from queues.workload import NodeName, QueueName, Workload
from tests.builders.closures.closed_nodes import OTHERS, START, TEAM, gpus, reservation, workload, world
from tests.builders.decided_work import plan_of
from tests.laws.worlds.plan_effects import apply, drained

FIRST, SECOND = QueueName("team-1"), QueueName("team-2")
SIXTEEN = Limits(deserved=gpus(16))
QUEUES: Mapping[QueueName, Queue] = {
    **{name: Queue(name=name, parent=ROOT, limits=SIXTEEN) for name in (TEAM, OTHERS)},
    **{name: Queue(name=name, parent=TEAM) for name in (FIRST, SECOND)},
}
ON = tuple(NodeName(name) for name in ("n0", "n1"))
KEPT = reservation(of_tenant=True, nodes=ON)


def own(name: str, queue: QueueName = FIRST, pods: int = 1, each: int = 8) -> Workload:
    return workload(name, queue=queue, pods=pods, each=each)


def turns(snapshot: Snapshot, count: int) -> tuple[Snapshot, list[Plan]]:
    """After so many turns, each with the pods of victims gone before the next one."""
    plans, memo = [], Memo()
    for _ in range(count):
        plan, memo = decide(snapshot, memo)
        plans.append(plan)
        snapshot = drained(apply(snapshot, plan))
    return snapshot, plans


def running(snapshot: Snapshot) -> set[str]:
    return {each.name for each in snapshot.admissions.values()}


def victims(snapshot: Snapshot) -> dict[str, ReasonCode]:
    plan = plan_of(snapshot)
    return {snapshot.admissions[each.admission].name: each.code for each in plan.evicts}


FOREIGN = (workload("b0"), workload("b1"))


@pytest.mark.parametrize("now", [START - 3000, START + 10], ids=["in the lead time", "in the window"])
def test_what_a_tenant_uses_beside_kept_nodes_is_reclaimed(now: int) -> None:
    beside = {"n2": (own("a0"),), "n3": (own("a1", SECOND),)}
    found, plans = turns(world(now, KEPT, running=beside, pending=FOREIGN, queues=QUEUES), 2)
    assert {each.code for each in plans[0].evicts} == {ReasonCode.RECLAIMED}
    assert "queue team uses 32 nvidia.com/gpu (16 of it idle nodes that it has reserved)" in (
        plans[0].evicts[0].message
    )
    moved = {"a0", "a1"} if now >= START else set[str]()
    assert running(found) == {"b0", "b1"} | moved, "its own work moves to the nodes that are kept for it"


def test_what_a_tenant_asks_beside_kept_nodes_comes_after_what_others_deserve() -> None:
    waiting = (own("a0"), own("a1", SECOND), *FOREIGN)
    found, _ = turns(world(START - 3000, KEPT, pending=waiting, queues=QUEUES), 3)
    assert running(found) == {"b0", "b1"}


def test_a_gang_that_is_partly_on_kept_nodes_is_not_kept_elsewhere() -> None:
    gang = replace(own("gang", pods=2), created=START - 10_000)
    seats = {"n1": (gang,), "n3": (own("a1"),)}
    assert victims(world(START, KEPT, running=seats, pending=FOREIGN[:1], queues=QUEUES)) == {
        "a1": ReasonCode.RECLAIMED
    }
    seats = {"n1": (gang,)}
    held = replace(KEPT, nodes=(NodeName("n0"), NodeName("n1"), NodeName("n3")), amounts=gpus(24))
    assert victims(world(START, held, running=seats, pending=FOREIGN[:1], queues=QUEUES)) == {
        "gang": ReasonCode.RECLAIMED
    }


def test_a_wish_to_stay_keeps_nothing_beyond_the_right() -> None:
    beside = {"n2": (replace(own("a0"), preemptable=False),), "n3": (replace(own("a1"), min_run_time=10**6),)}
    queues = {**QUEUES, FIRST: Queue(name=FIRST, parent=TEAM, limits=SIXTEEN)}
    found = victims(world(START, KEPT, running=beside, pending=FOREIGN, queues=queues))
    assert set(found.values()) == {ReasonCode.RECLAIMED}
    assert set(found) == {"a0", "a1"}
    assert not victims(world(START, running=beside, pending=(*FOREIGN, workload("b2")), queues=queues))


def test_the_holder_enters_its_nodes_and_is_not_reclaimed_there() -> None:
    waiting = (own("a0"), own("a1"), *FOREIGN)
    found, plans = turns(world(START, KEPT, pending=waiting, queues=QUEUES), 3)
    assert running(found) == {"a0", "a1", "b0", "b1"}
    assert not any(plan.evicts for plan in plans)


def halves(*, at: int, **changes: object) -> Snapshot:
    """Each node has half of its GPUs for each tenant; a reservation of 16 is due."""
    seats = {f"n{node}": (own(f"a{node}", each=4), workload(f"b{node}", each=4)) for node in range(4)}
    return world(at, replace(KEPT, **changes), running=seats, queues=QUEUES)  # type: ignore[arg-type]


def test_nothing_is_cleared_for_a_tenant_that_has_all_that_it_deserves() -> None:
    plan = plan_of(halves(at=START, nodes=()))
    assert not plan.evicts
    assert not plan.chosen_nodes.get("reservation/night")
    assert not victims(halves(at=START)), "nor where its nodes were chosen before"


def test_for_a_platform_administrator_nodes_are_cleared_as_ever() -> None:
    found = victims(halves(at=START, of_tenant=False))
    assert found == {"b0": ReasonCode.NODES_RESERVED, "b1": ReasonCode.NODES_RESERVED}


def test_what_the_right_allows_is_cleared() -> None:
    """The tenant uses 8 GPUs on other nodes: one of the two nodes is cleared."""
    seats = {"n0": (workload("b0"),), "n1": (workload("b1"),), "n2": (own("a0"),)}
    assert victims(world(START, KEPT, running=seats, queues=QUEUES)) == {"b0": ReasonCode.NODES_RESERVED}


def chosen_nodes(*closures: NodeClosure, running: dict[str, tuple[Workload, ...]]) -> list[tuple[str, ...]]:
    """Nodes of these reservations in their lead time."""
    plan = plan_of(world(START - 3000, *closures, running=running, queues=QUEUES))
    return [*plan.chosen_nodes.values()]


def test_nodes_of_its_own_work_are_chosen_where_others_would_be_beyond_the_right() -> None:
    seats = {"n0": (workload("b0"),), "n2": (own("a0"),), "n3": (own("a1", SECOND),)}
    (chosen,) = chosen_nodes(replace(KEPT, nodes=()), running=seats)
    assert set(chosen) == {"n2", "n3"}
    (chosen,) = chosen_nodes(replace(KEPT, nodes=(), amounts=gpus(8)), running={"n2": (own("a0"),)})
    assert chosen == ("n0",), "an empty node is better where the right allows it"


def test_two_reservations_of_a_tenant_count_together() -> None:
    seats = {"n3": (own("a0"),)}
    first = replace(KEPT, nodes=(), amounts=gpus(8), queue=FIRST)
    second = replace(first, name="second", queue=SECOND)
    found = chosen_nodes(first, second, running=seats)
    assert sorted(map(len, found)) == [1, 1]
    assert ("n3",) in found, "of two empty nodes one would be beyond the right"
