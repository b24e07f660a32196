"""Whose pod it is: an owner reference is what a pod says of itself, and anybody may write one."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.world.world import World
from queues import kind_names
from queues.kind_names import KindName
from queues.resources import GPU
from queues.workload import NodeName, Obstacle, WorkloadKey
from tests.builders.facts import (
    GROUP,
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    admission,
    gated,
    gone,
    group,
    job,
    node,
    pod,
    released,
    see,
    seen,
    volcano_job,
    world,
)
from tests.builders.operator_jobs import fact

N1 = NodeName("n1")


def told(known: World, of: PodFact) -> Obstacle | None:
    return known.states[WorkloadKey(kind_names.POD, of.uid)].workload.obstacle


@pytest.mark.parametrize("victim", [job(1), fact(KindName("jobset"))], ids=["a Job", "a JobSet"])
def test_a_pod_of_another_namespace_is_no_pod_of_the_object_whose_uid_it_names(victim: WorkloadFact) -> None:
    intruder = gated("a-intruder", owner=victim.key, namespace="elsewhere", queue=TEAM)
    known = world([node("n1"), victim, intruder], [admission(victim.key, "n1", pod_set="main")])
    assert known.pod_index.of(victim.key) == []
    obstacle = told(known, intruder)
    assert obstacle.code == "NotItsPod"
    assert "expected the uid of a Job of its namespace" in obstacle.message
    assert "ns" not in obstacle.message.split(), "where the other object is stays untold"


@pytest.mark.parametrize(
    "says", [{"owner_name": "other"}, {"marked": False}], ids=["another name", "no label"]
)
def test_a_pod_without_the_name_and_the_label_of_its_job_is_not_its_pod(says: dict[str, Any]) -> None:
    intruder = gated("a", owner=JOB, queue=TEAM, **says)
    known = world([job(1), intruder], [admission(JOB, "n1")])
    assert known.pod_index.of(JOB) == []
    assert told(known, intruder).code == "NotItsPod"


def test_a_gated_pod_is_no_pod_of_a_volcano_job_for_which_muster_makes_the_pods() -> None:
    intruder = gated("train-worker-0", owner=VOLCANO, queue=TEAM, task="worker", index=0)
    known = world([volcano_job(1), intruder], [admission(VOLCANO, "n1")])
    assert known.pod_index.of(VOLCANO) == []
    assert told(known, intruder) is not None


def test_a_pod_with_a_forged_owner_that_runs_counts_on_its_node_in_full() -> None:
    intruder = pod("a", "n1", owner=JOB, namespace="elsewhere")
    known = world([node("n1"), job(1), intruder], [admission(JOB, "n1")])
    assert known.node_inventory.room(N1)[GPU] == 6000, "the seat of one, and the pod"


def test_a_pod_of_a_job_that_waits_in_no_queue_waits_on_its_own() -> None:
    own = gated("a", owner=JOB, queue=TEAM, marked=False)
    assert told(world([job(1, queue=None), own]), own) is None


def test_a_forged_owner_is_known_as_such_once_the_job_is_seen() -> None:
    intruder = gated("a", owner=JOB, namespace="elsewhere", queue=TEAM)
    known = world([intruder])
    assert told(known, intruder) is None
    see(known, job(1))
    assert told(known, intruder) is not None


def test_pods_of_a_job_that_is_gone_are_known_by_what_it_holds() -> None:
    own = pod("a", "n1", owner=JOB)
    forged = replace(own, uid="b", name="b", namespace="elsewhere")
    known = world([node("n1"), own, forged], [admission(JOB, "n1", started=True)])
    assert [each.uid for each in known.pod_index.of(JOB)] == ["a"]


def test_released_pods_that_outlive_their_job_count_as_workloads_of_their_own() -> None:
    """The Job was deleted without them, and its seats are given back."""
    left = released("a", None, "n1", queue=TEAM)
    known = world([node("n1"), left], [admission(JOB, "n1", started=True)])
    alone = WorkloadKey(kind_names.POD, "a")
    assert known.states[alone].unbooked is not None, "to be adopted"
    known.mark_dirty(JOB)
    known.refresh(NOW + 11)
    assert known.states[JOB].ended == {1: {0}}, "no sync of its controller goes on any more"


# ── groups of many pods ─────────────────────────────────────────────────────────────────────────────────────


def members(count: int) -> list[PodFact]:
    return [gated(f"p{number}", group="gang") for number in range(count)]


def test_a_change_of_a_group_costs_nothing_for_each_of_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    known = world([group(3), *members(500)])
    settled: list[str] = []
    monkeypatch.setattr(known.pod_index, "settle", lambda uid: settled.append(uid) or (None, None))
    known.observe([seen(group(2)), seen(group(1))])
    assert settled == []
    known.refresh(NOW)
    assert known.states[GROUP].workload.minimum == 1
    known.observe([gone(group(1))])
    assert len(settled) == 500


def test_large_workloads_are_looked_at_one_by_one_and_small_ones_together() -> None:
    def pods_of(name: str, count: int) -> list[PodFact]:
        return [gated(f"{name}-{number}", group=name) for number in range(count)]

    large = [replace(group(1), key=WorkloadKey(kind_names.POD_GROUP, name), name=name) for name in "abc"]
    small = [replace(job(1), key=WorkloadKey(kind_names.JOB, f"j{n}"), name=f"j{n}") for n in range(50)]
    known = world([])
    pods = [pod for name in "abc" for pod in pods_of(name, 900)]
    known.observe([seen(each) for each in (*large, *small, *pods)])
    steps = list(known.refresh_in_slices(NOW, size=100))
    assert max(sum(key.kind == kind_names.POD_GROUP for key in step) for step in steps) == 1
    assert max(len(step) for step in steps) > 10
