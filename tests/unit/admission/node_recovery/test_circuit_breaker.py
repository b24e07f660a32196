"""How many nodes may be out, and which go next."""

from dataclasses import replace
from typing import Any

import pytest

from admission.node_recovery.circuit_breaker import most_out, recovery_context
from admission.node_recovery.plan import plan
from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.state import RecoveryPhase, RecoveryState
from admission.node_recovery.view import NodeView, TaintOwner
from queues.workload import NodeName
from tests.unit.admission.node_recovery.recovered_nodes import NOW, POLICY, XID, state

Views = dict[NodeName, NodeView]
ONE_OUT = replace(POLICY, max_nodes_out=1, max_percent_out=None)


def faulty(name: str, since: int = XID.since, **more: Any) -> NodeView:
    return NodeView(name=NodeName(name), faults=(XID._replace(since=since),), **more)


def cluster(*views: NodeView) -> Views:
    return {view.name: view for view in views}


def granted(views: Views, policy: FaultPolicy = ONE_OUT) -> list[str]:
    return sorted(recovery_context(views, policy, NOW, templates=frozenset()).granted)


@pytest.mark.parametrize(
    ("count", "percent", "nodes", "most"),
    [
        (None, None, 1000, None),
        (3, None, 1000, 3),
        (None, 10, 1000, 100),
        (None, 10, 19, 1),
        (None, 10, 5, 1),
        (None, 0, 1000, 0),
        (3, 10, 1000, 3),
        (3, 10, 20, 2),
        (0, 10, 20, 0),
    ],
)
def test_the_smaller_bound_counts(
    count: int | None, percent: int | None, nodes: int, most: int | None
) -> None:
    assert most_out(FaultPolicy(max_nodes_out=count, max_percent_out=percent), nodes) == most


def test_the_oldest_fault_comes_first() -> None:
    assert granted(cluster(faulty("a", since=20), faulty("b", since=10))) == ["b"]


def test_of_equal_age_the_first_by_name_comes_first() -> None:
    assert granted(cluster(faulty("b"), faulty("a"))) == ["a"]


def test_a_node_that_is_out_takes_a_place() -> None:
    out = state(RecoveryPhase.FAILED)
    tainted = NodeView(name=NodeName("a"), taint=TaintOwner.MUSTER, annotation=out.annotation())
    assert granted(cluster(tainted, faulty("b"))) == ["a"]


@pytest.mark.parametrize(
    "more", [{"taint": TaintOwner.PERSON}, {"order": "cordon"}, {"cordoned": True}, {"ready": False}]
)
def test_a_node_that_takes_no_work_for_another_reason_takes_a_place(more: dict[str, Any]) -> None:
    assert "b" not in granted(cluster(NodeView(name=NodeName("a"), **more), faulty("b")))


@pytest.mark.parametrize("more", [{"cordoned": True}, {"ready": False}])
def test_a_faulty_node_does_not_keep_itself_from_its_recovery(more: dict[str, Any]) -> None:
    assert granted(cluster(faulty("a", since=20, **more), faulty("b", since=30))) == ["a"]
    assert granted(cluster(faulty("a", since=20, **more), NodeView(name=NodeName("b"), **more))) == []


def test_an_order_that_takes_nothing_out_takes_no_place() -> None:
    assert granted(cluster(NodeView(name=NodeName("a"), order="done"), faulty("b"))) == ["b"]


def test_a_node_on_hold_and_an_accepted_fault_take_no_place() -> None:
    accepted = RecoveryState(since=1, accepted=("GPU-3/Xid79",)).annotation()
    assert granted(
        cluster(faulty("a", since=1, hold=True), faulty("b", since=2, annotation=accepted), faulty("c"))
    ) == ["c"]


def test_without_a_bound_all_may_go() -> None:
    policy = replace(ONE_OUT, max_nodes_out=None)
    assert granted(cluster(faulty("a"), faulty("b")), policy) == ["a", "b"]


def test_a_plan_takes_out_what_is_allowed_and_has_the_others_wait() -> None:
    turns = plan(cluster(faulty("a"), faulty("b"), faulty("c"), NodeView(name=NodeName("d"))), ONE_OUT, NOW)
    assert {name: turn.state.phase for name, turn in turns.items()} == {
        "a": RecoveryPhase.CORDONED,
        "b": RecoveryPhase.NONE,
        "c": RecoveryPhase.NONE,
    }


def test_the_order_of_the_nodes_decides_nothing() -> None:
    views = cluster(faulty("c", since=3), faulty("a", since=5), faulty("b", since=3))
    backwards = dict(reversed(views.items()))
    assert plan(views, ONE_OUT, NOW) == plan(backwards, ONE_OUT, NOW)
