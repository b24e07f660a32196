"""Fields that are accepted, because Volcano has them, but do nothing yet: shown as a condition."""

from collections.abc import Iterator

from queues.spec.podgroup import PodGroup
from queues.spec.queue import Queue
from queues.spec.volcano_job import TaskSpec, VolcanoJob

#: Plugins that act, with default flags only.
ACTING_PLUGINS = ("env", "svc", "ssh")


def unsupported(job: VolcanoJob) -> tuple[str, ...]:
    """Field paths of a Job that do nothing yet, in the order of the document."""
    return tuple(_of_job(job))


def unsupported_in_podgroup(group: PodGroup) -> tuple[str, ...]:
    """Field paths of a PodGroup that do nothing yet."""
    found = []
    if group.spec.network_topology is not None:
        found.append("spec.networkTopology")
    if group.spec.sub_group_policy:
        found.append("spec.subGroupPolicy")
    return tuple(found)


def unsupported_in_queue(queue: Queue) -> tuple[str, ...]:
    """Field paths of a Queue that do nothing yet."""
    spec = queue.spec
    fields = (
        ("spec.extendClusters", spec.extend_clusters),
        ("spec.affinity", spec.affinity),
        ("spec.type", spec.type),
        ("spec.dequeueStrategy", spec.dequeue_strategy == "fifo"),
        ("metadata.annotations[volcano.sh/hierarchy]", "volcano.sh/hierarchy" in queue.metadata.annotations),
    )
    return tuple(path for path, given in fields if given)


def _of_job(job: VolcanoJob) -> Iterator[str]:
    spec = job.spec
    if spec.volumes:
        yield "spec.volumes"
    for index, task in enumerate(spec.tasks):
        yield from _of_task(task, f"spec.tasks[{index}]")
    if spec.policies:
        yield "spec.policies"
    for name, flags in spec.plugins.items():
        if name not in ACTING_PLUGINS:
            yield f"spec.plugins.{name}"
        elif any(flags):
            yield f"spec.plugins.{name} with flags"
    if spec.running_estimate:
        yield "spec.runningEstimate"
    if spec.network_topology is not None:
        yield "spec.networkTopology"


def _of_task(task: TaskSpec, path: str) -> Iterator[str]:
    if task.policies:
        yield f"{path}.policies"
    if task.topology_policy not in ("", "none"):
        yield f"{path}.topologyPolicy"
    if task.depends_on is not None and task.depends_on.name:
        yield f"{path}.dependsOn"
    if task.partition_policy is not None:
        yield f"{path}.partitionPolicy"
