"""Which seats of a workload are given back: those that no pod will come for any more. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.workloads.kinds import KindSupport
from admission.workloads.seats import SeatMap, awaits_seat, taken_places
from queues.admissions import AdmissionState
from queues.workload import NodeName, PodSet

#: Which vacant seats of a workload a pod will still come for: by place (pod set, ordinal), or so many per pod set.
#: None: no pod comes any more, because the owner ended or is gone.
Successors = frozenset[tuple[str, int]] | Mapping[str, int] | None


def seats_over(
    place: SeatMap,
    *,
    successors: Successors,
    dead: frozenset[NodeName],
    outgrown: frozenset[int] = frozenset(),
    awaited: frozenset[int] = frozenset(),
) -> frozenset[int]:
    """Seats of an admission to give back. A seat with a live pod is never over, nor one that a pod may still take.

    ``dead``: nodes that cannot take a pod any more; ``outgrown``: seats that are too small for the pods to come. Once
    the gang has started, such seats are over when they are vacant.
    ``awaited``: seats for which a pod may still come although none is seen.
    """
    # Pods that come take the awaited seats first.
    vacant = sorted(place.vacant(), key=lambda index: (index not in awaited, index))
    return _over(place, vacant, successors, dead, outgrown) - awaited


def _over(
    place: SeatMap,
    vacant: Sequence[int],
    successors: Successors,
    dead: frozenset[NodeName],
    outgrown: frozenset[int],
) -> frozenset[int]:
    seats = place.admission.seats
    if successors is None or place.admission.state is AdmissionState.EVICTING:
        return frozenset(vacant[len(place.unseated) :])
    over = {
        index
        for index in vacant
        if place.admission.started and (seats[index].node in dead or index in outgrown)
    }
    if isinstance(successors, frozenset):
        over |= {index for index in vacant if (seats[index].pod_set, seats[index].ordinal) not in successors}
        return frozenset(over)
    room = dict(successors)
    for index in vacant:
        if index in over:
            continue
        room[seats[index].pod_set] = room.get(seats[index].pod_set, 0) - 1
        if room[seats[index].pod_set] < 0:
            over.add(index)
    return frozenset(over)


def successors_of(
    fact: WorkloadFact | None,
    support: KindSupport,
    pods: Sequence[PodFact],
    pod_sets: Sequence[PodSet],
    seat_maps: Sequence[SeatMap],
    *,
    over: bool,
) -> Successors:
    """Pods that are still to come for the seats of a workload.

    Pods of Volcano Jobs and Indexed Jobs have seats of their own; other Jobs' pods take any. Gated members
    of a group and bare pods come for one seat each; a pod that ended has no successor.
    """
    if over:
        return None
    if support.is_by_ordinal(fact):
        wanted = {(pods_.name, ordinal) for pods_ in pod_sets for ordinal in pods_.wanted()}
        return frozenset(wanted - taken_places(seat_maps))
    if support.holding.is_suspended:
        sitting = Counter(
            place.admission.seats[index].pod_set for place in seat_maps for index in place.seated
        )
        asked = fact.pod_sets if fact is not None else ()
        if len(asked) == 1:
            # Pods that were adopted while the object was not known sit in seats without a name.
            sitting = Counter({asked[0].name: sitting.total()})
        return {pods_.name: pods_.count - sitting[pods_.name] for pods_ in asked}
    seated = {pod.uid for place in seat_maps for pod in place.seated.values()}
    return Counter(
        support.pod_set_name(pod, fact) for pod in pods if awaits_seat(pod) and pod.uid not in seated
    )
