"""What becomes of a Job of the model API server once it is resumed: its pods are made, bound, run and succeed."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from queues.api.api_resources import JOBS, PODS

Document = dict[str, Any]

#: Seconds between two steps of a pod's start.
_STEP: Final = 0.02
_AT: Final = "2026-01-01T00:00:00Z"


def life_of(job: Document, seconds: float) -> Iterator[tuple[float, str, Document]]:
    """What is written, each with the pause before it, in seconds, and the path of its collection."""
    count = job["spec"]["parallelism"]
    pods = [_pod(job, index, node) for index, node in zip(range(count), _nodes(job, count), strict=True)]
    for pod in pods:
        yield _STEP, PODS.path(), _shown(pod, "Pending")
    yield _STEP, JOBS.path(), _with_status(job, active=count)
    for pod in pods:
        pod["spec"]["nodeName"] = pod.pop("node")
        yield _STEP, PODS.path(), _shown(pod, "Pending", PodScheduled="True")
    for pod in pods:
        yield _STEP, PODS.path(), _shown(pod, "Running", PodScheduled="True", Ready="True")
    for index, pod in enumerate(pods):
        yield seconds if index == 0 else 0.0, PODS.path(), _shown(pod, "Succeeded", PodScheduled="True")
    complete = [{"type": "Complete", "status": "True"}]
    yield _STEP, JOBS.path(), _with_status(job, succeeded=count, conditions=complete)


def _nodes(job: Document, count: int) -> list[str]:
    """The node of each pod, as the affinity of the template says."""
    affinity = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    nodes = [each["matchFields"][0]["values"][0] for each in terms]
    return [nodes[index * len(nodes) // count] for index in range(count)]


def _pod(job: Document, index: int, node: str) -> Document:
    meta, template = job["metadata"], deepcopy(job["spec"]["template"])
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "controller": True,
        "name": meta["name"],
        "uid": meta["uid"],
    }
    labels = template["metadata"].get("labels", {}) | {
        "batch.kubernetes.io/job-name": meta["name"],
        "batch.kubernetes.io/controller-uid": meta["uid"],
    }
    name = f"{meta['name']}-{index}abcd"
    return {
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "uid": f"{name}-uid",
            "labels": labels,
            "annotations": template["metadata"].get("annotations", {}),
            "ownerReferences": [owner],
            "creationTimestamp": _AT,
        },
        "spec": template["spec"],
        "node": node,
    }


def _shown(pod: Document, phase: str, **conditions: str) -> Document:
    state: Document = {"running": {"startedAt": _AT}}
    if phase == "Succeeded":
        state = {"terminated": {"exitCode": 0, "finishedAt": _AT}}
    shown = {
        "phase": phase,
        "conditions": [
            {"type": name, "status": status, "lastTransitionTime": _AT} for name, status in conditions.items()
        ],
        "containerStatuses": []
        if phase == "Pending"
        else [{"name": "main", "restartCount": 0, "state": state}],
    }
    return {**deepcopy({key: value for key, value in pod.items() if key != "node"}), "status": shown}


def _with_status(job: Document, **status: Any) -> Document:
    return {**deepcopy(job), "status": status}
