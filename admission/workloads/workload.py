"""What a workload asks for: pod sets, gang size, and what is known about interrupting it; and how it ended. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from admission.engine.reasons import not_enough_pods
from admission.engine.snapshot import Rollback
from admission.facts.pods import Conduct, Hold, PodFact, PodPhase
from admission.facts.workloads import WorkloadFact
from admission.workloads.admission_checks import awaits_checks
from admission.workloads.gang_readiness import held_back
from admission.workloads.inputs import DEFAULT_QUEUE, WorkloadInputs
from admission.workloads.job_counts import length
from admission.workloads.kinds import Holding, is_told_by_pods, support_of
from admission.workloads.pod_shapes import task_of
from admission.workloads.rollback import held_back_by_refusals, obstacle_of_run_out
from admission.workloads.seats import SeatMap, awaits_seat, is_live
from queues import kind_names
from queues.admissions import COMING_FIRST, AdmissionState
from queues.api.names import AUTOMATIC_GROUP, HOLD
from queues.api.reading.user_values import MOST_POD_SETS
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.text_format import counted, listed
from queues.workload import (
    UNUSABLE_QUEUE,
    AdmissionId,
    Obstacle,
    PodSet,
    QueueName,
    QuotaHold,
    Result,
    Workload,
    WorkloadKey,
)

#: The phase of a Volcano Job that may be resumed.
_ABORTED: Final = "Aborted"
_ENDED: Final = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def wanted(pod_sets: Sequence[PodSet]) -> int:
    """For how many pods seats are wanted."""
    return sum(pods.count - len(pods.done) for pods in pod_sets)


def workload_of(
    inputs: WorkloadInputs,
    pod_sets: tuple[PodSet, ...],
    seat_maps: Sequence[SeatMap],
    delay: Reason | None = None,
) -> Workload:
    """The workload with all it wants, and what is known about interrupting it.

    ``delay``: what keeps its pods from ending; None if nothing is known to.
    """
    fact = inputs.fact
    arrival = inputs.arrival or 0
    if fact is None:
        return _workload_of_pod(inputs, pod_sets, arrival)
    too_many = too_many_pod_sets(pod_sets)
    if too_many is not None and not seat_maps:
        pod_sets = ()  # nothing considers them: even to compare them would take seconds
    obstacle = obstacle_of_run_out(inputs) or fact.obstacle
    obstacle = obstacle or too_many or _evicting(inputs, seat_maps, delay)
    obstacle = obstacle or on_hold(inputs) or held_back(inputs) or held_back_by_refusals(inputs)
    if obstacle is None and not inputs.admissions:
        # What runs has its pods already.
        obstacle = _runs_already(fact) or inputs.templates.refusal or _lacks_room_or_name(inputs, fact)
    if support_of(inputs.key).is_group and not inputs.admissions and obstacle is None:
        obstacle = _about_to_move(inputs, fact) or _too_few_pods(inputs, fact, pod_sets)
    if obstacle is None and not inputs.admissions:
        # A check is not asked before what is to come first has ended.
        obstacle = inputs.dependency or (awaits_checks(inputs.checks) if inputs.checks else None)
    return Workload(
        key=inputs.key,
        namespace=fact.namespace,
        name=fact.name,
        queue=fact.queue or DEFAULT_QUEUE,
        priority=max([fact.priority, *(pod.priority for pod in _members(inputs))]),
        preempts=_preempts(inputs, fact),
        arrival=arrival,
        created=fact.created,
        minimum=_minimum(inputs, fact),
        pod_sets=pod_sets,
        whole_by_default=fact.whole_by_default,
        generation=fact.generation,
        obstacle=obstacle,
        hold=_hold(fact),
        not_before=_not_before(inputs),
        **_interruption(inputs, fact.conduct),
    )


def _not_before(inputs: WorkloadInputs) -> int:
    """No attempt before this second. A workload that is never tried again has an obstacle instead."""
    return 0 if inputs.setbacks.is_run_out else inputs.setbacks.not_before


def _hold(fact: WorkloadFact) -> QuotaHold | None:
    asked = fact.group
    if not asked.hold_seconds or not asked.min_resources:
        return None
    return QuotaHold(asked.min_resources, asked.hold_seconds)


def _runs_already(fact: WorkloadFact) -> Obstacle | None:
    """The obstacle of an object of several pod sets that was resumed by another: before it was in a queue."""
    if fact.suspended or fact.revision is None or fact.revision.resumed:
        return None
    message = (
        "it runs without an admission; its pods count on their nodes and are not charged to the queue. To have it "
        "wait, suspend it, or delete it and create it again"
    )
    return Obstacle(ReasonCode.NOT_GATED, message)


def _lacks_room_or_name(inputs: WorkloadInputs, fact: WorkloadFact) -> Obstacle | None:
    """What a ResourceQuota has no room for, or which name is taken.

    None if that may be over, because the workload asks for something else now.
    """
    held_back = inputs.held_back
    return held_back.obstacle if held_back is not None and held_back.generation == fact.generation else None


def notes_on(inputs: WorkloadInputs) -> Iterator[str]:
    """What is to be known of a workload while it runs: that it is on hold, and how many members of it are done."""
    named = inputs.fact or next(iter(inputs.pods), None)
    if named is None or not inputs.admissions:
        return
    if named.conduct.hold is Hold.ADMISSION:
        it = f"{inputs.key.kind}/{named.name} -n {named.namespace}"
        yield (
            "It is on hold: what runs goes on, and is not admitted again once it has lost its seats. "
            f"`kubectl muster unhold {it}` ends that"
        )
    counts = None if inputs.fact is None else inputs.fact.counts
    if counts is not None and counts.completions and (counts.succeeded or counts.over):
        failed = length(counts.over or ()) - counts.succeeded
        more = f", {failed} failed for good" if failed > 0 else ""
        yield f"{counts.succeeded} of {counts.completions} members have succeeded{more}"


def on_hold(inputs: WorkloadInputs) -> Obstacle | None:
    """The obstacle of a workload that its owner holds back, or has suspended; None if it may be admitted, or go on."""
    named = inputs.fact or next(iter(inputs.pods), None)
    hold = Hold.NONE if named is None else named.conduct.hold
    if named is None or hold is Hold.NONE or (hold is Hold.ADMISSION and _goes_on(inputs)):
        return None
    is_suspended = hold is Hold.SUSPENDED and inputs.key.kind not in (kind_names.POD, kind_names.POD_GROUP)
    does, verb = ("has suspended it", "resume") if is_suspended else ("holds it back", "unhold")
    message = (
        f"its owner {does} (annotation {HOLD}); `kubectl muster {verb} {inputs.key.kind}/{named.name} "
        f"-n {named.namespace}` has it wait for its place"
    )
    return Obstacle(ReasonCode.ON_HOLD, message)


def _goes_on(inputs: WorkloadInputs) -> bool:
    """Whether a workload that is held back keeps the seats that it has: not if it is still suspended."""
    is_suspended = inputs.fact is not None and inputs.fact.suspended
    return not is_suspended and any(each.state is AdmissionState.OPEN for each in inputs.admissions)


def held_by_owner(inputs: WorkloadInputs, places: Iterable[SeatMap]) -> dict[AdmissionId, Rollback]:
    """Open admissions that end because the owner has suspended the object, or holds it back before it is resumed.

    That is no failure, and no eviction that counts.
    """
    obstacle = on_hold(inputs)
    if obstacle is None:
        return {}
    return {place.admission.id: Rollback(obstacle.code, obstacle.message, 0) for place in places}


def _evicting(inputs: WorkloadInputs, seat_maps: Sequence[SeatMap], delay: Reason | None) -> Obstacle | None:
    """What an eviction waits for: pods that end, or pods that may still come."""
    evicting = [place for place in seat_maps if place.admission.state is AdmissionState.EVICTING]
    if not evicting:
        return None
    if (refused := _eviction_refused(inputs)) is not None:
        return refused
    message = "its pods of an earlier admission are still ending"
    message += f": {delay.message}" if delay is not None else ""
    if any(place.admission.id in inputs.awaited for place in evicting):
        pods = any(place.seated or place.unseated for place in evicting)
        beside = f"{message}, and " if pods else ""
        message = (
            f"{beside}pods of its earlier admission may still come: they were released before it was evicted"
        )
    return Obstacle(ReasonCode.EVICTING, message)


def _eviction_refused(inputs: WorkloadInputs) -> Obstacle | None:
    """What an eviction waits for that a PodDisruptionBudget does not allow."""
    refused = inputs.refusal
    if refused is None or refused.code is not ReasonCode.EVICTION_REFUSED:
        return None
    if all(each.state is not AdmissionState.EVICTING for each in inputs.admissions):
        return None
    return Obstacle(refused.code, refused.message)


def too_many_pod_sets(pod_sets: Sequence[PodSet]) -> Obstacle | None:
    """The obstacle of a workload with pods of more different shapes than can be considered together."""
    if len(pod_sets) <= MOST_POD_SETS:
        return None
    message = (
        f"found pods of {len(pod_sets)} different tasks, requests or places, expected at most {MOST_POD_SETS}"
    )
    return Obstacle(ReasonCode.INVALID_SPEC, message)


def _preempts(inputs: WorkloadInputs, fact: WorkloadFact) -> bool:
    """Whether other work may be evicted for it. In a group that names no priority class its members alone decide."""
    members = _members(inputs)
    says_nothing = bool(members) and not fact.priority_class
    return (fact.preempts or says_nothing) and all(pod.preempts for pod in members)


def _interruption(inputs: WorkloadInputs, conduct: Conduct) -> dict[str, Any]:
    """Run time and eviction rules of a workload. Pods that no controller recreates are preemptable only on request."""
    said = [conduct.preemptable, *(pod.conduct.preemptable for pod in _members(inputs))]
    alone = support_of(inputs.key).holding is Holding.GATED and any(not pod.controller for pod in inputs.pods)
    times = ("run_time", "checkpoint_interval", "min_run_time", "cooldown")
    return {
        "user": conduct.user,
        "hints": conduct.hints,
        "image": conduct.image or next((pod.conduct.image for pod in inputs.pods if pod.conduct.image), ""),
        **{name: getattr(conduct, name) for name in times},
        "preemptable": False not in said and (True in said or not alone),
        "evictions": inputs.setbacks.evictions,
        "waiting_since": inputs.setbacks.waiting_since,
        "comes_first": inputs.last_eviction in COMING_FIRST,
    }


def _members(inputs: WorkloadInputs) -> Sequence[PodFact]:
    """Pods of a group: they alone say what it takes."""
    return inputs.pods if support_of(inputs.key).is_group else ()


def _minimum(inputs: WorkloadInputs, fact: WorkloadFact) -> int:
    """The gang size. As in Volcano, members of a group that succeeded are part of the gang still."""
    return max(0, fact.minimum - sum(pod.phase is PodPhase.SUCCEEDED for pod in _members(inputs)))


def _too_few_pods(inputs: WorkloadInputs, fact: WorkloadFact, pod_sets: Sequence[PodSet]) -> Obstacle | None:
    exist, needed = wanted(pod_sets), _minimum(inputs, fact)
    is_done = any(not is_live(pod) for pod in inputs.pods)
    if not exist and (is_done or is_idle(inputs)):
        return None
    if exist < needed or not exist:
        waiting = [pod for pod in inputs.pods if awaits_seat(pod)]
        held = _with_other_gates(waiting)
        if held and exist + len(held) >= needed:
            return _held_by_gates(held)
        beside = f"; {len(held)} more wait for scheduling gates of others" if held else ""
        unusable = [pod for pod in waiting if pod.obstacle is not None]
        if unusable and unusable[0].obstacle is not None:
            first = f"{unusable[0].name}: {unusable[0].obstacle.message}"
            beside += f"; {len(unusable)} more cannot be used, first {first}"
        if inputs.recreations:
            beside += f"; {len(inputs.recreations)} were taken back and are being made again"
        reason = not_enough_pods(exist=exist, minimum=max(needed, 1))
        return Obstacle(reason.code, reason.message + beside)
    for task, least in sorted(fact.group.task_minimums.items()):
        of_task = sum(len(pods.wanted()) for pods in pod_sets if task_of(pods.name) == task)
        if of_task < least:
            waiting = [pod for pod in inputs.pods if awaits_seat(pod) and pod.task == task]
            held = _with_other_gates(waiting)
            if held and of_task + len(held) >= least:
                return _held_by_gates(held)
            reason = not_enough_pods(exist=of_task, minimum=least, task=task)
            return Obstacle(reason.code, reason.message)
    return None


def telling_pod(fact: WorkloadFact, pods: Sequence[PodFact]) -> PodFact | None:
    """The pod that says how large a group of Muster's is and what queue it is in.

    It is the newest one: pods of an older revision of their owner say what that said before. None if none says so, or
    if others made the group.
    """
    if not _is_of_muster(fact):
        return None
    telling = (pod for pod in pods if pod.group_minimum and is_live(pod) and not pod.deleting)
    return max(telling, key=lambda pod: (pod.created, pod.gated, pod.name), default=None)


def queue_to_move_to(fact: WorkloadFact, pod: PodFact | None) -> QueueName | None:
    """The queue of a group's telling pod, if the group is in another one; else None."""
    return None if pod is None or pod.queue in (None, UNUSABLE_QUEUE, fact.queue) else pod.queue


