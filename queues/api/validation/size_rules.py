"""Work that asks more than its queue, one user or any node can ever give: warnings, since it would wait for ever.

Certain is what all pods that have to start together ask at the least. The engine decides with all nodes, and says
``NeverFits``; the objects are stored, for limits are raised and nodes come.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from queues.api.names import (
    GROUP_ANNOTATION,
    GROUP_ANNOTATION_VOLCANO,
    GROUP_MIN_MEMBER,
    HOLD_MIN_RESOURCES,
)
from queues.api.reading.pod_requests import requests_of
from queues.api.reading.user_values import MOST_PODS, hold_seconds, number
from queues.api.types.batch_job import BatchJob, Pod
from queues.api.types.pod import read_pod
from queues.api.types.podgroup import PodGroup
from queues.api.types.volcano_job import VolcanoJob, VolcanoTaskSpec
from queues.api.validation.violations import Violation
from queues.errors import InvalidQuantity
from queues.flavor_growth import FlavorGrowth, growth_of, short_of
from queues.json_values import mapping_at, value_at
from queues.quota.queue import ARRAY, Queue, jobs_policy, provisioning_rules
from queues.resources import NOTHING, PODS, Resources, request, show, total
from queues.text_format import excerpt
from queues.workload import FlavorName, QueueName

#: Names in a ResourceQuota: of requests, and of what is no request.
_REQUESTS: Final = "requests."
_NO_REQUESTS: Final = ("limits.", "count/")


class NodeAmounts(NamedTuple):
    """What the nodes have, those included that take no pods now."""

    #: Of each resource the most that one node has, and what all have together.
    largest: Resources
    together: Resources


class EqualPods(NamedTuple):
    """Equal pods of an object; or, without a template, all that its pods ask together."""

    #: The field with their number, and the one with their template; "": they have none.
    path: str
    template: str
    pods: int
    #: So many of them start together at the least.
    minimum: int
    takes: Resources
    #: All of them are of the same flavor.
    in_one_flavor: bool = True


def size_violations(
    sets: Sequence[EqualPods],
    together: int,
    path: Sequence[Queue],
    nodes: NodeAmounts | None,
    flavors: Sequence[FlavorGrowth] = (),
) -> Iterator[Violation]:
    """Warnings about work that can never start.

    ``sets``, ``together``: as of ``pods_of``. ``path``: its queue and those above it, nearest first. ``nodes``: None if
    they are not known. ``flavors``: all ResourceFlavors.
    """
    count = max(sum(each.pods for each in sets), together)
    if not path or not sets or count > MOST_PODS:
        return
    if (gang := _too_large(sets[0].path, count, path)) is not None:
        yield gang
    asked = _at_least(sets, together)
    yield from _beyond_limits(sets, asked, path)
    queues = {each.name: each for each in path}
    asks = provisioning_rules(QueueName(path[0].name), queues.get) is not None
    # Whether all nodes are of flavors is not known.
    growth = growth_of(list(path[0].flavors), flavors, asks=asks, described=False)
    if nodes is None or growth is None:
        return
    beyond_one_node = list(_beyond_one_node(sets, nodes.largest, growth))
    yield from beyond_one_node
    if not growth and not beyond_one_node:
        yield from _beyond_all_nodes(sets, asked, nodes.together)


def _beyond_one_node(
    sets: Sequence[EqualPods], largest: Resources, growth: Sequence[FlavorGrowth]
) -> Iterator[Violation]:
    for each in sets:
        # By labels only the engine compares: what is said has to be certain.
        if not each.template or any(may_come.holds(each.takes) for may_come in growth):
            continue
        for name, units in each.takes.items():
            if name in largest and units > largest[name] and each.minimum:
                most = f"the largest node has {show(name, largest[name])}"
                if (short := short_of(growth, each.takes, name)) is not None:
                    of_what = "" if short[0] == name else f" {short[0]}"
                    most += f", the largest that can be added has {show(*short)}{of_what}"
                yield _never(each.template, name, units, f"{name} asked in one pod", most)


def _beyond_all_nodes(
    sets: Sequence[EqualPods], asked: Resources, together: Resources
) -> Iterator[Violation]:
    for name, units in sorted(asked.items()):
        if name in together and units > together[name]:
            where = next(each.path for each in sets if each.takes[name])
            yield _never(
                where, name, units, f"{name} asked", f"all nodes together have {show(name, together[name])}"
            )
            return


def _too_large(where: str, count: int, path: Sequence[Queue]) -> Violation | None:
    limits = [(queue.max_gang, queue.name) for queue in path if queue.max_gang is not None]
    limit, name = min(limits, default=(count, ""))
    if count <= limit:
        return None
    expected = f"at most {limit}: it never fits, for queue {name} allows no more in one gang"
    return Violation(where, f"{count} pods", expected, tolerable=True)


def _beyond_limits(sets: Sequence[EqualPods], asked: Resources, path: Sequence[Queue]) -> Iterator[Violation]:
    for queue in path:
        for limits, whose in (
            (queue.limits.capability, f"queue {queue.name} may use {{}}"),
            (queue.max_per_user, f"one user may use {{}} in queue {queue.name}"),
        ):
            for name, limit in sorted(limits.items()):
                if asked[name] > limit:
                    where = next(each.path for each in sets if each.takes[name])
                    most = whose.format(show(name, limit))
                    yield _never(where, name, asked[name], f"{name} asked", most)
                    return
    yield from _beyond_flavors(sets, path)


def _beyond_flavors(sets: Sequence[EqualPods], path: Sequence[Queue]) -> Iterator[Violation]:
    """Equal pods, and quota that is held, are of one flavor: more than each flavor of the queue has for them. Pods that
    are not known yet: more than the flavors have together."""
    named = next((queue.flavors for queue in path if queue.flavors), {})
    flavors = [_capability_in(flavor, path) for flavor in named]
    for pods in sets if flavors else ():
        in_one = pods.in_one_flavor or len(flavors) == 1
        for name, units in (pods.takes * pods.minimum).items():
            limits = [each[name] for each in flavors if name in each]
            limit = max(limits, default=0) if in_one else sum(limits)
            if len(limits) == len(flavors) and units > limit:
                flavor, whose = (" of one flavor", "it") if in_one else ("", "all flavors")
                most = f"queue {path[0].name} may use {show(name, limit)} of {whose}"
                yield _never(pods.path, name, units, f"{name}{flavor} asked", most)
                return


def _capability_in(flavor: FlavorName, path: Sequence[Queue]) -> Mapping[str, int]:
    """What queues on a path may use at most in a flavor."""
    least: dict[str, int] = {}
    for queue in path:
        if flavor in queue.flavors:
            for name, units in queue.flavors[flavor].capability.items():
                least[name] = min(units, least.get(name, units))
    return least


def _never(path: str, resource: str, units: int, what: str, most: str) -> Violation:
    """``what``: what is asked; ``most``: and how much there is."""
    found, expected = f"{show(resource, units)} {what}", f"less: it never fits, {most}"
    return Violation(path, found, expected, tolerable=True)


def _at_least(sets: Sequence[EqualPods], together: int) -> Resources:
    """What so many pods of these sets ask at the least: each set's own minimum, and the smallest of the others."""
    due = total(each.takes * each.minimum for each in sets)
    rest = together - sum(each.minimum for each in sets)
    if rest <= 0 or not any(each.pods > each.minimum for each in sets):
        return due
    least = {
        name: min(each.takes[name] for each in sets if each.pods > each.minimum)
        for name in sets[0].takes
        if any(each.pods > each.minimum for each in sets)
    }
    return due + Resources({name: units for name, units in least.items() if name != PODS}) * rest


