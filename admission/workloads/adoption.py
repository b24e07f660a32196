"""Pods that run in a queue without an admission: the next plan adopts them. Pure."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from admission.engine.snapshot import Unbooked, UnbookedPod
from admission.facts import PodFact, WorkloadFact
from admission.workloads.inputs import DEFAULT_QUEUE, WorkloadInputs
from admission.workloads.kinds import KindSupport, support_of
from admission.workloads.pod_sets import FreeOrdinals
from admission.workloads.seats import SeatMap, is_live, taken_places
from queues.admissions import AdmissionState
from queues.workload import UNUSABLE_QUEUE


def unbooked_of(inputs: WorkloadInputs, seat_maps: Sequence[SeatMap]) -> Unbooked | None:
    """Pods that run in a queue without a seat: without an admission, or more than their Job was directed for.

    Pods in a queue that cannot exist are in nobody's books: they count on their nodes as pods of others do.
    """
    ids = {admission.id for admission in inputs.admissions}
    seated = {pod.uid for place in seat_maps for pod in place.seated.values()}
    surplus = {
        pod.uid
        for place in seat_maps
        if place.admission.state is AdmissionState.OPEN
        for pod in place.unseated
        if pod.seat is None
    }
    found = [
        pod
        for pod in inputs.pods
        if is_live(pod)
        and pod.node is not None
        and pod.admission not in inputs.closed
        and pod.uid not in seated
        and (pod.admission not in ids or pod.uid in surplus)
    ]
    if not found:
        return None
    fact, first = inputs.fact, found[0]
    queue = (fact.queue if fact is not None else first.queue) or DEFAULT_QUEUE
    if queue == UNUSABLE_QUEUE:
        return None
    support = support_of(inputs.key)
    if support.is_by_ordinal(fact):
        taken = taken_places(seat_maps)
    else:
        taken = {(seat.pod_set, seat.ordinal) for each in inputs.admissions for seat in each.holding()}
    return Unbooked(
        workload=inputs.key,
        namespace=first.namespace,
        name=fact.name if fact is not None else first.name,
        queue=queue,
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
