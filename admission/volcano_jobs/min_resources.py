"""What the pods of a Volcano Job that must start together ask for, as its PodGroup says it in minResources. Pure.

Other tools read it there; Muster itself counts the pods. Which pods are meant is Volcano's rule
(``calcPGMinResources``): tasks in the order of their priority, each as many pods as it needs, then more of them up to
the Job's ``minAvailable``; where the Job needs fewer pods than its tasks together, the first pods in that order.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from admission.volcano_jobs.job import JobSpec, TaskSpec
from queues.api.reading.quota_usage import QuotaUsage
from queues.api.types.pod import WirePodSpec, WirePodTemplate
from queues.errors import InvalidQuantity

_TEMPLATE: Final = msgspec.json.Decoder(WirePodTemplate)


def min_resources(job: JobSpec, priorities: Mapping[str, int]) -> dict[str, str]:
    """Quantities by resource; empty: no pods must start together, or a template cannot be read.

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
        more = min(left, _replicas(task) - counts[task.name])
        counts[task.name] += max(more, 0)
        left -= max(more, 0)
    return counts


def _replicas(task: TaskSpec) -> int:
    return max(task.replicas, 0)