def _about_to_move(inputs: WorkloadInputs, fact: WorkloadFact) -> Obstacle | None:
    """A group of Muster's gets no seats in the queue that it leaves: it could not leave that while it has them."""
    queue = queue_to_move_to(fact, telling_pod(fact, inputs.pods))
    if queue is None:
        return None
    message = (
        f"PodGroup {fact.name} names queue {fact.queue}, and its newest pod queue {queue}; Muster moves it"
    )
    return Obstacle(ReasonCode.POD_GROUP_MISSING, message)


def result_of(inputs: WorkloadInputs) -> Result:
    """How a workload that is over ended, by its own status or its pods. UNKNOWN: it was stopped, and may go on."""
    end = end_of(inputs.key, inputs.fact, inputs.pods, inputs.job_result)
    return Result.DELETED if end is None else end


def end_of(
    key: WorkloadKey, fact: WorkloadFact | None, pods: Sequence[PodFact], job_result: Result | None
) -> Result | None:
    """How a workload ended by itself; UNKNOWN if it was stopped, and may go on. None if it has not ended.

    The pods decide for bare pods and groups only: a Job without some of its pods would be one that succeeded.
    """
    if job_result is not None:
        return job_result
    if fact is not None and fact.phase == _ABORTED:
        return Result.UNKNOWN
    if fact is not None and fact.finished:
        return Result.FAILED if fact.failed else Result.SUCCEEDED
    of_pods = _result_of_pods(pods) if is_told_by_pods(key) else Result.UNKNOWN
    return None if of_pods is Result.UNKNOWN else of_pods


