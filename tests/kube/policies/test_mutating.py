"""The mutating admission policies, evaluated by a real API server: what waits, and who asked for it."""

from typing import Any

import msgspec
import pytest

from admission.kube.policies.cel import JOB_CONTROLLER
from deploy.local.cluster import LocalCluster
from queues.errors import ApiError
from tests.kube.support.cluster_objects import batch_job, becomes, pod
from tests.kube.support.guarded_namespace import (
    GATE,
    MUSTER,
    QUEUED,
    GuardedNamespace,
    guarded_namespace_in,
    priority_class,
)
from tests.tables import with_rows


async def test_a_pod_that_names_a_queue_is_gated_and_signed(guarded: GuardedNamespace) -> None:
    made = await guarded.create("pods", pod("a", labels=QUEUED))
    assert made["spec"]["schedulingGates"] == GATE
    assert made["metadata"]["labels"] == {**QUEUED, "muster.dev/released": "false"}
    assert made["metadata"]["annotations"] == {"muster.dev/user": "alice"}


async def test_gates_that_a_pod_has_already_stay_beside_ours(guarded: GuardedNamespace) -> None:
    made = await guarded.create(
        "pods", pod("a", labels=QUEUED, schedulingGates=[{"name": "example.com/other"}])
    )
    assert made["spec"]["schedulingGates"] == [{"name": "example.com/other"}, *GATE]


async def test_our_gate_is_not_added_twice(guarded: GuardedNamespace) -> None:
    made = await guarded.create("pods", pod("a", labels=QUEUED, schedulingGates=GATE))
    assert made["spec"]["schedulingGates"] == GATE


async def test_a_pod_that_names_no_queue_is_left_alone(guarded: GuardedNamespace) -> None:
    made = await guarded.create("pods", pod("a"))
    assert "schedulingGates" not in made["spec"]
    assert "labels" not in made["metadata"]
    assert "annotations" not in made["metadata"]


async def test_every_pod_waits_in_a_gated_namespace(gated: GuardedNamespace) -> None:
    made = await gated.create("pods", pod("a"))
    assert made["spec"]["schedulingGates"] == GATE
    assert made["metadata"]["labels"]["muster.dev/queue-name"] == "default"


async def test_a_pod_for_volcano_waits_in_the_default_queue_and_gets_our_scheduler(
    guarded: GuardedNamespace,
) -> None:
    made = await guarded.create("pods", pod("a", schedulerName="volcano"))
    assert made["spec"]["schedulingGates"] == GATE
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["metadata"]["labels"]["muster.dev/queue-name"] == "default"


@pytest.mark.parametrize("key", ["scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"])
async def test_a_pod_of_a_group_waits_in_the_queue_of_its_group(guarded: GuardedNamespace, key: str) -> None:
    made = await guarded.create("pods", pod("a", annotations={key: "training"}, schedulerName="volcano"))
    assert made["spec"]["schedulingGates"] == GATE
    assert made["metadata"]["labels"] == {"muster.dev/released": "false"}


async def test_volcanos_annotation_names_the_queue_of_a_pod(guarded: GuardedNamespace) -> None:
    made = await guarded.create("pods", pod("a", annotations={"scheduling.volcano.sh/queue-name": "team-b"}))
    assert made["spec"]["schedulingGates"] == GATE
    assert made["metadata"]["labels"]["muster.dev/queue-name"] == "team-b"


async def test_a_pod_in_a_queue_keeps_its_class_and_has_no_others_removed(guarded: GuardedNamespace) -> None:
    high = await priority_class(guarded)
    queued = await guarded.create("pods", pod("queued", labels=QUEUED, priorityClassName=high))
    labels = QUEUED | {"muster.dev/released": "true"}
    of_job = labels | {"volcano.sh/job-name": "train", "muster.dev/never-preempts-next": ""}
    released = [
        await guarded.create("pods", pod(name, labels=each, priorityClassName=high), by=MUSTER)
        for name, each in (("copied", labels), ("made", of_job))
    ]
    for made in (queued, *released):
        spec = made["spec"]
        assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == (
            high,
            1000,
            "Never",
        )
        assert not [key for key in made["metadata"]["labels"] if "never" in key]
    other = await guarded.create("pods", pod("other", priorityClassName=high))
    assert (other["spec"]["priorityClassName"], other["spec"]["preemptionPolicy"]) == (
        high,
        "PreemptLowerPriority",
    )


@with_rows("pod_of_queue")
async def test_a_pod_keeps_its_class_whatever_names_its_queue(
    guarded: GuardedNamespace, pod_of_queue: dict[str, Any]
) -> None:
    high = await priority_class(guarded)
    spec = (await guarded.create("pods", pod("queued", priorityClassName=high, **pod_of_queue)))["spec"]
    assert (spec["priorityClassName"], spec["preemptionPolicy"]) == (high, "Never")


async def test_a_pod_keeps_its_class_in_a_gated_namespace(gated: GuardedNamespace) -> None:
    high = await priority_class(gated)
    made = await gated.create("pods", pod("queued", priorityClassName=high))
    assert (made["spec"]["priorityClassName"], made["spec"]["preemptionPolicy"]) == (high, "Never")


