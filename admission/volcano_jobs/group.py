"""The PodGroup that stands for a Volcano Job, so that ``kubectl get podgroup`` shows it."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from admission.volcano_jobs.companions import Companion, owned_manifest
from admission.volcano_jobs.job import JobSpec, TaskSpec
from admission.volcano_jobs.min_resources import min_resources
from queues.api.api_resources import POD_GROUPS
from queues.api.names import PARTITION_ID, TASK_SPEC

#: kubectl compares the Job with this annotation; a copy of it on the PodGroup would be wrong.
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def group_of(job: JobSpec, priorities: Mapping[str, int]) -> Companion:
    """The PodGroup ``<job>-<jobUID>`` with the Job's labels, annotations, minimums and what they ask for.

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
