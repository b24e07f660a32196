"""What a workload wants, who sits where, which seats are over: pure functions over facts and admissions.

The world calls them for what has changed; nothing here is remembered.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b

from admission.facts import PodFact, PodPhase, WorkloadFact
from queues.resources import Resources
from queues.workload import (
    Admission,
    AdmissionState,
    NodeFilter,
    NodeName,
    PodSet,
    Seat,
    WorkloadKind,
)

#: Pod set of a bare pod.
BARE = "pod"


def is_live(pod: PodFact) -> bool:
    """Whether the pod runs or may still run."""
    return pod.phase is PodPhase.PENDING or pod.phase is PodPhase.RUNNING


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Who sits where in one admission."""

    admission: Admission
    #: Seat index → its live pod.
    sitting: Mapping[int, PodFact]
    #: Live pods of the admission that sit nowhere yet, or whose seat was given back already.
    standing: tuple[PodFact, ...]

    def vacant(self) -> list[int]:
        """Seats that are held without a live pod, in order."""
        seats = range(len(self.admission.seats))
        return [index for index in seats if index not in self.sitting and index not in self.admission.ended]


def occupancy(admission: Admission, pods: Iterable[PodFact]) -> Occupancy:
    """Match live pods to seats: by adoption, by the seat written on the pod, else (directed Jobs) by node."""
    adopted = admission.adopted or {}
    by_seat = {(seat.pod_set, seat.ordinal): index for index, seat in enumerate(admission.seats)}
    sitting: dict[int, PodFact] = {}
    standing: list[PodFact] = []
    unseated: list[PodFact] = []
    for pod in pods:
        ours = pod.admission == admission.id
        if not is_live(pod) or not (ours or pod.uid in adopted):
            continue
        if ours and pod.seat is None and pod.uid not in adopted:
            unseated.append(pod)
            continue
        index = adopted[pod.uid] if pod.uid in adopted else by_seat.get(pod.seat) if pod.seat else None
        if index is None or index in admission.ended or index in sitting:
            standing.append(pod)
        else:
            sitting[index] = pod
    if unseated:
        standing += _sit_by_node(admission, sitting, unseated)
    return Occupancy(admission, sitting, tuple(standing))


def _sit_by_node(admission: Admission, sitting: dict[int, PodFact], pods: list[PodFact]) -> list[PodFact]:
    vacant: dict[NodeName, list[int]] = {}
    for index in reversed(range(len(admission.seats))):
        if index not in admission.ended and index not in sitting:
            vacant.setdefault(admission.seats[index].node, []).append(index)
    left = []
    for pod in sorted(pods, key=lambda pod: pod.name):
        if pod.node is not None and vacant.get(pod.node):
            sitting[vacant[pod.node].pop()] = pod
        else:
            left.append(pod)
    return left


def shape_name(pod: PodFact) -> str:
    """Pod set of a group's member: its task, then a digest of what decides where it may go.

    Members with the same name are interchangeable.
    """
    digest = _digest(pod.takes, pod.nodes, pod.required_topology, pod.preferred_topology)
    return f"{pod.task or 'member'}-{digest}"


@lru_cache(maxsize=4096)
def _digest(takes: Resources, nodes: NodeFilter, required: str | None, preferred: str | None) -> str:
    shape = repr((sorted(takes.items()), nodes, required, preferred))
    return blake2b(shape.encode(), digest_size=5).hexdigest()