async def test_a_quota_of_a_class_counts_pods_in_queues(guarded: GuardedNamespace) -> None:
    high = await priority_class(guarded)
    by_class = {"scopeName": "PriorityClass", "operator": "In", "values": [high]}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "one-high"},
        "spec": {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [by_class]}},
    }
    alice = await guarded.as_user("alice")
    await alice.create(guarded.path("resourcequotas"), quota)

    async def counted() -> str:
        found = msgspec.json.decode(await alice.get(guarded.path("resourcequotas", "one-high")))
        return str(found.get("status", {}).get("used", {}).get("pods", ""))

    async def is_counted() -> bool:
        return await counted() == "0"

    await becomes(is_counted)
    await guarded.create("pods", pod("first", labels=QUEUED, priorityClassName=high))
    assert await counted() == "1"
    with pytest.raises(ApiError, match="exceeded quota: one-high"):
        await guarded.create("pods", pod("second", labels=QUEUED, priorityClassName=high))
    await guarded.create("pods", pod("of-no-class", labels=QUEUED))


async def test_another_scheduler_keeps_its_pods(guarded: GuardedNamespace) -> None:
    annotations = {"scheduling.k8s.io/group-name": "theirs"}
    made = await guarded.create("pods", pod("a", annotations=annotations, schedulerName="their-scheduler"))
    assert "schedulingGates" not in made["spec"]
    assert made["spec"]["schedulerName"] == "their-scheduler"


@pytest.mark.parametrize("key", ["muster.dev/queue-name", "scheduling.volcano.sh/queue-name"])
async def test_a_namespace_names_the_queue_of_its_pods(guarded_cluster: LocalCluster, key: str) -> None:
    metadata = {"labels": {"muster.dev/gated": "true"}, "annotations": {key: "team-c"}}
    async for guarded in guarded_namespace_in(guarded_cluster, metadata):
        made = await guarded.create("pods", pod("a"))
        assert made["metadata"]["labels"]["muster.dev/queue-name"] == "team-c"


async def test_a_job_that_names_a_queue_is_suspended_and_its_pods_will_wait(
    guarded: GuardedNamespace,
) -> None:
    made = await guarded.create("jobs", batch_job("a", labels=QUEUED))
    assert made["spec"]["suspend"] is True
    assert made["spec"]["template"]["metadata"]["labels"]["muster.dev/queue-name"] == "team-a"
    assert made["metadata"]["annotations"]["muster.dev/user"] == "alice"
    assert made["spec"]["template"]["metadata"]["annotations"]["muster.dev/user"] == "alice"


async def test_a_job_for_volcano_waits_in_the_default_queue_and_gets_our_scheduler(
    guarded: GuardedNamespace,
) -> None:
    made = await guarded.create("jobs", batch_job("a", schedulerName="volcano"))
    assert made["spec"]["suspend"] is True
    assert made["metadata"]["labels"]["muster.dev/queue-name"] == "default"
    assert made["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"


async def test_every_job_waits_in_a_gated_namespace(gated: GuardedNamespace) -> None:
    made = await gated.create("jobs", batch_job("a"))
    assert made["spec"]["suspend"] is True
    assert made["metadata"]["labels"]["muster.dev/queue-name"] == "default"


async def test_a_job_that_names_no_queue_runs_at_once(guarded: GuardedNamespace) -> None:
    made = await guarded.create("jobs", batch_job("a"))
    assert made["spec"]["suspend"] is False
    assert "annotations" not in made["metadata"]


async def test_nobody_signs_with_the_name_of_another(guarded: GuardedNamespace) -> None:
    made = await guarded.create("pods", pod("a", labels=QUEUED, annotations={"muster.dev/user": "bob"}))
    assert made["metadata"]["annotations"]["muster.dev/user"] == "alice"


async def test_a_pod_that_looks_complete_is_signed_nevertheless_unless_a_job_made_it(
    guarded: GuardedNamespace,
) -> None:
    complete = pod(
        "a",
        labels={**QUEUED, "muster.dev/released": "false"},
        annotations={"muster.dev/user": "bob"},
        schedulingGates=GATE,
    )
    made = await guarded.create("pods", complete)
    assert made["metadata"]["annotations"]["muster.dev/user"] == "alice"
    complete["metadata"]["name"] = "b"
    made = await guarded.create("pods", complete, by=JOB_CONTROLLER)
    assert made["metadata"]["annotations"]["muster.dev/user"] == "bob"


@pytest.mark.parametrize("asked", [{}, {"podReplacementPolicy": "TerminatingOrFailed"}])
async def test_pods_of_a_job_that_waits_are_replaced_once_they_have_ended(
    guarded: GuardedNamespace, asked: dict[str, str]
) -> None:
    """Else two of them run in one place."""
    job = batch_job("a", labels=QUEUED)
    job["spec"].update(asked)
    made = await guarded.create("jobs", job)
    assert made["spec"]["podReplacementPolicy"] == "Failed"
    changed = await guarded.patch("jobs", "a", {"spec": {"podReplacementPolicy": "TerminatingOrFailed"}})
    assert changed["spec"]["podReplacementPolicy"] == "Failed"


async def test_a_job_without_a_queue_replaces_its_pods_as_it_likes(guarded: GuardedNamespace) -> None:
    made = await guarded.create("jobs", batch_job("a"))
    assert made["spec"]["podReplacementPolicy"] == "TerminatingOrFailed"