def pods_of(document: Any) -> tuple[list[EqualPods], int]:
    """The pods of an object with its defaults filled in, and how many of them start together; what cannot be read has
    none."""
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
                EqualPods("spec.parallelism", "spec.template", count, minimum, _takes(spec.template))
            ], minimum
        case PodGroup(metadata=metadata, spec=spec):
            # Once they exist, its pods say what they take.
            held = bool(hold_seconds(metadata.annotations.get(HOLD_MIN_RESOURCES, "")))
            amounts = EqualPods("spec.minResources", "", 0, 1, _amounts(spec.min_resources), held)
            members = EqualPods("spec.minMember", "", spec.min_member, spec.min_member, NOTHING)
            return [members, amounts], spec.min_member
        case Pod():
            return [EqualPods("spec", "spec", 1, 1, _takes({"spec": document.spec}))], 1
    return [], 0


def job_pods(job: BatchJob, path: Sequence[Queue]) -> tuple[EqualPods, bool]:
    """The pods of a Job in a queue, and whether nothing but the default says that they start together.

    Without an annotation, and without names of their own in a Service, the queue decides (``policy.jobs``). ``path``:
    the queue and those above it, nearest first.
    """
    [pods], _ = pods_of(job)
    is_stated = GROUP_MIN_MEMBER in job.metadata.annotations
    if is_stated or job.spec.parallelism <= 1 or value_at(job.spec.template, "spec", "subdomain"):
        return pods, False
    return (pods._replace(minimum=1), False) if jobs_policy(path) == ARRAY else (pods, True)


