"""How many nodes may be out, and which go next."""

from dataclasses import replace
from typing import Any

import pytest

from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.state import RecoveryPhase, RecoveryState
from admission.node_recovery.step import circuit_breaker, plan
from admission.node_recovery.view import NodeView, TaintOwner
from queues.workload import NodeName
from tests.unit.admission.node_recovery.recovered_nodes import NOW, POLICY, XID, state

Views = dict[NodeName, NodeView]
ONE_OUT = replace(POLICY, max_nodes_out=1)


def faulty(name: str, since: int = XID.since, **more: Any) -> NodeView:
    return NodeView(name=NodeName(name), faults=(XID._replace(since=since),), **more)


def cluster(*views: NodeView) -> Views:
    return {view.name: view for view in views}


def granted(views: Views, policy: FaultPolicy = ONE_OUT) -> list[str]:
    return sorted(circuit_breaker(views, policy, NOW).granted)


def test_the_oldest_fault_comes_first() -> None:
    assert granted(cluster(faulty("a", since=20), faulty("b", since=10))) == ["b"]


def test_of_equal_age_the_first_by_name_comes_first() -> None:
    assert granted(cluster(faulty("b"), faulty("a"))) == ["a"]


def test_a_node_that_is_out_takes_a_place() -> None:
    out = state(RecoveryPhase.FAILED)
    tainted = NodeView(name=NodeName("a"), taint=TaintOwner.MUSTER, annotation=out.annotation())
    assert granted(cluster(tainted, faulty("b"))) == ["a"]


@pytest.mark.parametrize("more", [{"taint": TaintOwner.PERSON}, {"cordoned": True}, {"ready": False}])
def test_a_node_that_takes_no_work_for_another_reason_takes_a_place(more: dict[str, Any]) -> None:
    assert "b" not in granted(cluster(NodeView(name=NodeName("a"), **more), faulty("b")))


@pytest.mark.parametrize("more", [{"cordoned": True}, {"ready": False}])
def test_a_faulty_node_does_not_keep_itself_from_its_recovery(more: dict[str, Any]) -> None:
    assert granted(cluster(faulty("a", since=20, **more), faulty("b", since=30))) == ["a"]
    assert granted(cluster(faulty("a", since=20, **more), NodeView(name=NodeName("b"), **more))) == []


def test_an_accepted_fault_takes_no_place() -> None:
    accepted = RecoveryState(since=1, accepted=("GPU-3/Xid79",)).annotation()
    assert granted(cluster(faulty("b", since=2, annotation=accepted), faulty("c"))) == ["c"]


def test_without_a_number_of_a_few_nodes_one_may_go() -> None:
    policy = replace(ONE_OUT, max_nodes_out=None)
    assert granted(cluster(faulty("a"), faulty("b")), policy) == ["a"]


def test_a_plan_takes_out_what_is_allowed_and_has_the_others_wait() -> None:
    turns = plan(cluster(faulty("a"), faulty("b"), faulty("c"), NodeView(name=NodeName("d"))), ONE_OUT, NOW)
    assert {name: turn.state.phase for name, turn in turns.items()} == {
        "a": RecoveryPhase.DRAINING,
        "b": RecoveryPhase.NONE,
        "c": RecoveryPhase.NONE,
    }


def test_the_order_of_the_nodes_decides_nothing() -> None:
    views = cluster(faulty("c", since=3), faulty("a", since=5), faulty("b", since=3))
    backwards = dict(reversed(views.items()))
    assert plan(views, ONE_OUT, NOW) == plan(backwards, ONE_OUT, NOW)
