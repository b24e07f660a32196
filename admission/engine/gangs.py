"""A gang is seated whole or not at all; what is above its minimum joins later, one by one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from admission.engine import reasons
from admission.engine.flavors import quota_hit, seat
from admission.engine.plan import Admit, Reason
from admission.engine.trial import Trial
from queues.quota import Account
from queues.resources import Resources, total
from queues.usage import accounts
from queues.workload import NO_FLAVOR, NodeName, PodSet, Seat, Workload


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """What a workload lacks."""

    #: Ordinals without a seat, by pod set.
    missing: Mapping[str, tuple[int, ...]]
    #: Those that make the gang complete together; {} = it is complete.
    least: Mapping[str, tuple[int, ...]]
    #: So many pods short of the minimum even if every missing ordinal gets a seat.
    short: int
    #: Nodes of the seats it has, by pod set.
    beside: Mapping[str, tuple[NodeName, ...]]

    @property
    def complete(self) -> bool:
        """Whether the gang has its minimum, so that any single further member is welcome."""
        return not self.least and not self.short


def need(workload: Workload, seats: Sequence[Seat]) -> Need:
    """What is missing beyond the seats that the workload holds. Pods that are done count as present."""
    held: dict[str, dict[int, NodeName]] = {}
    for each in seats:
        held.setdefault(each.pod_set, {})[each.ordinal] = each.node
    missing: dict[str, tuple[int, ...]] = {}
    present: dict[str, int] = {}
    for pods in workload.pod_sets:
        mine = held.get(pods.name, {})
        missing[pods.name] = tuple(ordinal for ordinal in pods.wanted() if ordinal not in mine)
        present[pods.name] = pods.count - len(missing[pods.name])
    least: dict[str, int] = {}
    short = 0
    for pods in workload.pod_sets:
        lacking = max(0, pods.minimum - present[pods.name])
        least[pods.name] = min(lacking, len(missing[pods.name]))
        short += lacking - least[pods.name]
    # A workload without any minimum still starts with one pod, not with none.
    lacking = max(workload.minimum, 1) - sum(present.values()) - sum(least.values())
    for pods in workload.pod_sets:
        more = min(max(0, lacking), len(missing[pods.name]) - least[pods.name])
        least[pods.name] += more
        lacking -= more
    return Need(
        missing={name: ordinals for name, ordinals in missing.items() if ordinals},
        least={name: missing[name][:count] for name, count in least.items() if count},
        short=max(short, lacking, 0),
        beside={name: tuple(nodes.values()) for name, nodes in held.items()},
    )


def admit(workload: Workload, lacks: Need, trial: Trial) -> Admit | Reason:
    """Seats for everything that is missing, else for the least that makes a gang, else the reason.

    A workload whose gang is complete takes what it can get. Nothing stays taken in the trial unless seats
    come back.
    """
    seats = _together(workload, lacks, lacks.missing, trial)
    if isinstance(seats, Reason):
        if lacks.complete:
            seats = _one_by_one(workload, lacks, trial) or seats
        elif lacks.least != lacks.missing:
            seats = _together(workload, lacks, lacks.least, trial)
    if isinstance(seats, Reason):
        return seats
    trial.keep()
    return Admit(
        workload=workload.key,
        namespace=workload.namespace,
        name=workload.name,
        queue=workload.queue,
        priority=workload.priority,
        generation=workload.generation,
        seats=tuple(seats),
        elastic=bool(lacks.beside),
    )


def asked(workload: Workload, ordinals: Mapping[str, Sequence[int]]) -> dict[Account, int]:
    """What these ordinals ask for, over all flavors."""
    return accounts({NO_FLAVOR: takes_of(workload, ordinals)})


def takes_of(workload: Workload, ordinals: Mapping[str, Sequence[int]]) -> Resources:
    """What these ordinals take together."""
    return total(pods.takes * len(ordinals.get(pods.name, ())) for pods in workload.pod_sets)


def _together(
    workload: Workload, lacks: Need, ordinals: Mapping[str, tuple[int, ...]], trial: Trial
) -> list[Seat] | Reason:
    """All of them or none."""
    hit = quota_hit(trial, workload.queue, asked(workload, ordinals))
    if hit is not None:
        return reasons.queue_limit(hit)
    seats: list[Seat] = []
    for pods in _hardest_first([each for each in workload.pod_sets if each.name in ordinals], trial):
        beside = lacks.beside.get(pods.name, ())
        answer = seat(trial, workload.queue, pods, ordinals[pods.name], beside)
        if isinstance(answer, Reason):
            trial.undo()
            return answer
        seats += answer
    return sorted(seats, key=lambda each: (each.pod_set, each.ordinal))


def _one_by_one(workload: Workload, lacks: Need, trial: Trial) -> list[Seat]:
    """As many further members as get a seat, in order, each on its own."""
    seats: list[Seat] = []
    for pods in workload.pod_sets:
        beside = list(lacks.beside.get(pods.name, ()))
        for ordinal in lacks.missing.get(pods.name, ()):
            answer = seat(trial, workload.queue, pods, (ordinal,), beside)
            if isinstance(answer, Reason):
                break
            seats += answer
            beside += [each.node for each in answer]
    return seats


def _hardest_first(pod_sets: Sequence[PodSet], trial: Trial) -> Sequence[PodSet]:
    """Required topology first, then preferred, then those with the fewest places, then by name."""
    if len(pod_sets) < 2:
        return pod_sets
    places = {
        pods.name: int(trial.room(pods.takes, trial.layout.allowed(pods.nodes)).sum()) for pods in pod_sets
    }
    return sorted(
        pod_sets,
        key=lambda pods: (
            pods.required_topology is None,
            pods.preferred_topology is None,
            places[pods.name],
            pods.name,
        ),
    )
