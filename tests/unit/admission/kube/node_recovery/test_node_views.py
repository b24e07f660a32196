"""What the recovery of a node sees of the pods on it."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.changes import Change, FactKind
from admission.facts.pods import PodPhase
from admission.kube.node_recovery import RecoveryJobs, node_view
from admission.node_recovery.step import NodeView
from queues.quota.queue import NodeRecoveryRules
from queues.resources import Resources
from queues.workload import NodeName
from tests.builders.facts import NOW, TEAM, VOLCANO, admission, node, pod, queue, released, volcano_job, world
from tests.builders.node_agents.node_devices import node_devices

N1 = NodeName("n1")
NO_DEVICES = Resources({"pods": 1})


def view_of(*facts: Any, admissions: Any = (), has: tuple[str, ...] = (), **changes: Any) -> NodeView:
    """The view of node n1. ``has``: uids of pods that have GPU 5 there, as the agent reports it."""
    root = queue("root", parent=None, node_recovery=NodeRecoveryRules(job="ops/repair"))
    held = world(
        (root, queue(TEAM), node("n1", **changes), *facts), admissions, {VOLCANO: 1} if admissions else None
    )
    report = node_devices("n1", faulty=(3,), holders={uid: frozenset({5}) for uid in has})
    held.observe([Change(FactKind.NODE_DEVICES, "n1", report)])
    held.refresh(NOW)
    return node_view(held, RecoveryJobs(), N1, "", "")


def notebook(**more: Any) -> Any:
    return replace(pod("notebook", "n1", takes=NO_DEVICES), **more)


@pytest.mark.parametrize(
    ("seen", "has", "foreign"),
    [
        (notebook(), (), 0),
        (notebook(), ("notebook",), 1),
        (notebook(claims_uncounted=True), (), 1),
        (notebook(claims_uncounted=True), ("notebook",), 1),
        (pod("notebook", "n1"), ("notebook",), 1),
        (notebook(), ("gone",), 0),
        (notebook(node=NodeName("n2")), ("notebook",), 0),
        (notebook(phase=PodPhase.SUCCEEDED), ("notebook",), 0),
        (notebook(namespace="ops"), ("notebook",), 0),
    ],
    ids=[
        "without devices",
        "has one by the agent's word",
        "has claimed what nothing counts",
        "counts once for both",
        "counts once for its request as well",
        "the agent's word is older than the pod",
        "is on another node",
        "has ended",
        "is of a recovery Job",
    ],
)
def test_a_pod_of_others_occupies_the_node_if_it_may_have_a_device(
    seen: Any, has: tuple[str, ...], foreign: int
) -> None:
    assert view_of(seen, has=has).foreign_pods == foreign


@pytest.mark.parametrize("uncounted", [False, True])
def test_a_gang_occupies_the_node_if_its_pod_has_a_device_that_is_not_counted(uncounted: bool) -> None:
    held = admission(VOLCANO, "n1", started=True)
    held = replace(held, seats=tuple(replace(seat, takes=NO_DEVICES) for seat in held.seats))
    member = released("a", "worker/0", "n1", by=1, owner=VOLCANO, owner_name="train", bound_at=NOW)
    member = replace(member, shape=replace(member.shape, takes=NO_DEVICES), claims_uncounted=uncounted)
    seen = view_of(volcano_job(1), member, admissions=[held])
    assert [gang.key for gang in seen.gangs] == ([VOLCANO] if uncounted else [])
    assert seen.foreign_pods == 0
    reported = view_of(volcano_job(1), member, admissions=[held], has=("a",))
    assert [gang.devices for gang in reported.gangs] == [frozenset({5})]
    assert reported.foreign_pods == 0