def group_pod_sets(
    fact: WorkloadFact, pods: Sequence[PodFact], occupancies: Sequence[Occupancy]
) -> tuple[PodSet, ...]:
    """Pod sets of a PodGroup: its live pods by shape. Pods without a seat get ordinals never used before."""
    seated = {pod.uid for place in occupancies for pod in place.sitting.values()}
    held: dict[str, set[int]] = {}
    used: dict[str, int] = {}
    vacant: Counter[str] = Counter()
    seats: dict[str, Seat] = {}
    for place in occupancies:
        for index, seat in enumerate(place.admission.seats):
            seats[seat.pod_set] = seat
            used[seat.pod_set] = max(used.get(seat.pod_set, 0), seat.ordinal + 1)
            if index not in place.admission.ended:
                held.setdefault(seat.pod_set, set()).add(seat.ordinal)
                vacant[seat.pod_set] += index not in place.sitting
    members: dict[str, list[PodFact]] = {}
    for pod in pods:
        if is_live(pod) and not pod.deleting and pod.uid not in seated:
            members.setdefault(shape_name(pod), []).append(pod)
    sets = []
    for name in sorted(members.keys() | held.keys()):
        waiting = members.get(name, [])
        count = used.get(name, 0) + max(0, len(waiting) - vacant[name])
        wanted = held.get(name, set()) | set(range(used.get(name, 0), count))
        template = (
            _pod_set_of(waiting[0], name, fact)
            if waiting
            else PodSet(name=name, count=0, takes=seats[name].takes)
        )
        sets.append(replace(template, count=count, done=frozenset(range(count)) - wanted))
    return tuple(sets)


def _pod_set_of(pod: PodFact, name: str, fact: WorkloadFact | None = None) -> PodSet:
    return PodSet(
        name=name,
        count=1,
        minimum=fact.task_minimums.get(pod.task, 0) if fact is not None else 0,
        takes=pod.takes,
        nodes=pod.nodes,
        required_topology=pod.required_topology,
        preferred_topology=pod.preferred_topology,
    )


def bare_pod_set(pod: PodFact) -> PodSet:
    """The only pod set of a pod without a group."""
    return _pod_set_of(pod, BARE)


def seats_over(place: Occupancy, *, successors: "Successors", dead: frozenset[NodeName]) -> frozenset[int]:
    """Seats of an admission to give back. A seat with a live pod is never over.

    ``dead``: nodes that cannot take a pod any more; once the gang has started, their vacant seats are over.
    """
    vacant = place.vacant()
    seats = place.admission.seats
    if successors.none or place.admission.state is AdmissionState.EVICTING:
        return frozenset(vacant[len(place.standing) :])
    over = {index for index in vacant if seats[index].node in dead and place.admission.started}
    if successors.ordinals is not None:
        wanted = successors.ordinals
        over |= {index for index in vacant if (seats[index].pod_set, seats[index].ordinal) not in wanted}
    if successors.numbers is not None:
        room = dict(successors.numbers)
        for index in vacant:
            if index in over:
                continue
            room[seats[index].pod_set] = room.get(seats[index].pod_set, 0) - 1
            if room[seats[index].pod_set] < 0:
                over.add(index)
    return frozenset(over)


@dataclass(frozen=True, slots=True, kw_only=True)
class Successors:
    """Which vacant seats of a workload a pod will still come for."""

    #: The owner ended or is gone: none at all.
    none: bool = False
    #: By place: (pod set, ordinal).
    ordinals: frozenset[tuple[str, int]] | None = None
    #: By number: so many per pod set.
    numbers: Mapping[str, int] | None = None


def successors_of(
    fact: WorkloadFact | None,
    kind: WorkloadKind,
    pods: Sequence[PodFact],
    pod_sets: Sequence[PodSet],
    occupancies: Sequence[Occupancy],
    *,
    over: bool,
) -> Successors:
    """What is still to come for the seats of a workload.

    Pods of Volcano Jobs and Indexed Jobs have seats of their own; other Jobs' pods take any. Gated members
    of a group and bare pods come for as many seats as they are; nobody makes successors for those they left.
    """
    if over:
        return Successors(none=True)
    if kind is WorkloadKind.VOLCANO_JOB or (fact is not None and fact.indexed):
        return Successors(
            ordinals=frozenset((pods_.name, ordinal) for pods_ in pod_sets for ordinal in pods_.wanted())
        )
    if kind is WorkloadKind.JOB:
        sitting = sum(len(place.sitting) for place in occupancies)
        return Successors(numbers={pods_.name: pods_.count - sitting for pods_ in pod_sets})
    seated = {pod.uid for place in occupancies for pod in place.sitting.values()}
    waiting = Counter(
        BARE if kind is WorkloadKind.POD else shape_name(pod)
        for pod in pods
        if is_live(pod) and not pod.deleting and pod.uid not in seated
    )
    return Successors(numbers=waiting)
