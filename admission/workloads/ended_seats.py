"""Which pods of a workload will still come, and which of its seats are given back: those that none comes for. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import NOTHING_BY_NAME, WorkloadFact
from admission.workloads.inputs import WorkloadInputs
from admission.workloads.job_counts import with_ended
from admission.workloads.kinds import KindSupport, support_of
from admission.workloads.kinds.batch_job import as_counted
from admission.workloads.pod_sets import without_succeeded
from admission.workloads.seats import SeatMap, awaits_seat, is_live, taken_places
from queues.admissions import AdmissionState
from queues.workload import NodeName, PodSet


@dataclass(frozen=True, slots=True)
class PodsToCome:
    """Pods that the controller of a workload will still make, or that are there and wait for a seat."""

    #: How many, by pod set. Less than 0: so many pods are there that will go.
    counts: Mapping[str, int] = field(default_factory=lambda: NOTHING_BY_NAME)
    #: Which ones, by pod set and ordinal, of a workload where each pod has a seat of its own. None: any pod takes any
    #: seat of its set.
    places: frozenset[tuple[str, int]] | None = None


def pods_to_come(
    fact: WorkloadFact | None,
    support: KindSupport,
    pods: Sequence[PodFact],
    pod_sets: Sequence[PodSet],
    seat_maps: Sequence[SeatMap],
) -> PodsToCome:
    """Pods that will still come for the seats of a workload that goes on.

    Those of Volcano Jobs, and of most Indexed Jobs, have seats of their own; pods of other Jobs take any. Gated members
    of a group and bare pods come for one seat; a pod that ended has no successor.
    """
    if support.is_by_ordinal(fact):
        wanted = {(pods_.name, ordinal) for pods_ in pod_sets for ordinal in pods_.wanted()}
        places = frozenset(wanted - taken_places(seat_maps))
        return PodsToCome(Counter(name for name, _ in places), places)
    if support.holding.is_suspended:
        sitting = Counter(
            place.admission.seats[index].pod_set for place in seat_maps for index in place.seated
        )
        asked = fact.pod_sets if fact is not None else ()
        if len(asked) == 1:
            # Pods that were adopted while the object was not known sit in seats without a name.
            sitting = Counter({asked[0].name: sitting.total()})
        return PodsToCome({pods_.name: pods_.count - sitting[pods_.name] for pods_ in asked})
    seated = {pod.uid for place in seat_maps for pod in place.seated.values()}
    return PodsToCome(
        Counter(support.pod_set_name(pod, fact) for pod in pods if awaits_seat(pod) and pod.uid not in seated)
    )


def seats_over(
    place: SeatMap,
    *,
    to_come: PodsToCome | None,
    dead: frozenset[NodeName],
    outgrown: frozenset[int] = frozenset(),
    awaited: frozenset[int] = frozenset(),
) -> frozenset[int]:
    """Seats of an admission to give back. A seat with a live pod is never over, nor one that a pod may still take.

    ``to_come``: None if the owner ended or is gone.
    ``dead``: nodes that cannot take a pod any more; ``outgrown``: seats that are too small for the pods to come. Once
    the gang has started, such seats are over when they are vacant.
    ``awaited``: seats for which a pod may still come although none is seen.
    """
    # Pods that come take the awaited seats first.
    vacant = sorted(place.vacant(), key=lambda index: (index not in awaited, index))
    return _over(place, vacant, to_come, dead, outgrown) - awaited


def _over(
    place: SeatMap,
    vacant: Sequence[int],
    to_come: PodsToCome | None,
    dead: frozenset[NodeName],
    outgrown: frozenset[int],
) -> frozenset[int]:
    seats = place.admission.seats
    if to_come is None or place.admission.state is AdmissionState.EVICTING:
        return frozenset(vacant[len(place.unseated) :])
    over = {
        index
        for index in vacant
        if place.admission.started and (seats[index].node in dead or index in outgrown)
    }
    if to_come.places is not None:
        over |= {
            index for index in vacant if (seats[index].pod_set, seats[index].ordinal) not in to_come.places
        }
        return frozenset(over)
    room = dict(to_come.counts)
    for index in vacant:
        if index in over:
            continue
        room[seats[index].pod_set] = room.get(seats[index].pod_set, 0) - 1
        if room[seats[index].pod_set] < 0:
            over.add(index)
    return frozenset(over)


# ── what controllers see by now ─────────────────────────────────────────────────────────────────────────────────


def as_controlled(inputs: WorkloadInputs, seat_maps: Sequence[SeatMap]) -> WorkloadInputs:
    """The inputs with a Job as its controller will see it: with pods that have succeeded and are not counted yet, and
    with seats that any pod takes where its pods are not in those of their completion indexes: the scheduler binds pods
    of a directed Job to any of its nodes, and a Job that is made larger may become one with a seat for each index.
    """
    fact = inputs.fact
    if fact is None or not support_of(fact.key).holding.is_suspended:
        return inputs
    if fact.counts is None:
        return _without_succeeded(inputs, fact)
    counts = with_ended(fact.counts, inputs.pods)
    by_index = fact.indexed and all(place.is_by_index() for place in seat_maps)
    is_drained = counts.completions is None and counts.succeeded > 0
    if counts is fact.counts and by_index == fact.indexed and not is_drained:
        return inputs
    active = sum(is_live(pod) and not pod.deleting for pod in inputs.pods)
    return msgspec.structs.replace(inputs, fact=as_counted(fact, counts, active, by_index=by_index))


def _without_succeeded(inputs: WorkloadInputs, fact: WorkloadFact) -> WorkloadInputs:
    """The inputs without pods that have succeeded, though the status of their object does not say so yet."""
    succeeded = [pod for pod in inputs.pods if pod.phase is PodPhase.SUCCEEDED]
    if not succeeded:
        return inputs
    name_of = support_of(fact.key).pod_set_name
    # Of two pods of one index of a Job that succeed its controller counts one.
    places = {
        (name_of(pod, fact), *((pod.uid,) if pod.index is None else (pod.controller, pod.index)))
        for pod in succeeded
    }
    left = without_succeeded(fact.pod_sets, fact.progress, Counter(name for name, *_ in places))
    asked = sum(pods.count for pods in left)
    fact = replace(fact, pod_sets=left, minimum=min(fact.minimum, asked), parallelism=asked)
    return msgspec.structs.replace(inputs, fact=fact)
