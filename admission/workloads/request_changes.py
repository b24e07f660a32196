"""What workloads and their pods ask now, against the seats that they were given. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from admission.decode.workload_facts import pods_generation
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.workloads.inputs import WorkloadInputs
from admission.workloads.kinds import Holding, support_of
from admission.workloads.seats import SeatMap, difference, is_large_enough, may_be_seated, may_take
from queues.admissions import Admission, Seat
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.resources import NOTHING, Resources
from queues.workload import AdmissionId, PodSet


class Mismatch(NamedTuple):
    """A pod and the seat that is not for it."""

    pod: PodFact
    seat: Seat

    def __str__(self) -> str:
        pod, seat = self
        if pod.node is not None and pod.node != seat.node:
            return f"pod {pod.name} is on node {pod.node}, expected {seat.node}, where its seat is"
        return f"pod {pod.name} asks {difference(seat, pod.shape.takes, pod.shape.share)}, which its seat has"


class RequestChanges(NamedTuple):
    """How what is asked now differs from what was admitted, by admission. Those without a difference are left out."""

    #: Seats that are not for the pods that would be made for them now.
    outgrown: Mapping[AdmissionId, frozenset[int]]
    mismatches: Mapping[AdmissionId, Mismatch]

    def larger(self) -> Mapping[str, Resources]:
        """What pods ask that are larger than their seats, by pod set."""
        found: dict[str, Resources] = {}
        for pod, seat in self.mismatches.values():
            if not pod.shape.takes.fits(seat.takes):
                found[seat.pod_set] = pod.shape.takes.largest(found.get(seat.pod_set, NOTHING))
        return found

    def reason(self) -> Reason | None:
        """What an admitted workload shows; None for nothing."""
        first = next(iter(self.mismatches.values()), None)
        return None if first is None else Reason(code=ReasonCode.SEAT_MISMATCH, message=str(first))


def request_changes(inputs: WorkloadInputs, places: Sequence[SeatMap]) -> RequestChanges:
    """How a workload differs from what was admitted. ``places``: of its open admissions."""
    return RequestChanges(outgrown_seats(inputs, places), mismatches(inputs, places))


def outgrown_seats(inputs: WorkloadInputs, places: Iterable[SeatMap]) -> Mapping[AdmissionId, frozenset[int]]:
    """Seats that are not for the pods that would be made for them now, by admission. Those without any are left out.

    Of a Job that is suspended all seats: its pods are made anew from the template as it is when it is resumed.
    Of a Volcano Job the vacant ones. Gated pods exist before their seats do, and are compared one by one.
    """
    fact = inputs.fact
    holding = support_of(inputs.key).holding
    if fact is None or holding is Holding.GATED or (holding.is_suspended and not fact.suspended):
        return {}
    pod_sets = {pods.name: pods for pods in fact.pod_sets}
    found: dict[AdmissionId, frozenset[int]] = {}
    for place in places:
        admission = place.admission
        whole = holding.is_suspended
        seats = range(len(admission.seats)) if whole else place.vacant()
        outgrown = frozenset(
            index
            for index in seats
            if index not in admission.ended
            and not _is_for(admission, index, fact, pod_sets.get(admission.seats[index].pod_set))
        )
        if outgrown:
            found[admission.id] = outgrown
    return found


def _is_for(admission: Admission, index: int, fact: WorkloadFact, pods: PodSet | None) -> bool:
    """Whether a seat is what a pod of this set would be admitted to now."""
    if _is_unusable(fact):
        return False  # what its pods would ask is not known
    if pods is None:
        return True  # it is given back as one that no pod comes for
    if fact.suspended and pods_generation(admission.generation) not in ("", pods_generation(fact.generation)):
        return False
    if pods.share is not None and pods.share.memory and admission.generation not in ("", fact.generation):
        # What memory of a device is in thousandths of it depends on the node, so the seat does not show it.
        return False
    return is_large_enough(admission.seats[index], pods)


def _is_unusable(fact: WorkloadFact) -> bool:
    """Gates of others in a template that changed keep a Job from using its seats; pods that run have none any more."""
    if fact.obstacle is None:
        return False
    held = fact.suspended and fact.obstacle.code is ReasonCode.OTHER_GATES
    return held or fact.obstacle.code is ReasonCode.INVALID_SPEC


def change_of(fact: WorkloadFact, place: SeatMap, outgrown: frozenset[int]) -> str:
    """What has changed since an admission, for people."""
    for index in sorted(outgrown):
        seat = place.admission.seats[index]
        pods = next((each for each in fact.pod_sets if each.name == seat.pod_set), None)
        if pods is not None and not is_large_enough(seat, pods):
            return f"pods of {pods.name} ask {difference(seat, pods.takes, pods.share)}, which was admitted"
    if fact.obstacle is not None and _is_unusable(fact):
        return f"it cannot be used as it is now: {fact.obstacle.message}"
    return "what it asks was changed after it was admitted"


def mismatches(inputs: WorkloadInputs, places: Sequence[SeatMap]) -> Mapping[AdmissionId, Mismatch]:
    """Of each admission the first pod that has a seat of it that is not for the pod, or that waits for such a seat."""
    found: dict[AdmissionId, Mismatch] = {}
    for place in places:
        for pod in place.mismatched[:1]:
            found[place.admission.id] = Mismatch(pod, _named_seat(place.admission, pod))
    support = support_of(inputs.key)
    if support.is_group:
        return found  # its pod sets are named after what its members ask
    waiting = [pod for pod in inputs.pods if may_be_seated(pod)]
    vacant = _vacant_seats(places) if waiting else {}
    by_ordinal = support.is_by_ordinal(inputs.fact)
    for pod in waiting:
        name = support.pod_set_name(pod, inputs.fact)
        seats = vacant.get((name, pod.index) if by_ordinal else (name, None), ())
        pods = _pod_set_named(inputs.fact, name)
        if seats and not any(may_take(seat, pod, pods) for _, seat in seats):
            id_, seat = seats[0]
            found.setdefault(id_, Mismatch(pod, seat))
    return found


def _pod_set_named(fact: WorkloadFact | None, name: str) -> PodSet | None:
    """The pod set of a Job; None if the object is no Job, or has no such set."""
    return next((pods for pods in fact.pod_sets if pods.name == name), None) if fact is not None else None


def _vacant_seats(
    places: Sequence[SeatMap],
) -> dict[tuple[str, int | None], list[tuple[AdmissionId, Seat]]]:
    """Vacant seats by pod set, and by pod set and ordinal."""
    found: dict[tuple[str, int | None], list[tuple[AdmissionId, Seat]]] = {}
    for place in places:
        for index in place.vacant():
            seat = place.admission.seats[index]
            for ordinal in (None, seat.ordinal):
                found.setdefault((seat.pod_set, ordinal), []).append((place.admission.id, seat))
    return found


def _named_seat(admission: Admission, pod: PodFact) -> Seat:
    """The seat that a pod came for; of a directed Job's pods the first."""
    if (index := (admission.adopted or {}).get(pod.uid)) is not None:
        return admission.seats[index]
    named = (seat for seat in admission.seats if (seat.pod_set, seat.ordinal) == pod.seat)
    return next(named, admission.seats[0])
