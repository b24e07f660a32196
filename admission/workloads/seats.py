"""Which pod of a workload has which seat: pure functions over facts and admissions.

The world calls them for workloads that have changed. They keep no state.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from admission.facts import PodFact, PodPhase
from admission.workloads.seat_sizes import has_room_for, is_at
from queues.admissions import Admission
from queues.workload import NodeName


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
    """Pods of a directed Job: any of the seats on the node to which the scheduler binds them."""
    vacant: dict[NodeName, list[int]] = {}
    for index in reversed(range(len(admission.seats))):
        if index not in admission.ended and index not in seated:
            vacant.setdefault(admission.seats[index].node, []).append(index)
    nodes = {seat.node for seat in admission.seats}
    template = admission.seats[0]  # all seats of a directed Job are for pods of one template
    for pod in sorted(pods, key=lambda pod: pod.name):
        if not has_room_for(template, pod, adopted=False) or (pod.node is not None and pod.node not in nodes):
            mismatched.append(pod)
        elif pod.node is not None and vacant.get(pod.node):
            seated[vacant[pod.node].pop()] = pod
        else:
            unseated.append(pod)


def awaits_seat(pod: PodFact) -> bool:
    """Whether a pod may be let go as soon as it has a seat. One that was never gated goes its own way."""
    return pod.gated and is_live(pod) and not pod.deleting


def taken_places(seat_maps: Iterable[SeatMap]) -> set[tuple[str, int]]:
    """Places (pod set, ordinal) on which a live pod sits, in whatever admission."""
    return {
        (place.admission.seats[index].pod_set, place.admission.seats[index].ordinal)
        for place in seat_maps
        for index in place.seated
    }
