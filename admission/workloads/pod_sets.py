"""The pod sets of a workload: pods of one shape, how many of them, and which ordinals are done."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from admission.facts import PodFact, PodPhase, WorkloadFact
from admission.workloads.inputs import WorkloadInputs
from admission.workloads.pod_shapes import BARE, shape_name, task_of
from admission.workloads.seats import SeatMap, awaits_seat
from admission.workloads.subgroups import in_subgroups
from queues.admissions import AdmissionState, Seat
from queues.api.reading.device_shares import with_share
from queues.workload import NodeFilter, NodeName, PodSet, Requirement, WorkloadKind


def pod_sets_of(sight: WorkloadInputs, occupancies: Sequence[SeatMap]) -> tuple[PodSet, ...]:
    """Its pods by shape, done ones and those that hold seats included."""
    fact = sight.fact
    if sight.key.kind is WorkloadKind.POD:
        return tuple(bare_pod_set(pod) for pod in sight.pods[:1])
    if fact is None:
        return ()
    if sight.key.kind is WorkloadKind.POD_GROUP:
        return group_pod_sets(fact, sight.pods, occupancies)
    if sight.key.kind is WorkloadKind.VOLCANO_JOB:
        return tuple(_without_done(pods, sight.outcomes) for pods in fact.pod_sets)
    if fact.indexed:
        return fact.pod_sets
    return tuple(
        numbered(pods, held, max(pods.count, len(held)))
        for pods in fact.pod_sets
        for held in [_held_ordinals(pods.name, occupancies)]
    )


def _without_done(pods: PodSet, outcomes: Mapping[tuple[str, int], PodPhase]) -> PodSet:
    # Who is done counts as present in the gang, so the minimum stays.
    done = frozenset(ordinal for name, ordinal in outcomes if name == pods.name)
    return replace(pods, done=done) if done else pods


def _held_ordinals(name: str, occupancies: Sequence[SeatMap]) -> set[int]:
    return {
        seat.ordinal
        for place in occupancies
        if place.admission.state is AdmissionState.OPEN
        for seat in place.admission.holding()
        if seat.pod_set == name
    }


def group_pod_sets(
    fact: WorkloadFact, pods: Sequence[PodFact], occupancies: Sequence[SeatMap]
) -> tuple[PodSet, ...]:
    """Pod sets of a PodGroup: its seats and its gated pods, by shape.

    A pod that gates of others hold does not count until it is let go by them: admitted, it could not start.
    """
    seated = {pod.uid for place in occupancies for pod in place.sitting.values()}
    held: dict[str, set[int]] = {}
    vacant: Counter[str] = Counter()
    seats: dict[str, Seat] = {}
    for place in occupancies:
        for index, seat in enumerate(place.admission.seats):
            if index not in place.admission.ended:
                seats[seat.pod_set] = seat
                held.setdefault(seat.pod_set, set()).add(seat.ordinal)
                vacant[seat.pod_set] += index not in place.sitting
    members: dict[str, list[PodFact]] = {}
    for pod in pods:
        if awaits_seat(pod) and not pod.held_by_others and pod.uid not in seated:
            members.setdefault(shape_name(pod, fact), []).append(pod)
    sets = []
    for name in sorted(members.keys() | held.keys()):
        waiting, mine = members.get(name, []), held.get(name, set())
        template = _pod_set_of(waiting[0], name) if waiting else _pod_set_of_seat(seats[name])
        sets.append(numbered(template, mine, len(mine) + max(0, len(waiting) - vacant[name])))
    return in_subgroups(_with_task_minimums(sets, fact.task_minimums), fact)


def numbered(pods: PodSet, held: Collection[int], count: int) -> PodSet:
    """A set of interchangeable pods: the ordinals that are held, whatever they are, and the lowest free ones."""
    wanted = set(held)
    ordinal = 0
    while len(wanted) < count:
        wanted.add(ordinal)
        ordinal += 1
    size = max(wanted, default=-1) + 1
    return replace(pods, count=size, done=frozenset(range(size)) - wanted)


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


def _pod_set_of(pod: PodFact, name: str) -> PodSet:
    return PodSet(
        name=name,
        count=1,
        takes=with_share(pod.takes, pod.placing.share),
        nodes=pod.nodes,
        required_topology=pod.required_topology,
        preferred_topology=pod.preferred_topology,
        prefers=pod.placing.prefers,
        ports=pod.placing.ports,
        partitions=pod.placing.partitions,
        together=pod.placing.together,
        balanced=pod.placing.balanced,
        share=pod.placing.share,
    )


def _pod_set_of_seat(seat: Seat) -> PodSet:
    return PodSet(name=seat.pod_set, count=0, takes=seat.takes)


def bare_pod_set(pod: PodFact) -> PodSet:
    """The only pod set of a pod without a group."""
    return _pod_set_of(pod, BARE)


def elsewhere(pod_sets: Sequence[PodSet], nodes: frozenset[NodeName]) -> tuple[PodSet, ...]:
    """The same pod sets, kept off these nodes."""
    if not nodes:
        return tuple(pod_sets)
    off = Requirement(key="metadata.name", operator="NotIn", values=tuple(sorted(nodes)), field=True)
    return tuple(replace(pods, nodes=_with(pods.nodes, off)) for pods in pod_sets)


def _with(own: NodeFilter, requirement: Requirement) -> NodeFilter:
    if not own.affinity:
        return replace(own, affinity=((requirement,),))
    # A term that asks nothing matches nothing, and stays so.
    return replace(own, affinity=tuple((*term, requirement) if term else term for term in own.affinity))
