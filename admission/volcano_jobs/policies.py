"""Lifecycle policies of a Volcano Job: what is observed of its pods, and the action that its owner wants then.

Volcano's rules (its ``job_controller_handler.go`` and ``applyPolicies``): the policies of a task go before those of the
Job, the first that matches decides, and an event that none matches changes nothing. Where Volcano looks at events as
they come, this looks at what is: an action that changes the version or the phase of the Job is asked for once, however
often its cause is seen, also by another leader. What completes a Job goes before what restarts it.

Not taken over: pods that go because Muster evicts the whole Job count as no ``PodEvicted``, so being preempted uses up
no retries; and ``*`` does not stand for ``TaskCompleted``, by which a Job that succeeded would be restarted or aborted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from admission.facts.pods import PodFact, PodPhase
from admission.facts.volcano_jobs import JobSpec, PolicySpec, TaskSpec
from admission.volcano_jobs.lifecycle import ACTIONS
from admission.volcano_jobs.state import TARGETED, Action, JobState, Phase
from admission.volcano_jobs.view import JobView, is_stale
from queues.admissions import AdmissionState
from queues.api.types.volcano_job import JobEvent

Outcomes = Mapping[tuple[str, int], PodPhase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Something that a policy may ask for an action on."""

    event: JobEvent
    #: None if it is about the whole Job.
    task: TaskSpec | None
    #: For people: what was seen.
    message: str
    #: Of the pod; None if it is about no pod.
    index: int | None = None
    #: None if it is about no pod, or if the pod is gone.
    pod: PodFact | None = None
    #: Of a pod that failed; None if not known.
    exit_code: int | None = None

    @property
    def name(self) -> str:
        """The same for as long as the same is seen."""
        task = "" if self.task is None else self.task.name
        return f"{self.event.value}/{task}/{'' if self.index is None else self.index}"

    def since(self, state: JobState, now: int) -> int:
        """When it was seen first, in seconds."""
        if self.event is JobEvent.POD_PENDING and self.pod is not None:
            return self.pod.created
        return state.seen_since.get(self.name, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAsked:
    """What the owner of a Job wants now, and why."""

    action: Action
    message: str
    #: That are restarted, where it is not the whole Job.
    pods: tuple[PodFact, ...] = ()

    def outcomes_left(self, outcomes: Outcomes) -> Outcomes:
        """How pods ended, of those that still count after the action."""
        if self.action not in TARGETED:
            return {}
        restarted = {(pod.task, pod.index) for pod in self.pods}
        return {seat: outcome for seat, outcome in outcomes.items() if seat not in restarted}

    def seen_since_left(self, seen_since: Mapping[str, int]) -> dict[str, int]:
        """What policies wait for, without what was about pods that start again."""
        if self.action not in TARGETED:
            return {}
        restarted = {f"{pod.task}/{pod.index}" for pod in self.pods}
        return {name: at for name, at in seen_since.items() if name.partition("/")[2] not in restarted}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFindings:
    """What the policies of a Job say now."""

    #: The first action that is asked for and that has an effect in the Job's phase; None if there is none.
    asked: ActionAsked | None = None
    #: Since when what policies wait for has been seen; the Job's state remembers it.
    seen_since: Mapping[str, int] = field(default_factory=dict)
    #: The number of pods that a policy on JobUpdated has taken note of now; None if there is no such policy.
    replicas: int | None = None
    #: The next second (since the epoch) at which a policy may ask for something that it does not ask for now.
    next_timeout: int | None = None


_NOTHING: Final = PolicyFindings()


def findings(state: JobState, view: JobView, now: int) -> PolicyFindings:
    """What the policies of a Job say about what is seen of it."""
    if not has_policies(view.spec):
        return _NOTHING
    asked: ActionAsked | None = None
    since: dict[str, int] = {}
    ends: list[int] = []
    timed = has_timeouts(view.spec)
    for action, seen, policy in _matches(state, view):
        due = seen.since(state, now) + policy.timeout if policy.timeout else now
        if policy.timeout and seen.event is not JobEvent.POD_PENDING:
            since[seen.name] = seen.since(state, now)
        if due > now:
            ends.append(due)
        elif asked is None:
            asked = _asked(action, seen, state, view)
            if asked is not None and not timed:
                break  # nothing else is to be remembered
    updates = any(JobEvent.JOB_UPDATED in policy.events for policy in view.spec.policies)
    return PolicyFindings(
        asked=asked,
        seen_since=since,
        replicas=view.spec.replicas if updates else None,
        next_timeout=min(ends, default=None),
    )


def _asked(action: Action, seen: Observation, state: JobState, view: JobView) -> ActionAsked | None:
    pods = _targets(action, seen, state, view)
    if not pods and action in TARGETED:
        return None
    return ActionAsked(action=action, message=f"{seen.event}: {seen.message}", pods=pods)


def has_timeouts(spec: JobSpec) -> bool:
    """Whether any policy waits before it asks."""
    policies = (*spec.policies, *(policy for task in spec.tasks for policy in task.policies))
    return any(policy.timeout for policy in policies)


def _matches(state: JobState, view: JobView) -> Iterator[tuple[Action, Observation, PolicySpec]]:
    """What is seen with the policy that decides on it, where its action has an effect in the Job's phase."""
    if view.deleting:
        return
    for seen in observations(state, view):
        policy = _policy_for(seen, view.spec)
        action = None if policy is None else _ACTIONS.get(policy.action)
        if policy is not None and action is not None and (state.phase, action) in ACTIONS:
            yield action, seen, policy


def has_policies(spec: JobSpec) -> bool:
    """Whether any policy could ask for anything."""
    return bool(spec.policies or any(task.policies for task in spec.tasks))


def observations(state: JobState, view: JobView) -> Iterator[Observation]:
    """What is seen of the pods that count: tasks that are done, pods that failed, tasks that failed, pods that others
    delete, pods that wait to run."""
    by_task = _wanted_by_task(state, view)
    yield from _tasks_completed(state, view)
    yield from _job_updated(state, view)
    yield from _gang_broken(state, view)
    for task in view.spec.tasks:
        of_task = by_task[task.name]
        yield from _pods_failed(task, of_task, view)
        restarts = sum(pod.restarts for pod in of_task if pod.phase in _ALIVE)
        if 0 <= task.max_retry <= restarts:
            message = f"containers of task {task.name} were restarted {restarts} times"
            yield Observation(event=JobEvent.TASK_FAILED, task=task, message=message)
        yield from _pods_evicted(task, of_task, state, view)
        for pod in of_task:
            if pod.phase is PodPhase.PENDING and not pod.deleting:
                message = f"pod {pod.name} does not run"
                yield Observation(
                    event=JobEvent.POD_PENDING, task=task, message=message, index=pod.index, pod=pod
                )


def _wanted_by_task(state: JobState, view: JobView) -> dict[str, list[PodFact]]:
    """By task: pods that count, and that the Job still asks for.

    A pod of an admission that is evicted, or was, counts no more: it failed or went because others of it did.
    """
    held = {each.id for each in view.admissions if each.state is AdmissionState.OPEN}
    adopted = {uid for each in view.admissions if each.id in held for uid in each.adopted or ()}
    replicas = {task.name: task.replicas for task in view.spec.tasks}
    found: dict[str, list[PodFact]] = {task.name: [] for task in view.spec.tasks}
    for pod in view.pods:
        if (
            pod.index is not None
            and pod.index < replicas.get(pod.task, 0)
            and (pod.admission in held or pod.uid in adopted)
            and not is_stale(pod, state)
        ):
            found[pod.task].append(pod)
    return found


def _job_updated(state: JobState, view: JobView) -> Iterator[Observation]:
    """The Job was scaled."""
    wanted = view.spec.replicas
    if state.replicas is not None and state.replicas != wanted:
        message = f"it has {wanted} replicas, it had {state.replicas}"
        yield Observation(event=JobEvent.JOB_UPDATED, task=None, message=message)


def _gang_broken(state: JobState, view: JobView) -> Iterator[Observation]:
    """Some pods run, and so many seats were lost with their pods that fewer can than must run together.

    Volcano's phase Unknown of a PodGroup. What the Job was admitted with counts: one that was scaled up waits for more.
    A seat that was given back because a pod was restarted by itself is asked for again.
    """
    if state.phase not in (Phase.PENDING, Phase.RUNNING) or not state.started_at or state.restarted:
        return
    open_ = [each for each in view.admissions if each.state is AdmissionState.OPEN]
    if not any(each.ended or view.ended.get(each.id) for each in open_):
        return
    admitted = sum(len(each.seats) for each in open_)
    held = len(_held_seats(view))
    counts = view.counts(state)
    needed = min(view.spec.minimum, admitted)
    if counts.running and held + counts.ended < needed:
        message = f"{counts.running} pods run, of {needed} that must run together"
        yield Observation(event=JobEvent.UNKNOWN, task=None, message=message)


def _held_seats(view: JobView) -> set[tuple[str, int]]:
    """Seats (task, index) that the Job holds and that it keeps after the next plan."""
    return {
        (seat.pod_set, seat.ordinal)
        for each in view.admissions
        if each.state is AdmissionState.OPEN
        for number, seat in enumerate(each.seats)
        if number not in each.ended and number not in view.ended.get(each.id, ())
    }


def _tasks_completed(state: JobState, view: JobView) -> Iterator[Observation]:
    counts = view.counts(state)
    for task in view.spec.tasks:
        if 0 < task.replicas <= counts.succeeded_of(task.name):
            message = f"all {task.replicas} pods of task {task.name} succeeded"
            yield Observation(event=JobEvent.TASK_COMPLETED, task=task, message=message)


def _pods_failed(task: TaskSpec, pods: list[PodFact], view: JobView) -> Iterator[Observation]:
    there = {pod.index for pod in view.pods if pod.task == task.name}
    for pod in pods:
        if pod.phase is PodPhase.FAILED and pod.ended_first:
            how = "failed" if pod.exit_code is None else f"failed with exit code {pod.exit_code}"
            yield Observation(
                event=JobEvent.POD_FAILED,
                task=task,
                message=f"pod {pod.name} {how}",
                index=pod.index,
                pod=pod,
                exit_code=pod.exit_code,
            )
    gone = (
        index
        for (name, index), outcome in view.outcomes.items()
        if name == task.name and outcome is PodPhase.FAILED and index < task.replicas and index not in there
    )
    for index in sorted(gone):
        message = f"pod {view.spec.pod_name(task.name, index)} failed"
        yield Observation(event=JobEvent.POD_FAILED, task=task, message=message, index=index)


def _pods_evicted(
    task: TaskSpec, pods: list[PodFact], state: JobState, view: JobView
) -> Iterator[Observation]:
    """Pods that were deleted while they were wanted; where a policy waits, until another runs in its place, as long as
    the Job holds the seat."""
    going = {pod.index: pod for pod in pods if pod.deleting and not pod.ended_first}
    there = {pod.index for pod in pods if not pod.deleting and pod.phase is not PodPhase.PENDING}
    held = _held_seats(view) if state.seen_since else set()
    awaited = [
        index
        for name, index in held
        if name == task.name
        and index not in there
        and f"{JobEvent.POD_EVICTED.value}/{task.name}/{index}" in state.seen_since
    ]
    for index in sorted({*(each for each in going if each is not None), *awaited}):
        message = f"pod {view.spec.pod_name(task.name, index)} was deleted"
        yield Observation(
            event=JobEvent.POD_EVICTED, task=task, message=message, index=index, pod=going.get(index)
        )


def _policy_for(seen: Observation, spec: JobSpec) -> PolicySpec | None:
    """The first policy for what was seen, those of the task first."""
    names = {seen.event} if seen.event in _NAMED_ALONE else {seen.event, JobEvent.ANY}
    of_task = () if seen.task is None else seen.task.policies
    for policy in (*of_task, *spec.policies):
        if policy.exit_code is not None:
            if seen.exit_code == policy.exit_code:
                return policy
        elif not policy.events.isdisjoint(names):
            return policy
    return None


def _targets(action: Action, seen: Observation, state: JobState, view: JobView) -> tuple[PodFact, ...]:
    """Pods that a targeted action restarts; none for a pod that has failed and is gone.

    Without partitions, a pod is a partition of its own.
    """
    if action not in TARGETED or seen.task is None or (seen.pod is None and seen.index is not None):
        return ()
    of_task = _wanted_by_task(state, view)[seen.task.name]
    if action is Action.RESTART_TASK:
        return tuple(of_task)
    if seen.pod is None:
        return ()
    if action is Action.RESTART_POD or seen.task.partition_size < 1:
        return (seen.pod,)
    size = seen.task.partition_size
    return tuple(pod for pod in of_task if (pod.index or 0) // size == (seen.pod.index or 0) // size)


#: Events that ``*`` does not stand for: that a pod waits needs a timeout, and a Job that succeeded would be restarted.
#: That a Job was scaled is no trouble.
_NAMED_ALONE: Final = frozenset({JobEvent.POD_PENDING, JobEvent.TASK_COMPLETED, JobEvent.JOB_UPDATED})
_ALIVE: Final = (PodPhase.PENDING, PodPhase.RUNNING)
_ACTIONS: Final = {action.value: action for action in Action}
