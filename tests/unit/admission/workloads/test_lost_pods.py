"""Pods that are being deleted on nodes that do not answer."""

from typing import Any

from admission.facts.cluster import NodeFact
from admission.workloads.ended_seats import lost_pods
from admission.workloads.inputs import Timeouts, WorkloadInputs
from queues.workload import NodeName, Taint
from tests.builders.facts import (
    JOB,
    NOW,
    VOLCANO,
    admission,
    evicting,
    job,
    node,
    released,
    see,
    state_of,
    volcano_job,
    world,
)

LATE = Timeouts(dead_node=360)
N1 = NodeName("n1")


def going(name: str = "a", **facts: Any) -> Any:
    return released(name, "worker/0", "n1", deleting=True, **facts)


def silent(**more: Any) -> WorkloadInputs:
    given = {"pods": (going(ends_by=NOW),), "silent_nodes": {N1: NOW - 100}, **more}
    return WorkloadInputs(key=VOLCANO, fact=volcano_job(1), admissions=(), arrival=1, **given)


def test_it_counts_as_gone_so_long_after_its_grace_period_and_after_the_node_fell_silent() -> None:
    assert lost_pods(silent(), NOW + 359, LATE).gone == ()
    assert [pod.name for pod in lost_pods(silent(), NOW + 360, LATE).gone] == ["a"]
    later = silent(silent_nodes={N1: NOW + 50})
    assert lost_pods(later, NOW + 360, LATE).gone == ()
    assert lost_pods(later, NOW + 410, LATE).gone != ()


def test_it_is_told_when_that_will_be(golden: Any) -> None:
    reason = lost_pods(silent(), NOW, LATE).reason
    assert reason.code == "NodeNotReady"
    assert reason.message == golden


def test_a_node_that_somebody_vouches_for_is_not_waited_for() -> None:
    assert lost_pods(silent(silent_nodes={N1: None}), NOW, LATE).gone != ()


def test_with_the_setting_at_zero_it_never_counts_as_gone_by_itself() -> None:
    found = lost_pods(silent(), NOW + 10**6, Timeouts(dead_node=0))
    assert found.gone == ()
    assert found.reason is not None
    assert lost_pods(silent(silent_nodes={N1: None}), NOW, Timeouts(dead_node=0)).gone != ()


def test_pods_that_stay_or_have_ended_or_are_on_nodes_that_answer_are_left_alone() -> None:
    others = (released("stays", "worker/0", "n1"), released("b", "worker/1", "n2", deleting=True))
    assert lost_pods(silent(pods=others), NOW + 10**6, LATE).gone == ()


def test_a_pod_that_nobody_deletes_keeps_its_seat_on_a_silent_node() -> None:
    stays = released("stays", "worker/0", "n1", owner=VOLCANO)
    taken = admission(VOLCANO, "n1", started=True)
    found = state_of(volcano_job(1), [stays], [taken], now=NOW + 10**6, silent_nodes={N1: NOW})
    assert (dict(found.evictable), found.problem) == ({}, None)
    assert (dict(found.ended), found.lost) == ({}, ())


def test_a_gang_that_waits_for_such_a_pod_says_so_and_is_looked_at_again() -> None:
    taken = admission(VOLCANO, "n1", started=True)
    found = state_of(volcano_job(1), [going(ends_by=NOW)], [taken], silent_nodes={N1: NOW})
    assert found.look_at == 0
    assert found.problem.code == "NodeNotReady"


def down(**facts: Any) -> NodeFact:
    return node("n1", ready=False, not_ready_since=NOW - 1000, **facts)


def test_the_world_knows_nodes_that_do_not_answer() -> None:
    leaving = going(owner=VOLCANO, ends_by=NOW - 900)
    known = world([down(), volcano_job(1), leaving], [admission(VOLCANO, "n1", started=True)])
    assert [pod.uid for pod in known.states[VOLCANO].lost] == ["a"]
    see(known, node("n1"))
    assert known.states[VOLCANO].lost == (), "its kubelet answers: it confirms when the pod has ended"


def test_the_taint_counts_on_nodes_that_are_not_ready_only() -> None:
    out = (Taint(key="node.kubernetes.io/out-of-service", value="nodeshutdown", effect="NoExecute"),)
    leaving = going(owner=VOLCANO, ends_by=NOW)
    held = [admission(VOLCANO, "n1", started=True)]
    off = node("n1", ready=False, not_ready_since=NOW, taints=out)
    known = world([off, volcano_job(1), leaving], held)
    assert [pod.uid for pod in known.states[VOLCANO].lost] == ["a"]
    known = world([node("n1", taints=out), volcano_job(1), leaving], held)
    assert known.states[VOLCANO].lost == ()


def test_while_it_goes_back_the_reason_names_the_node() -> None:
    found = state_of(
        job(1, suspended=True),
        [released("a", None, "n1", deleting=True, ends_by=NOW)],
        [evicting(admission(JOB, "n1"))],
        silent_nodes={N1: NOW},
    )
    assert found.workload.obstacle.code == "Evicting"
    assert "node n1, which is not ready" in found.workload.obstacle.message
