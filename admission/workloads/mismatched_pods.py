"""Pods that do not go with the seats of their workload: they ask more, run without one, or are to be removed. Pure.

The next plan adopts pods that run in a queue without a seat, or they are foreign. Adopted are pods that a ledger
released (their label and annotations are guarded by the admission policies), as when this ledger was lost or restored
from a backup; and all pods of a namespace in migration mode (``muster.dev/adopt``), until its end. Other pods count on
their node, as pods without a queue do, and a condition says so. Their queue is never charged: any user may write a
queue's name on a pod that runs.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from admission.decode.workload_facts import pods_generation
from admission.engine.snapshot import Unbooked, UnbookedPod
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.workloads.inputs import DEFAULT_QUEUE, WorkloadInputs
from admission.workloads.kinds import SUSPENDED, Holding, KindSupport, support_of
from admission.workloads.pod_sets import FreeOrdinals
from admission.workloads.seats import (
    SeatMap,
    difference,
    is_large_enough,
    is_live,
    may_be_seated,
    may_take,
    taken_places,
)
from queues import kind_names
from queues.admissions import Admission, AdmissionState, Seat
from queues.api.names import ADOPT, ADOPT_UNTIL
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.resources import NOTHING, Resources
from queues.text_format import rfc3339
from queues.workload import UNUSABLE_QUEUE, AdmissionId, Obstacle, PodSet


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
    if fact is None or holding is Holding.GATED or (holding in SUSPENDED and not fact.suspended):
        return {}
    pod_sets = {pods.name: pods for pods in fact.pod_sets}
    found: dict[AdmissionId, frozenset[int]] = {}
    for place in places:
        admission = place.admission
        whole = holding in SUSPENDED
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
    pod_sets = () if inputs.fact is None else inputs.fact.pod_sets
    for pod in waiting:
        name = support.pod_set_name(pod, inputs.fact)
        seats = vacant.get((name, pod.index) if by_ordinal else (name, None), ())
        pods = next((each for each in pod_sets if each.name == name), None)
        if seats and not any(may_take(seat, pod, pods) for _, seat in seats):
            id_, seat = seats[0]
            found.setdefault(id_, Mismatch(pod, seat))
    return found


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


#: Seconds. A migration mode whose end is further away does not count: administrators would forget to end it.
LONGEST_ADOPTION: Final = 90 * 86_400


@dataclass(frozen=True, slots=True)
class PodsWithoutSeat:
    """Live pods of a workload that are bound to nodes, and have no seat."""

    #: To be adopted.
    adoptable: tuple[PodFact, ...] = ()
    #: Not Muster's, though they name a queue, or belong to an object that does.
    foreign: tuple[PodFact, ...] = ()


def pods_without_seat(inputs: WorkloadInputs, seat_maps: Sequence[SeatMap], now: int) -> PodsWithoutSeat:
    """Pods that run in a queue without a seat of their size. ``now`` is in seconds.

    Pods without an admission, pods beyond those for which their Job was directed, and pods that outgrew their seats;
    not leftovers of closed admissions.
    """
    ids = {admission.id for admission in inputs.admissions}
    seated = {pod.uid for place in seat_maps for pod in place.seated.values()}
    surplus = {
        pod.uid
        for place in seat_maps
        if place.admission.state is AdmissionState.OPEN
        for pod in place.unseated
        if pod.seat is None and pod not in place.mismatched
    }
    surplus |= {pod.uid for place in seat_maps for pod in outgrowing_pods(place)}
    found = [
        pod
        for pod in inputs.pods
        if is_live(pod)
        and pod.node is not None
        and pod.admission not in inputs.closed
        and pod.uid not in seated
        and (pod.admission not in ids or pod.uid in surplus)
    ]
    return PodsWithoutSeat(
        adoptable=tuple(pod for pod in found if _may_be_adopted(pod, inputs, now)),
        foreign=tuple(pod for pod in found if not _may_be_adopted(pod, inputs, now)),
    )


def _may_be_adopted(pod: PodFact, inputs: WorkloadInputs, now: int) -> bool:
    if any(pod.admission == each.id or pod.uid in (each.adopted or ()) for each in inputs.admissions):
        return True  # in the books already, with less than it takes
    if pod.uid in inputs.origins:
        return True
    queue = inputs.fact.queue if inputs.fact is not None else pod.queue
    if queue == UNUSABLE_QUEUE:
        return False
    # A pod names an admission only if Muster released it: see ``admission.decode.pods``.
    return inputs.may_use_queue and (
        pod.admission is not None or now < pod.adopt_until <= now + LONGEST_ADOPTION
    )


def foreign_obstacle(pod: PodFact, inputs: WorkloadInputs, now: int) -> Obstacle:
    """Why a pod that runs is not adopted, and what helps."""
    why = f"pod {pod.name} runs without an admission; it counts on its node and is not charged to the queue"
    if not inputs.may_use_queue:
        hint = f"namespace {pod.namespace} may not use the queue"
    elif pod.adopt_until > now + LONGEST_ADOPTION:
        hint = (
            f"{ADOPT_UNTIL} of namespace {pod.namespace} is {rfc3339(pod.adopt_until)}, expected a time in the "
            f"next {LONGEST_ADOPTION // 86_400} days"
        )
    elif 0 < pod.adopt_until <= now:
        hint = f"{ADOPT} of namespace {pod.namespace} ended at {rfc3339(pod.adopt_until)}"
    else:
        hint = f"namespace {pod.namespace} is not in migration mode ({ADOPT})"
    return Obstacle(ReasonCode.NOT_GATED, f"{why}: {hint}. To have it wait, delete it and create it again")


def unbooked_of(
    inputs: WorkloadInputs, seat_maps: Sequence[SeatMap], found: Sequence[PodFact]
) -> Unbooked | None:
    """What the plan is to adopt of a workload. ``found``: its adoptable pods. None if there are none."""
    if not found:
        return None
    fact, first = inputs.fact, found[0]
    origin = inputs.origins.get(first.uid)
    # Those of other queues or times follow in the next turn.
    found = [pod for pod in found if inputs.origins.get(pod.uid) == origin]
    queue = origin.queue if origin is not None else (fact.queue if fact is not None else first.queue)
    support = support_of(inputs.key)
    if support.is_by_ordinal(fact):
        taken = taken_places(seat_maps)
    else:
        taken = {(seat.pod_set, seat.ordinal) for each in inputs.admissions for seat in each.holding()}
    return Unbooked(
        workload=inputs.key,
        namespace=first.namespace,
        name=fact.name if fact is not None else first.name,
        queue=queue or DEFAULT_QUEUE,
        since=0 if origin is None else origin.since,
        priority=fact.priority if fact is not None else first.priority,
        pods=tuple(_with_ordinals(found, fact, support, taken)),
    )


def _with_ordinals(
    found: Sequence[PodFact],
    fact: WorkloadFact | None,
    support: KindSupport,
    taken: Collection[tuple[str, int]],
) -> Iterator[UnbookedPod]:
    """The pods with ordinals that are free: that of their index if it lies within their set, else the lowest."""
    names = [support.pod_set_name(pod, fact) for pod in found]
    sizes = Counter(names) + Counter(name for name, _ in taken)
    if support.is_by_ordinal(fact) and fact is not None:
        sizes = Counter({pods.name: pods.count for pods in fact.pod_sets})
    ordinals: dict[str, set[int]] = {name: set() for name in names}
    for name, ordinal in taken:
        ordinals.setdefault(name, set()).add(ordinal)
    free = {name: FreeOrdinals(of_name) for name, of_name in ordinals.items()}
    for pod, name in zip(found, names, strict=True):
        within = pod.index is not None and pod.index < sizes[name]
        ordinal = free[name].take(pod.index if within else None)
        if pod.node is not None:
            yield UnbookedPod(pod.uid, name, ordinal, pod.node, pod.shape.takes)


def leftover_pods(inputs: WorkloadInputs, seat_maps: Sequence[SeatMap]) -> tuple[PodFact, ...]:
    """Live pods of closed admissions, pods that came for a seat that another pod has, and pods whose Job or PodGroup
    was gone before they were bound.

    Annotations of an adopted pod may be from another ledger, so it is no leftover while it has a seat.
    """
    seated = {pod.uid for place in seat_maps for pod in place.seated.values()}
    late = {
        pod.uid
        for place in seat_maps
        for pod in place.unseated
        if pod.seat is not None and pod not in outgrowing_pods(place)
    }
    return tuple(
        pod
        for pod in inputs.pods
        if is_live(pod)
        and pod.uid not in seated
        and (pod.admission in inputs.closed or pod.uid in late or _is_left_alone(pod, inputs))
    )


def _is_left_alone(pod: PodFact, inputs: WorkloadInputs) -> bool:
    """Whether a pod that is not bound was let go for a Job or PodGroup that is gone, and belongs to another one now, or
    is a workload of its own.

    Its seat is kept for as long as it is there (``AdmissionIndex.with_left``). Once it is bound it is adopted.
    """
    if pod.admission is None or pod.gated or pod.node is not None:
        return False
    return pod.uid in inputs.origins or (inputs.key.kind == kind_names.POD and pod.group is not None)


def outgrowing_pods(place: SeatMap) -> tuple[PodFact, ...]:
    """Pods of a gang that runs that ask more than their seats, which they did not when they got them.

    Once bound they are adopted with all that they take. Before the start the gang goes back whole instead.
    """
    admission = place.admission
    if not admission.started or admission.state is not AdmissionState.OPEN:
        return ()
    adopted = admission.adopted or {}
    return tuple(pod for pod in place.mismatched if pod.seat is not None or pod.uid in adopted)


def pods_to_recreate(
    inputs: WorkloadInputs, seat_maps: Sequence[SeatMap], others: Sequence[PodFact]
) -> tuple[PodFact, ...]:
    """Pods to remove that no controller recreates. Pods that a user deletes are left out, and those of a workload that
    is not run again."""
    if support_of(inputs.key).holding is not Holding.GATED or inputs.setbacks.is_run_out:
        return ()
    leaving = [
        pod
        for place in seat_maps
        if place.admission.state is AdmissionState.EVICTING
        for pod in (*place.seated.values(), *place.unseated)
    ]
    found = {pod.uid: pod for pod in (*leaving, *others) if not (pod.controller or pod.deleting)}
    return tuple(found.values())