def whole_job_warning(pods: EqualPods) -> Violation:
    """The warning about a Job of so many pods for which that is so."""
    found = f"{pods.pods} pods, which start together or not at all"
    expected = (
        f'annotation {GROUP_MIN_MEMBER}: "1" if each can work without the others: '
        "`kubectl muster try -f FILE` says how many would start now"
    )
    return Violation(pods.path, found, expected, tolerable=True)


def late_gang_warnings(owner: Any) -> Iterator[Violation]:
    """The warning about an owner that says so late that its pods are a gang: those that it has start alone."""
    template = mapping_at(owner, "spec", "template", "metadata", "annotations")
    size = mapping_at(owner, "metadata", "annotations").get(GROUP_MIN_MEMBER) or template.get(
        GROUP_MIN_MEMBER
    )
    if (number(size) or 0) > 1 and not {GROUP_ANNOTATION, GROUP_ANNOTATION_VOLCANO} & template.keys():
        path, found = f"metadata.annotations[{GROUP_MIN_MEMBER}]", f"{excerpt(size)} on an owner with pods"
        expected = "it from the creation on: each of its pods starts alone. Scale to 0 and write it then"
        expected += "; a StatefulSet also needs podManagementPolicy Parallel"
        yield Violation(path, found, expected, tolerable=True)


def _of_task(index: int, task: VolcanoTaskSpec) -> EqualPods:
    at = f"spec.tasks[{index}]"
    least = min(task.min_available or 0, task.replicas)
    return EqualPods(f"{at}.replicas", f"{at}.template", task.replicas, least, _takes(task.template))


def plain_amounts(written: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Amounts of ``minResources`` by plain names. The first of a name counts: those of a ResourceQuota come last."""
    for name in sorted(written, key=lambda each: each.startswith(_REQUESTS)):
        if not name.startswith(_NO_REQUESTS):
            yield name.removeprefix(_REQUESTS), written[name]


def _amounts(written: Mapping[str, Any]) -> Resources:
    amounts: dict[str, int] = {}
    try:
        for name, text in plain_amounts(written):
            amounts.setdefault(name, request(name, text))
    except InvalidQuantity:
        return NOTHING
    return Resources(amounts)


def _takes(template: Mapping[str, Any]) -> Resources:
    try:
        return requests_of(read_pod(template).spec)
    except (msgspec.DecodeError, InvalidQuantity):
        return NOTHING