def result_so_far(inputs: WorkloadInputs) -> Result:
    """How a group ended that is there and could go on with further pods. UNKNOWN: it holds seats, or has live pods."""
    is_done = support_of(inputs.key).is_group and not (inputs.admissions or inputs.recreations)
    return _result_of_pods(inputs.pods) if is_done else Result.UNKNOWN


def _result_of_pods(pods: Sequence[PodFact]) -> Result:
    """UNKNOWN: there are none, or not all have ended by themselves, before they were deleted."""
    if not pods or not all(pod.phase in _ENDED and pod.ended_first for pod in pods):
        return Result.UNKNOWN
    return Result.FAILED if any(pod.phase is PodPhase.FAILED for pod in pods) else Result.SUCCEEDED


def is_idle(inputs: WorkloadInputs) -> bool:
    """Whether a workload is a group that Muster made for an owner which has no pods now: it waits for nothing."""
    fact = inputs.fact
    return fact is not None and _is_of_muster(fact) and not (inputs.pods or inputs.recreations)


def _is_of_muster(fact: WorkloadFact) -> bool:
    """Whether Muster made a group. One with a user is that user's: any user who may create a pod may name it there,
    without a right to change it."""
    return support_of(fact.key).is_group and fact.name.startswith(AUTOMATIC_GROUP) and not fact.conduct.user


