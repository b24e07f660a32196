"""Pods that run in a queue without a seat: the next plan adopts them, or they are strangers to it. Pure.

Adopted are pods that a ledger released (their label and annotations are guarded by the admission policies), as when
this ledger was lost or restored from a backup; and all pods of a namespace in migration mode
(``muster.dev/adopt``), until its end. Other pods count on their node, as pods without a queue do, and a condition says
so. Their queue is never charged: any user may write a queue's name on a pod that runs.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from admission.engine.snapshot import Unbooked, UnbookedPod
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.workloads.inputs import DEFAULT_QUEUE, WorkloadInputs
from admission.workloads.kinds import KindSupport, support_of
from admission.workloads.pod_sets import FreeOrdinals
from admission.workloads.rollback import outgrowing_pods
from admission.workloads.seats import SeatMap, is_live, taken_places
from queues.admissions import AdmissionState
from queues.api.names import ADOPT, ADOPT_UNTIL
from queues.reason_codes import ReasonCode
from queues.text_format import rfc3339
from queues.workload import UNUSABLE_QUEUE, Obstacle

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
