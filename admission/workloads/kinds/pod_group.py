"""PodGroups of Volcano: gangs of pods that name them, and are gated while they wait. Pure.

The PodGroup says how many members must start together; what they ask for is in the members themselves, and once they
are admitted in their seats.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from admission.decode.fields import explained, one
from admission.decode.interruption import conduct_of
from admission.decode.topology_requests import subgroups_of, tier_of
from admission.decode.workload_facts import digest, queue_said, said_by_metadata, shared_request
from admission.facts.pods import PodFact, PodShape
from admission.facts.volcano_jobs import NetworkTopologySpec
from admission.facts.workloads import GroupRequest, SubGroup, WorkloadFact
from admission.wire import Int32, Quantity, WireCondition, WireMetadata, WireStruct
from admission.workloads.kinds.gang_words import told_of
from admission.workloads.kinds.support import Holding, KindSupport, ObjectReader, StatusForm
from admission.workloads.pod_sets import numbered
from admission.workloads.pod_shapes import shape_name, task_of
from admission.workloads.seats import SeatMap, may_be_seated
from admission.workloads.subgroups import in_subgroups
from queues import kind_names
from queues.admissions import Seat
from queues.api.api_resources import POD_GROUPS
from queues.api.names import HOLD_MIN_RESOURCES
from queues.api.reading.user_values import (
    HOLD_EXPECTED,
    MOST_POD_SETS,
    MOST_RESOURCES,
    UserValues,
    hold_seconds,
    is_uid,
)
from queues.api.validation.podgroup_rules import resource_name_violations
from queues.api.validation.size_rules import plain_amounts
from queues.errors import InvalidQuantity
from queues.resources import Resources, request
from queues.workload import NO_RULES, PodSet, WorkloadKey


class WirePodGroupSpec(WireStruct):
    """The spec of a PodGroup."""

    min_member: Int32 | None = None
    min_task_member: dict[str, Int32] | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    min_resources: dict[str, Quantity] | None = None
    network_topology: NetworkTopologySpec | None = None
    sub_group_policy: list[msgspec.Raw] | None = None


class WirePodGroupStatus(WireStruct):
    """The status of a PodGroup."""

    phase: str | None = None
    conditions: tuple[WireCondition, ...] | None = None


class WirePodGroup(WireStruct):
    """A PodGroup."""

    metadata: WireMetadata
    spec: WirePodGroupSpec = msgspec.field(default_factory=WirePodGroupSpec)
    status: WirePodGroupStatus | None = None


def pod_group_fact(group: WirePodGroup) -> WorkloadFact:
    """A PodGroup; its pods say what it takes."""
    meta, spec, values = group.metadata, group.spec, UserValues()
    minimum = spec.min_member or 0
    stands_for = next(
        (
            WorkloadKey(kind_names.VOLCANO_JOB, reference.uid)
            for reference in meta.owner_references or ()
            if reference.kind == "Job"
            and reference.api_version.startswith("batch.volcano.sh/")
            and is_uid(reference.uid)
        ),
        None,
    )
    queue = queue_said(spec.queue, meta, values)
    if minimum < 0:
        values.refuse("spec.minMember", str(minimum), "0 or more")
    task_minimums = _task_minimums(spec.min_task_member or {}, values)
    subgroups: tuple[SubGroup, ...] = ()
    try:
        subgroups = subgroups_of(spec.sub_group_policy, values)
    except msgspec.DecodeError as error:
        values.note(f"spec.subGroupPolicy: {explained(error)}")
    return WorkloadFact(
        **said_by_metadata(kind_names.POD_GROUP, meta),
        queue=queue,
        priority_class=values.name("spec.priorityClassName", spec.priority_class_name) or "",
        minimum=max(minimum, 0),
        group=shared_request(
            GroupRequest(
                # Volcano's gang plugin looks at task minimums only while the gang is at least their sum.
                task_minimums=task_minimums if minimum >= sum(task_minimums.values()) else {},
                network_tier=tier_of(spec.network_topology, values),
                subgroups=subgroups,
                min_resources=_min_resources(spec.min_resources, values),
                hold_seconds=_hold_seconds(meta, values),
            )
        ),
        phase=(group.status and group.status.phase) or "",
        generation=digest(minimum, sorted(task_minimums.items()), spec.network_topology, subgroups),
        obstacle=values.obstacle,
        unsupported=tuple(each.message for each in resource_name_violations(spec.min_resources or ())),
        stands_for=stands_for,
        conduct=conduct_of(meta.annotations, meta.labels),
        told=one(told_of(group.status.conditions if group.status is not None else None)),
    )


def _min_resources(written: Mapping[str, Quantity] | None, values: UserValues) -> Resources | None:
    """What the gang is said to ask for, by plain names; those that a ResourceQuota has stand for them where they are
    missing. None if nothing is said."""
    if not written or not values.at_most("spec.minResources", len(written), MOST_RESOURCES, "resources"):
        return None
    amounts: dict[str, int] = {}
    for name, text in plain_amounts(written):
        try:
            amounts.setdefault(name, request(name, text))
        except InvalidQuantity as error:
            values.note(f"spec.minResources: {error}")
    return one(Resources(amounts))


def _hold_seconds(meta: WireMetadata, values: UserValues) -> int:
    text = (meta.annotations or {}).get(HOLD_MIN_RESOURCES)
    if text is None:
        return 0
    found = hold_seconds(text)
    if found is None:
        values.refuse(f"metadata.annotations[{HOLD_MIN_RESOURCES}]", text, HOLD_EXPECTED)
    return found or 0


def _task_minimums(written: Mapping[str, int], values: UserValues) -> Mapping[str, int]:
    if not values.at_most("spec.minTaskMember", len(written), MOST_POD_SETS, "tasks"):
        return {}
    return {task: least for task, least in written.items() if values.task("spec.minTaskMember", task)}


def group_pod_sets(
    fact: WorkloadFact, pods: Sequence[PodFact], seat_maps: Sequence[SeatMap]
) -> tuple[PodSet, ...]:
    """Pod sets of a PodGroup: its seats and its gated pods, by shape.

    A pod that gates of others hold does not count until it is let go by them: admitted, it could not start. Neither
    does a pod that cannot be used as it is written.
    """
    seated = {pod.uid for place in seat_maps for pod in place.seated.values()}
    held: dict[str, set[int]] = {}
    vacant: Counter[str] = Counter()
    seats: dict[str, Seat] = {}
    for place in seat_maps:
        for index, seat in enumerate(place.admission.seats):
            if index not in place.admission.ended:
                seats[seat.pod_set] = seat
                held.setdefault(seat.pod_set, set()).add(seat.ordinal)
                vacant[seat.pod_set] += index not in place.seated
    coming = [pod for pod in pods if may_be_seated(pod) and pod.uid not in seated]
    shapes = Counter((pod.task, pod.shape) for pod in coming) if not seat_maps else Counter()
    if len(shapes) > MOST_POD_SETS:
        return _too_many(shapes)
    members: dict[str, list[PodFact]] = {}
    for pod in coming:
        members.setdefault(shape_name(pod, fact), []).append(pod)
    rules = {pod.seat[0]: pod.shape.rules for pod in pods if pod.seat is not None and pod.shape.rules}
    sets = []
    for name in sorted(members.keys() | held.keys()):
        waiting, mine = members.get(name, []), held.get(name, set())
        template = (
            waiting[0].shape.pod_set(name)
            if waiting
            else PodSet(name=name, count=0, takes=seats[name].takes, rules=rules.get(name, NO_RULES))
        )
        sets.append(numbered(template, mine, len(mine) + max(0, len(waiting) - vacant[name])))
    return in_subgroups(_with_task_minimums(sets, fact.group.task_minimums), fact)


def _too_many(shapes: Mapping[tuple[str, PodShape], int]) -> tuple[PodSet, ...]:
    """A pod set for each shape, for which only the number of pods matters. ``shapes``: how many pods of each."""
    counts = enumerate(shapes.items())
    return tuple(
        PodSet(name=str(number), count=count, takes=shape.takes) for number, ((_, shape), count) in counts
    )


def _with_task_minimums(sets: Sequence[PodSet], minimums: Mapping[str, int]) -> tuple[PodSet, ...]:
    """Where pods of one task have several shapes, they share its minimum; what is lacking is asked of the last."""
    if not minimums:
        return tuple(sets)
    left = dict(minimums)
    last = {task_of(pods.name): pods.name for pods in sets}
    shared = []
    for pods in sets:
        task = task_of(pods.name)
        least = left.get(task, 0)
        share = least if last[task] == pods.name else min(least, len(pods.wanted()))
        left[task] = least - share
        shared.append(replace(pods, minimum=share))
    return tuple(shared)


POD_GROUP = KindSupport(
    kind=kind_names.POD_GROUP,
    resource=POD_GROUPS,
    reader=ObjectReader(
        informer="podgroups", wire=WirePodGroup, fact=lambda group, raw: pod_group_fact(group)
    ),
    holding=Holding.GATED,
    status=StatusForm.POD_GROUP,
    is_group=True,
    pod_sets=lambda inputs, places: (
        () if inputs.fact is None else group_pod_sets(inputs.fact, inputs.pods, places)
    ),
    pod_set_name=shape_name,
)
