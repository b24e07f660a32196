"""Pods to remove, and gangs to be rolled back whole, because a pod cannot start. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from admission.engine.snapshot import Rollback
from admission.facts.pods import PodFact
from admission.workloads.inputs import Timeouts, WorkloadInputs
from admission.workloads.kinds import Holding, support_of
from admission.workloads.refusals import last_bound, next_try_after_refusal, refusal_revision
from admission.workloads.request_changes import RequestChanges, change_of
from admission.workloads.seats import SeatMap, is_live
from queues.admissions import AdmissionState
from queues.quota.namespace_quota import first_lack, requests_together
from queues.quota.queue import REPORT
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, NodeName, WorkloadKey


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
    return pod.uid in inputs.origins or (support_of(inputs.key).is_pod and pod.group is not None)


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


def pods_that_count_as_refused(place: SeatMap) -> tuple[PodFact, ...]:
    """Pods whose refusal by nodes counts. While an occupant is being deleted, pods without a seat do not."""
    leaving = any(pod.deleting for pod in place.seated.values())
    return (*place.seated.values(), *(() if leaving else place.unseated))


def is_refused(pod: PodFact, place: SeatMap, inputs: WorkloadInputs, now: int, timeouts: Timeouts) -> bool:
    """Whether the scheduler has had its time, from when there was room for the pod, and its siblings were bound."""
    if pod.refused is None or pod.node is not None:
        return False
    return now - max(pod.refused[0], inputs.pod_left_at, last_bound(place)) >= timeouts.refusal_grace


def rollbacks_of(
    inputs: WorkloadInputs,
    places: Sequence[SeatMap],
    changes: RequestChanges,
    now: int,
    timeouts: Timeouts,
) -> dict[AdmissionId, Rollback]:
    """Gangs that cannot fully start, or not as they were admitted, go back whole."""
    not_before = timeouts.next_try(inputs.setbacks.rollbacks, now)
    fact = inputs.fact
    found: dict[AdmissionId, Rollback] = {}
    for place in places:
        admission = place.admission
        directed = fact is not None and fact.directed == admission.id
        outgrown = changes.outgrown.get(admission.id)
        if outgrown and fact is not None and (fact.suspended or not admission.started):
            message = change_of(fact, place, outgrown)
            found[admission.id] = Rollback(ReasonCode.REQUEST_CHANGED, message, now)
            continue
        if admission.started and not directed:
            continue
        if (mismatch := changes.mismatches.get(admission.id)) is not None:
            found[admission.id] = Rollback(ReasonCode.SEAT_MISMATCH, str(mismatch), not_before)
            continue
        lost = inputs.dead_nodes & {admission.seats[index].node for index in place.vacant()}
        refusals = [
            pod for pod in pods_that_count_as_refused(place) if is_refused(pod, place, inputs, now, timeouts)
        ]
        if refusals and refusals[0].refused:
            message = f"the scheduler refuses pod {refusals[0].name}: {refusals[0].refused[1]}"
            again_at = next_try_after_refusal(inputs, now, timeouts)
            found[admission.id] = Rollback(ReasonCode.REFUSED, message, again_at, refusal_revision(inputs))
        elif lost:
            found[admission.id] = _lost(min(lost), min(lost) in inputs.taken_nodes, now)
        elif taken := _name_taken(inputs, place):
            # The gang itself is tried again as soon as the name is free (``admission.world.learned.taken_names``).
            pause = now if place is places[0] else not_before
            found[admission.id] = Rollback(ReasonCode.NAME_TAKEN, taken, pause)
        elif (lacks := quota_lacks(inputs, place)) and now - _last_made(place) >= timeouts.refusal_grace:
            message = f"not all of its pods can be made. {lacks}"
            found[admission.id] = Rollback(ReasonCode.NAMESPACE_QUOTA, message, not_before)
    return with_joined(places, found)


def faulty_gangs(
    inputs: WorkloadInputs, places: Sequence[SeatMap], now: int, timeouts: Timeouts
) -> dict[AdmissionId, Rollback]:
    """Gangs with a pod on an unhealthy device, where the queue's policy evicts them; and those on a node that is being
    recovered, whatever the queue says. The gang gets another place at once, and comes first in its queue; one that is
    hit again before it was ready pauses."""
    if not (inputs.recovery or inputs.device_faults):
        return {}
    rollbacks = inputs.setbacks.rollbacks
    not_before = timeouts.next_try(rollbacks - 1, now) if rollbacks else now
    found: dict[AdmissionId, Rollback] = {}
    for place in places:
        leaves = sorted({seat.node for seat in place.admission.holding()} & inputs.recovery.keys())
        hit = pods_on_faulty_devices(inputs, place)
        if leaves:
            told = inputs.recovery[leaves[0]]
        elif hit and inputs.policy.on_fault != REPORT:
            told = inputs.device_faults[hit[0].uid].told(f"of node {hit[0].node}, under pod {hit[0].name}")
        else:
            continue
        found[place.admission.id] = Rollback(ReasonCode.GPU_UNHEALTHY, told, not_before)
    return with_joined(places, found)


def pods_on_faulty_devices(inputs: WorkloadInputs, place: SeatMap) -> list[PodFact]:
    """Pods with an unhealthy device for which a gang may be evicted, in the order of their seats."""
    return [pod for _, pod in sorted(place.seated.items()) if pod.uid in inputs.device_faults]


def with_joined(
    places: Sequence[SeatMap], found: Mapping[AdmissionId, Rollback]
) -> dict[AdmissionId, Rollback]:
    """What goes back of a workload's open ``places``, the gang first: with a gang all that joined it, which is too few
    to run alone; without it what joined, alone."""
    gang = found.get(places[0].admission.id) if places else None
    joined = {} if gang is None else {place.admission.id: gang for place in places}
    return joined | dict(found)


def quota_lacks(inputs: WorkloadInputs, place: SeatMap) -> str:
    """Why a ResourceQuota keeps the pods from being made that a gang needs to start; "": it does not."""
    fact, admission = inputs.fact, place.admission
    if fact is None or not inputs.quotas or not waits_for_pods(inputs.key, place):
        return ""
    done = sum(len(pods.done) for pods in fact.pod_sets)
    vacant = place.vacant()
    needed = min(len(vacant), fact.minimum - done - len(place.seated))
    if needed <= 0:
        return ""
    asked = requests_together(Counter(admission.seats[index].takes for index in vacant), needed)
    return first_lack(inputs.quotas, asked)


def _name_taken(inputs: WorkloadInputs, place: SeatMap) -> str:
    """Why a Volcano Job's gang cannot have the names of the pods that it needs to start; "": it can."""
    fact, refusal, admission = inputs.fact, inputs.refusal, place.admission
    if fact is None or refusal is None or refusal.code is not ReasonCode.NAME_TAKEN:
        return ""
    if refusal.facts.get("admission") != admission.id:
        return ""  # it is about an earlier one
    awaited = inputs.awaited.get(admission.id, frozenset())
    coming = len(awaited.intersection(place.vacant()))
    done = sum(len(pods.done) for pods in fact.pod_sets)
    return refusal.message if len(place.seated) + coming + done < fact.minimum else ""


def waits_for_pods(key: WorkloadKey, place: SeatMap) -> bool:
    """Whether the controller of a workload has pods to make before an admission of it starts.

    A gang that has started may still get pods for vacant seats, or has no more to make: its pods have ended.
    """
    admission = place.admission
    if support_of(key).holding is Holding.GATED or admission.started:
        return False
    return admission.state is AdmissionState.OPEN and bool(place.vacant())


def _last_made(place: SeatMap) -> int:
    """When (seconds) the last pod of an admission was made; without any, when it was admitted."""
    pods = (*place.seated.values(), *place.unseated)
    return max((place.admission.opened_at, *(pod.created for pod in pods)))


def _lost(node: NodeName, taken: bool, now: int) -> Rollback:
    if taken:
        return Rollback(
            ReasonCode.SEAT_TAKEN, f"pods of others have taken the room of a seat on node {node}", now
        )
    return Rollback(ReasonCode.NODE_LOST, f"node {node} of a seat cannot take pods any more", now)
