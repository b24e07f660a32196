"""Work that asks more than its queue, one user or any node can ever give: warnings, since it would wait for ever.

Certain is what all pods that have to start together ask at the least. The engine decides with all nodes, and says
``NeverFits``; the objects are stored, for limits are raised and nodes come.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from queues.api.names import GROUP_MIN_MEMBER
from queues.api.reading.pod_requests import requests_of
from queues.api.reading.user_values import MOST_PODS, number
from queues.api.types.batch_job import BatchJob
from queues.api.types.pod import Pod, PodSpec, PodTemplate
from queues.api.types.volcano_job import VolcanoJob, VolcanoTaskSpec
from queues.api.validation.violations import Violation
from queues.errors import InvalidQuantity
from queues.flavor_growth import FlavorGrowth, growth_of, short_of
from queues.quota.queue import Queue, provisioning_rules
from queues.resources import NOTHING, PODS, Resources, show, total
from queues.workload import QueueName


class _Pods(NamedTuple):
    """Equal pods of an object."""

    #: The field with their number, and the one with their template.
    path: str
    template: str
    pods: int
    #: So many of them start together at the least.
    minimum: int
    takes: Resources


def size_violations(
    document: Any, path: Sequence[Queue], largest: Resources | None, flavors: Sequence[FlavorGrowth] = ()
) -> Iterator[Violation]:
    """Warnings about an object that can never start.

    ``path``: its queue and those above it, nearest first. ``largest``: of each resource the most that one node has;
    None if not known. ``flavors``: all ResourceFlavors.
    """
    sets, together = _sets_of(document)
    count = sum(each.pods for each in sets)
    if count > MOST_PODS:
        if isinstance(document, BatchJob):  # of other kinds their own rules say it
            yield Violation(sets[0].path, f"{count} pods", f"at most {MOST_PODS}", tolerable=True)
        return
    if not path or not sets:
        return
    if (gang := _too_large(sets[0].path, count, path)) is not None:
        yield gang
    yield from _beyond_limits(sets, _at_least(sets, together), path)
    queues = {each.name: each for each in path}
    asks = provisioning_rules(QueueName(path[0].name), queues.get) is not None
    # Whether all nodes are of flavors is not known.
    growth = growth_of(list(path[0].flavors), flavors, asks=asks, described=False)
    if largest is None or growth is None:
        return
    for each in sets:
        # By labels only the engine compares: what is said has to be certain.
        if any(may_come.holds(each.takes) for may_come in growth):
            continue
        for name, units in each.takes.items():
            if name in largest and units > largest[name] and each.minimum:
                wording = (
                    f"{each.template}: it never fits: {show(name, units)} {name} asked in one pod, "
                    f"the largest node has {show(name, largest[name])}"
                )
                if (short := short_of(growth, each.takes, name)) is not None:
                    of_what = "" if short[0] == name else f" {short[0]}"
                    wording += f", the largest that can be added has {show(*short)}{of_what}"
                yield _never(each.template, name, units, wording)


def _too_large(where: str, count: int, path: Sequence[Queue]) -> Violation | None:
    limits = [(queue.max_gang, queue.name) for queue in path if queue.max_gang is not None]
    limit, name = min(limits, default=(count, ""))
    if count <= limit:
        return None
    wording = f"{where}: it never fits: {count} pods asked, and queue {name} allows {limit} in one gang"
    return Violation(where, f"{count} pods", f"at most {limit}", wording, tolerable=True)


def _beyond_limits(sets: Sequence[_Pods], asked: Resources, path: Sequence[Queue]) -> Iterator[Violation]:
    for queue in path:
        for name, limit in sorted(queue.limits.capability.items()):
            if asked[name] > limit:
                wording = (
                    f"{sets[0].path}: it never fits: {show(name, asked[name])} {name} asked, "
                    f"queue {queue.name} may use {show(name, limit)}"
                )
                yield _never(sets[0].path, name, asked[name], wording)
                return
        for name, limit in sorted(queue.max_per_user.items()):
            if asked[name] > limit:
                wording = (
                    f"{sets[0].path}: it never fits: {show(name, asked[name])} {name} asked, "
                    f"one user may use {show(name, limit)} in queue {queue.name}"
                )
                yield _never(sets[0].path, name, asked[name], wording)
                return


def _never(path: str, resource: str, units: int, wording: str) -> Violation:
    return Violation(path, f"{show(resource, units)} {resource}", "less", wording, tolerable=True)


def _at_least(sets: Sequence[_Pods], together: int) -> Resources:
    """What so many pods of these sets ask at the least: each set's own minimum, and the smallest of the others."""
    due = total(each.takes * each.minimum for each in sets)
    rest = together - sum(each.minimum for each in sets)
    if rest <= 0:
        return due
    least = {
        name: min(each.takes[name] for each in sets if each.pods > each.minimum)
        for name in sets[0].takes
        if any(each.pods > each.minimum for each in sets)
    }
    return due + Resources({name: units for name, units in least.items() if name != PODS}) * rest


def _sets_of(document: Any) -> tuple[list[_Pods], int]:
    """The pods of an object, and how many of them start together; what cannot be read has none."""
    match document:
        case VolcanoJob():
            sets = [_of_task(index, task) for index, task in enumerate(document.spec.tasks)]
            least = sum(each.minimum for each in sets)
            together = min(document.spec.min_available or least, sum(each.pods for each in sets))
            if len(sets) == 1:
                sets = [sets[0]._replace(minimum=together)]
            elif together < least:
                # Minimums of tasks count only while the gang is at least their sum.
                sets = [each._replace(minimum=0) for each in sets]
            return sets, together
        case BatchJob(spec=spec):
            count = spec.parallelism
            if spec.completions is not None:
                count = min(count, spec.completions)
            stated = number(document.metadata.annotations.get(GROUP_MIN_MEMBER, ""))
            minimum = count if stated is None else min(stated, count)
            return [
                _Pods("spec.parallelism", "spec.template", count, minimum, _takes(spec.template))
            ], minimum
        case Pod():
            return [_Pods("spec", "spec", 1, 1, _takes_of(document.spec))], 1
    return [], 0


def _of_task(index: int, task: VolcanoTaskSpec) -> _Pods:
    minimum, partition = task.min_available, task.partition_policy
    if minimum is None:
        parts = partition.min_partitions * partition.partition_size if partition is not None else 0
        minimum = parts or task.replicas
    at = f"spec.tasks[{index}]"
    least = min(max(minimum, 0), task.replicas)
    return _Pods(f"{at}.replicas", f"{at}.template", task.replicas, least, _takes(task.template))


def _takes(template: Mapping[str, Any]) -> Resources:
    try:
        return _takes_of(PodTemplate.parse(template).spec)
    except ValidationError:
        return NOTHING


def _takes_of(spec: PodSpec) -> Resources:
    try:
        return requests_of(spec)
    except InvalidQuantity:
        return NOTHING