def _with_other_gates(waiting: Iterable[PodFact]) -> list[PodFact]:
    """Pods that would count if other controllers did not hold them back."""
    return [pod for pod in waiting if pod.other_gates and pod.obstacle is None]


def _held_by_gates(pods: Sequence[PodFact]) -> Obstacle:
    """What pods wait for before they get seats: a gang holds none while other controllers hold its pods back."""
    gates = listed(sorted({gate for pod in pods for gate in pod.other_gates}))
    message = f"{counted(len(pods), 'pod')} with scheduling gates of others: {gates}; considered when they are removed"
    return Obstacle(ReasonCode.OTHER_GATES, message)


def _workload_of_pod(inputs: WorkloadInputs, pod_sets: tuple[PodSet, ...], arrival: int) -> Workload:
    """A bare pod, there or to be made again; or the remains of an object that is gone, known from its admissions."""
    pod = inputs.pods[0] if inputs.pods and inputs.key.kind == kind_names.POD else None
    last = inputs.admissions[-1] if inputs.admissions else None
    again = next(iter(inputs.recreations), None)
    obstacle = obstacle_of_run_out(inputs)
    if obstacle is not None:
        pass
    elif again is not None:
        obstacle = Obstacle(ReasonCode.BEING_RECREATED, "the pod was taken back and is being made again")
    elif inputs.disowned:
        obstacle = Obstacle(
            ReasonCode.NOT_ITS_POD, f"metadata.ownerReferences: {inputs.disowned}; create the pod without it"
        )
    elif pod is not None and pod.obstacle is not None:
        obstacle = pod.obstacle
    elif pod is not None and pod.group is not None:
        obstacle = _group_missing(pod, inputs.refusal)
    elif pod is not None and pod.other_gates:
        obstacle = _held_by_gates([pod])
    elif pod is not None and not pod.gated and last is None:
        obstacle = Obstacle(
            ReasonCode.NOT_GATED,
            "the pod was not gated when it was created, so it does not wait in the queue;"
            " it will count on its node. To have it wait, delete it and create it again",
        )
    elif pod is not None:
        obstacle = _eviction_refused(inputs) or on_hold(inputs)
        obstacle = obstacle or held_back(inputs) or held_back_by_refusals(inputs)
        if obstacle is None and last is None:
            obstacle = inputs.dependency or (awaits_checks(inputs.checks) if inputs.checks else None)
    named = pod or last or again
    return Workload(
        key=inputs.key,
        namespace=named.namespace if named else "",
        name=named.name if named else "",
        # The default of its namespace is known only as long as the pod is gated.
        queue=next((each.queue for each in (pod, last, again) if each and each.queue), DEFAULT_QUEUE),
        priority=pod.priority if pod else last.priority if last else 0,
        preempts=pod is None or pod.preempts,
        arrival=arrival,
        created=pod.created if pod else 0,
        minimum=1 if pod else 0,
        pod_sets=pod_sets,
        generation=pod.uid if pod else "",
        obstacle=obstacle,
        not_before=_not_before(inputs),
        **_interruption(inputs, pod.conduct if pod else Conduct()),
    )


def _group_missing(pod: PodFact, refusal: Reason | None) -> Obstacle:
    message = f"PodGroup {pod.group} does not exist in namespace {pod.namespace}"
    if pod.group_minimum:
        message += "; Muster makes it for the pod's owner"
        message += f", but the API server refuses it: {refusal.message}" if refusal is not None else ""
    return Obstacle(ReasonCode.POD_GROUP_MISSING, message)


def only_has_an_obstacle(workload: Workload, held: int) -> bool:
    """A group that waits for its pods, or an object that cannot be used: it has a reason but asks for nothing."""
    return held == 0 and workload.obstacle is not None
