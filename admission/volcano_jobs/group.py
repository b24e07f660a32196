"""The PodGroup that stands for a Volcano Job, for those who look for it: ``kubectl get podgroup``."""

from typing import Any, Final

from admission.volcano_jobs.companions import Companion, metadata
from admission.volcano_jobs.job import JobSpec
from queues.api.names import PARTITION_ID, SCHEDULING_VOLCANO, TASK_SPEC

GROUPS: Final = f"apis/{SCHEDULING_VOLCANO}"


def group_of(job: JobSpec) -> Companion:
    """``<job>-<jobUID>`` with the Job's labels, annotations and minimums."""
    spec: dict[str, Any] = {
        "minMember": job.minimum,
        "minTaskMember": {task.name: task.minimum for task in job.tasks},
        "queue": job.queue,
    }
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    if job.network_topology is not None:
        spec["networkTopology"] = job.network_topology
    partitioned = [task for task in job.tasks if task.partition_size]
    if partitioned:
        spec["subGroupPolicy"] = [
            {
                "name": task.name,
                "subGroupSize": task.partition_size,
                "labelSelector": {"matchLabels": {TASK_SPEC: task.name}},
                "matchLabelKeys": [PARTITION_ID],
            }
            for task in partitioned
        ]
    meta = metadata(job, job.group_name)
    if job.labels:
        meta["labels"] = dict(job.labels)
    kept = {key: text for key, text in job.annotations.items() if key != _LAST_APPLIED}
    if kept:
        meta["annotations"] = kept
    return Companion(
        api=GROUPS,
        plural="podgroups",
        name=job.group_name,
        manifest={"apiVersion": SCHEDULING_VOLCANO, "kind": "PodGroup", "metadata": meta, "spec": spec},
    )


#: What kubectl keeps for its own comparisons is about the Job, not about its PodGroup.
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
