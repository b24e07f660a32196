"""Pods that run in a queue without an admission: the next plan adopts them. Pure."""

from collections.abc import Sequence

from admission.engine.snapshot import Unbooked, UnbookedPod
from admission.workloads.inputs import DEFAULT_QUEUE, WorkloadInputs
from admission.workloads.kinds import support_of
from admission.workloads.rollback import outgrowing_pods
from admission.workloads.seats import SeatMap, is_live, taken_places
from queues.admissions import AdmissionState


def unbooked_of(inputs: WorkloadInputs, seat_maps: Sequence[SeatMap]) -> Unbooked | None:
    """Pods that run in a queue without a seat of their size.

    Pods without an admission, pods beyond those for which their Job was directed, and pods that outgrew their seats.
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
    if not found:
        return None
    fact, first = inputs.fact, found[0]
    support = support_of(inputs.key)
    if support.is_by_ordinal(fact):
        taken = taken_places(seat_maps)
    else:
        taken = {(seat.pod_set, seat.ordinal) for each in inputs.admissions for seat in each.holding()}
    pods: list[UnbookedPod] = []
    for pod in found:
        name = support.pod_set_name(pod, fact)
        ordinal = pod.index if pod.index is not None and (name, pod.index) not in taken else 0
        while (name, ordinal) in taken:
            ordinal += 1
        taken.add((name, ordinal))
        if pod.node is not None:
            pods.append(UnbookedPod(pod.uid, name, ordinal, pod.node, pod.shape.takes))
    return Unbooked(
        workload=inputs.key,
        namespace=first.namespace,
        name=fact.name if fact is not None else first.name,
        queue=(fact.queue if fact is not None else first.queue) or DEFAULT_QUEUE,
        priority=fact.priority if fact is not None else first.priority,
        pods=tuple(pods),
    )
