"""Companions of a Volcano Job: the objects that its pods need, such as Services and volume claims, and the PodGroup
that stands for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.facts.volcano_jobs import JobSpec, TaskSpec
from queues.api.api_resources import POD_GROUPS, ApiResource
from queues.api.names import BATCH_VOLCANO, JOB_NAME, JOB_NAMESPACE, PARTITION_ID, TASK_SPEC
from queues.api.reading.quota_usage import QuotaUsage
from queues.api.types.pod import WirePodSpec, WirePodTemplate
from queues.errors import InvalidQuantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """One object that must exist before the Job's first pod is created."""

    resource: ApiResource
    name: str
    manifest: Mapping[str, Any]
    #: Key and value in the Job's ``status.controlledResources``; None if the object is not listed there.
    status_entry: tuple[str, str] | None = None
    #: The manifest lacks an SSH key pair; one is generated if the object does not exist.
    needs_key_pair: bool = False
    #: The Job's uid is part of the name: an object of that name is the Job's and is never read.
    named_by_uid: bool = False
    #: The object's ``data``, or its ``spec`` where it has one, is updated when the Job is scaled.
    follows_scale: bool = False


def owned_manifest(resource: ApiResource, job: JobSpec, name: str, **body: Any) -> dict[str, Any]:
    """An object in the Job's namespace that is deleted with the Job; ``body``: its fields besides the metadata."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": job.namespace, "ownerReferences": [owner_reference(job)]},
        **body,
    }


def owner_reference(job: JobSpec) -> dict[str, Any]:
    """The Job as controlling owner."""
    return {
        "apiVersion": BATCH_VOLCANO,
        "kind": "Job",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def job_selector(job: JobSpec) -> dict[str, str]:
    """Labels that select the pods of the Job and no other pods."""
    return {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace}


#: kubectl compares the Job with this annotation; a copy of it on the PodGroup would be wrong.
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def group_of(job: JobSpec, priorities: Mapping[str, int]) -> Companion:
    """The PodGroup ``<job>-<jobUID>`` with the Job's labels, annotations, minimums and what they ask for, so that
    ``kubectl get podgroup`` shows the Job.

    Other tools read in its minResources what the pods that must start together ask for; Muster itself counts the pods.
    Which pods are meant is Volcano's rule (``calcPGMinResources``): tasks in the order of their priority, each as many
    pods as it needs, then more of them up to the Job's ``minAvailable``; where the Job needs fewer pods than its tasks
    together, the first pods in that order.

    ``priorities``: value of each priority class.
    """
    spec: dict[str, Any] = {
        "minMember": job.minimum,
        "minTaskMember": {task.name: task.minimum for task in job.tasks},
        "queue": job.queue,
        "minResources": min_resources(job, priorities),
    }
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    if job.network_topology is not None:
        spec["networkTopology"] = job.network_topology
    partitioned = [task for task in job.tasks if task.partition_size]
    if partitioned:
        spec["subGroupPolicy"] = [_sub_group(task) for task in partitioned]
    manifest = owned_manifest(POD_GROUPS, job, job.group_name, spec=spec)
    if job.labels:
        manifest["metadata"]["labels"] = dict(job.labels)
    annotations = {key: text for key, text in job.annotations.items() if key != _LAST_APPLIED}
    if annotations:
        manifest["metadata"]["annotations"] = annotations
    return Companion(resource=POD_GROUPS, name=job.group_name, manifest=manifest, follows_scale=True)


def _sub_group(task: TaskSpec) -> dict[str, Any]:
    """The partitions of a task, by the label of their pods."""
    policy: dict[str, Any] = {
        "name": task.name,
        "subGroupSize": task.partition_size,
        "labelSelector": {"matchLabels": {TASK_SPEC: task.name}},
        "matchLabelKeys": [PARTITION_ID],
    }
    if task.min_partitions:
        policy["minSubGroups"] = task.min_partitions
    if task.partition_topology is not None:
        written = msgspec.to_builtins(task.partition_topology)
        policy["networkTopology"] = {key: value for key, value in written.items() if value is not None}
    return policy


_TEMPLATE: Final = msgspec.json.Decoder(WirePodTemplate)


def min_resources(job: JobSpec, priorities: Mapping[str, int]) -> dict[str, str]:
    """What the pods that must start together ask for; empty: no pods must start together, or a template cannot be read.

    ``priorities``: value of each priority class. As in Volcano the class that a task's own template names counts; a
    class that does not exist counts as 0.
    """
    try:
        specs = {task.name: _TEMPLATE.decode(task.template).spec or WirePodSpec() for task in job.tasks}
        ranks = {name: priorities.get(spec.priority_class_name or "", 0) for name, spec in specs.items()}
        total = QuotaUsage()
        for task, pods in counted_pods(job, ranks).items():
            if pods > 0:
                total += QuotaUsage.of(specs[task]).times(pods)
    except (msgspec.DecodeError, InvalidQuantity):
        return {}  # the Job says what is wrong with it
    return total.quantities()


def counted_pods(job: JobSpec, ranks: Mapping[str, int]) -> dict[str, int]:
    """How many pods of each task are counted. ``ranks``: a task with a higher one comes first."""
    # Sorting keeps the order in which they are written where priorities are equal.
    tasks = sorted(job.tasks, key=lambda task: -ranks[task.name])
    needed = sum(task.minimum for task in tasks)
    counts = {task.name: 0 for task in tasks}
    if job.minimum >= needed:
        counts = {task.name: task.minimum for task in tasks}
    left = job.minimum - sum(counts.values())
    for task in tasks:
        more = min(left, max(task.replicas, 0) - counts[task.name])
        counts[task.name] += max(more, 0)
        left -= max(more, 0)
    return counts
