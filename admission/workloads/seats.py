"""Which pod of a workload has which seat, and which pods a seat is for: those that ask no more than it has.

Pure functions over facts and admissions. The world calls them for workloads that have changed. They keep no state.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import WorkloadFact
from queues.admissions import Admission, Seat
from queues.api.reading.device_shares import with_share
from queues.resources import NOTHING, PODS, Resources, is_device, show
from queues.workload import DeviceShare, NodeName, PodSet


def is_live(pod: PodFact) -> bool:
    """Whether the pod runs or may still run."""
    return pod.phase is PodPhase.PENDING or pod.phase is PodPhase.RUNNING


@dataclass(frozen=True, slots=True)
class SeatMap:
    """The live pods of one admission, by the seats that they have."""

    admission: Admission
    #: Seat index → its live pod.
    seated: Mapping[int, PodFact]
    #: Live pods of the admission without a seat: not seated yet, or their seat was given back, or is not for them.
    unseated: tuple[PodFact, ...]
    #: Those among them that ask more than their seat has, or lie on another node.
    mismatched: tuple[PodFact, ...] = ()

    def vacant(self) -> list[int]:
        """Seats that are held without a live pod, in order."""
        seats = range(len(self.admission.seats))
        return [index for index in seats if index not in self.seated and index not in self.admission.ended]

    def has_started(self) -> bool:
        """Whether the gang runs: by the ledger, or by pods in all its seats that are bound, which it is told next."""
        held = len(self.admission.holding())
        bound = sum(pod.node is not None for pod in self.seated.values())
        return self.admission.started or 0 < held <= bound

    def is_by_index(self) -> bool:
        """Whether each pod with a completion index has the seat of that number."""
        seats = self.admission.seats
        return all(
            pod.index is None or pod.index == seats[index].ordinal for index, pod in self.seated.items()
        )


def vacant_and_due(place: SeatMap, fact: WorkloadFact | None, places: Iterable[SeatMap]) -> list[int]:
    """Vacant seats of an admission that should have their pods by now: not those of pod sets that wait for others.

    ``places``: all of the workload. Where what the others wait for has no seats itself, nothing comes: all count.
    """
    vacant = place.vacant()
    later = {name for name, each in fact.progress.items() if not each.is_due} if fact is not None else set()
    if fact is None or not later:
        return vacant
    held = Counter(seat.pod_set for each in places for seat in each.admission.holding())
    if any(pods.count > held[pods.name] for pods in fact.pod_sets if pods.name not in later):
        return vacant
    return [index for index in vacant if place.admission.seats[index].pod_set not in later]


def seat_maps_of(admissions: Sequence[Admission], pods: Sequence[PodFact]) -> tuple[SeatMap, ...]:
    """The seat maps of all admissions of a workload. A pod that one of them adopted belongs to no other."""
    adopted = {uid: admission.id for admission in admissions for uid in admission.adopted or ()}
    return tuple(
        seat_map_of(admission, [pod for pod in pods if adopted.get(pod.uid, admission.id) == admission.id])
        for admission in admissions
    )


def seat_map_of(admission: Admission, pods: Iterable[PodFact]) -> SeatMap:
    """Match live pods to seats: by adoption, by the seat written on the pod, else (directed Jobs) by node.

    A pod that asks more than the seat has, or that is bound to another node, does not get it.
    """
    adopted = admission.adopted or {}
    by_seat = {(seat.pod_set, seat.ordinal): index for index, seat in enumerate(admission.seats)}
    seated: dict[int, PodFact] = {}
    unseated: list[PodFact] = []
    mismatched: list[PodFact] = []
    without_seat: list[PodFact] = []
    for pod in pods:
        ours = pod.admission == admission.id
        if not is_live(pod) or not (ours or pod.uid in adopted):
            continue
        if ours and pod.seat is None and pod.uid not in adopted:
            without_seat.append(pod)
            continue
        index = adopted[pod.uid] if pod.uid in adopted else by_seat.get(pod.seat) if pod.seat else None
        if index is None or index in admission.ended or index in seated:
            unseated.append(pod)
        elif _suits(admission, index, pod):
            seated[index] = pod
        else:
            mismatched.append(pod)
    if without_seat:
        _seat_by_node(admission, without_seat, seated, unseated, mismatched)
    return SeatMap(admission, seated, (*unseated, *mismatched), tuple(mismatched))


def _suits(admission: Admission, index: int, pod: PodFact) -> bool:
    seat = admission.seats[index]
    return is_at(seat, pod) and has_room_for(seat, pod, adopted=pod.uid in (admission.adopted or ()))


def _seat_by_node(
    admission: Admission,
    pods: list[PodFact],
    seated: dict[int, PodFact],
    unseated: list[PodFact],
    mismatched: list[PodFact],
) -> None:
    """Pods of a directed Job: seats on the node to which the scheduler binds them. That of its completion index goes to
    a pod if it is among these, else any."""
    seats, ended = admission.seats, admission.ended
    free = [index for index in range(len(seats)) if index not in ended and index not in seated]
    own = {seats[index].ordinal: index for index in free}
    nodes = {seat.node for seat in seats}
    template = seats[0]  # all seats of a directed Job are for pods of one template
    others: list[PodFact] = []
    for pod in sorted(pods, key=lambda pod: pod.name):
        index = None if pod.index is None else own.get(pod.index)
        if not has_room_for(template, pod, adopted=False) or (pod.node is not None and pod.node not in nodes):
            mismatched.append(pod)
        elif index is not None and index not in seated and pod.node == seats[index].node:
            seated[index] = pod
        else:
            others.append(pod)
    vacant: dict[NodeName, list[int]] = {}
    for index in reversed(free):
        if index not in seated:
            vacant.setdefault(seats[index].node, []).append(index)
    for pod in others:
        if pod.node is not None and vacant.get(pod.node):
            seated[vacant[pod.node].pop()] = pod
        else:
            unseated.append(pod)


def awaits_seat(pod: PodFact) -> bool:
    """Whether a pod may be let go as soon as it has a seat. One that was never gated goes its own way."""
    return pod.gated and is_live(pod) and not pod.deleting


def may_be_seated(pod: PodFact) -> bool:
    """Whether a pod could start once it has a seat: it can be used as written, and no gates of others hold it."""
    return awaits_seat(pod) and not pod.other_gates and pod.obstacle is None


def taken_places(seat_maps: Iterable[SeatMap]) -> set[tuple[str, int]]:
    """Places (pod set, ordinal) on which a live pod sits, in whatever admission."""
    return {
        (place.admission.seats[index].pod_set, place.admission.seats[index].ordinal)
        for place in seat_maps
        for index in place.seated
    }


# ── sizes of seats ──────────────────────────────────────────────────────────────────────────────────────────────


def is_at(seat: Seat, pod: PodFact) -> bool:
    """Whether a pod is on the node of a seat, or on none yet."""
    return pod.node is None or pod.node == seat.node


def has_room_for(seat: Seat, pod: PodFact, *, adopted: bool) -> bool:
    """Whether a seat has all that a pod asks. ``adopted``: the seat was made for the pod, without parts of devices."""
    takes, share = pod.shape.takes, pod.shape.share
    if adopted:
        return _is_within(takes, seat.takes)
    return _has(seat, takes if share is None else with_share(takes, share), share)


def may_take(seat: Seat, pod: PodFact, pods: PodSet | None) -> bool:
    """Whether a pod that waits may have a seat. ``pods``: the set it is in, which says what ports were counted."""
    ports = pods is None or set(pod.shape.ports) <= set(pods.ports)
    return ports and has_room_for(seat, pod, adopted=False)


def is_large_enough(seat: Seat, pods: PodSet) -> bool:
    """Whether a seat has all that a pod of a set asks."""
    return _has(seat, pods.takes, pods.share)


def _has(seat: Seat, takes: Resources, share: DeviceShare | None) -> bool:
    if not _is_within(takes, seat.takes):
        return False
    if share is None:
        return True
    parts = [units for name, units in seat.takes.items() if is_device(name)]
    return len(parts) == share.devices and all(units >= share.milli for units in parts)


def _is_within(takes: Resources, limit: Resources) -> bool:
    """``takes.fits(limit)``, quickly where both are the same, as nearly always."""
    return takes is limit or takes == limit or takes.fits(limit)


def beyond(seat: Seat, takes: Resources) -> Resources:
    """What is asked beyond what the seat has."""
    if _is_within(takes, seat.takes):
        return NOTHING
    return Resources({name: max(0, units - seat.takes[name]) for name, units in takes.items()})


def difference(seat: Seat, takes: Resources, share: DeviceShare | None = None) -> str:
    """What is asked beyond what the seat has, for people: ``8 nvidia.com/gpu, expected at most 1``."""
    return "; ".join(_differences(seat, with_share(takes, share))) or "other parts of devices than before"


def _differences(seat: Seat, takes: Resources) -> Iterator[str]:
    for name, units in sorted(takes.items()):
        if units > seat.takes[name] and name != PODS:
            yield f"{show(name, units)} {name}, expected at most {show(name, seat.takes[name])}"
