"""Lifecycle policies of a Volcano Job: what is observed of its pods, and the action that its owner wants then.

Volcano's rules (its ``job_controller_handler.go`` and ``applyPolicies``): the policies of a task go before those of the
Job, the first that matches decides, and an event that none matches changes nothing. Where Volcano looks at events as
they come, this looks at what is: an action that changes the version or the phase of the Job is asked for once, however
often its cause is seen, also by another leader. What completes a Job goes before what restarts it.

Not taken over: pods that go because Muster evicts the whole Job count as no ``PodEvicted``, so being preempted uses up
no retries.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from admission.facts import PodFact, PodPhase
from admission.volcano_jobs.job import JobSpec, LifecyclePolicy, TaskSpec
from admission.volcano_jobs.lifecycle import ACTIONS
from admission.volcano_jobs.state import Action, JobState
from admission.volcano_jobs.view import JobView
from queues.admissions import AdmissionState


class JobEvent(StrEnum):
    """What policies name, in Volcano's words."""

    ANY = "*"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Something that a policy may ask for an action on."""

    event: JobEvent
    task: TaskSpec
    #: For people: what was seen.
    message: str
    #: Of a pod that failed; None: not known.
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAsked:
    """What the owner of a Job wants now, and why."""

    action: Action
    message: str


def action_asked(state: JobState, view: JobView) -> ActionAsked | None:
    """The first action that a policy asks for and that has an effect in the Job's phase; None: there is none."""
    if view.deleting or not has_policies(view.spec):
        return None
    for seen in observations(state, view):
        policy = _policy_for(seen, view.spec)
        action = None if policy is None else _ACTIONS.get(policy.action)
        if action is not None and (state.phase, action) in ACTIONS:
            return ActionAsked(action=action, message=f"{seen.event}: {seen.message}")
    return None


def has_policies(spec: JobSpec) -> bool:
    """Whether any policy could ask for anything."""
    return bool(spec.policies or any(task.policies for task in spec.tasks))


def observations(state: JobState, view: JobView) -> Iterator[Observation]:
    """What is seen of the pods of the Job's present version: tasks that are done, pods that failed, tasks that failed,
    pods that others delete."""
    pods = [pod for pod in view.pods if pod.version == state.version and pod.index is not None]
    yield from _tasks_completed(state, view)
    for task in view.spec.tasks:
        of_task = [pod for pod in pods if pod.task == task.name]
        yield from _pods_failed(task, of_task, view)
        restarts = sum(pod.restarts for pod in of_task if pod.phase in _ALIVE)
        if 0 <= task.max_retry <= restarts:
            message = f"containers of task {task.name} were restarted {restarts} times"
            yield Observation(event=JobEvent.TASK_FAILED, task=task, message=message)
        yield from _pods_evicted(task, of_task, view)


def _tasks_completed(state: JobState, view: JobView) -> Iterator[Observation]:
    counts = view.counts(state)
    for task in view.spec.tasks:
        if 0 < task.replicas <= counts.succeeded_of(task.name):
            message = f"all {task.replicas} pods of task {task.name} succeeded"
            yield Observation(event=JobEvent.TASK_COMPLETED, task=task, message=message)


def _pods_failed(task: TaskSpec, pods: list[PodFact], view: JobView) -> Iterator[Observation]:
    seen = {pod.index for pod in pods}
    for pod in pods:
        if pod.phase is PodPhase.FAILED and pod.ended_first:
            how = "failed" if pod.exit_code is None else f"failed with exit code {pod.exit_code}"
            yield Observation(
                event=JobEvent.POD_FAILED, task=task, message=f"pod {pod.name} {how}", exit_code=pod.exit_code
            )
    for (name, index), outcome in sorted(view.outcomes.items()):
        if name == task.name and outcome is PodPhase.FAILED and index not in seen:
            message = f"pod {view.spec.pod_name(name, index)} failed"
            yield Observation(event=JobEvent.POD_FAILED, task=task, message=message)


def _pods_evicted(task: TaskSpec, pods: list[PodFact], view: JobView) -> Iterator[Observation]:
    """Pods that were deleted while they were wanted."""
    if not any(admission.state is AdmissionState.OPEN for admission in view.admissions):
        return
    for pod in pods:
        wanted = pod.index is not None and pod.index < task.replicas
        if pod.deleting and not pod.ended_first and wanted:
            yield Observation(event=JobEvent.POD_EVICTED, task=task, message=f"pod {pod.name} was deleted")


def _policy_for(seen: Observation, spec: JobSpec) -> LifecyclePolicy | None:
    """The first policy for what was seen, those of the task first."""
    for policy in (*seen.task.policies, *spec.policies):
        if policy.exit_code is not None:
            if seen.exit_code == policy.exit_code:
                return policy
        elif seen.event in policy.events or JobEvent.ANY in policy.events:
            return policy
    return None


_ALIVE: Final = (PodPhase.PENDING, PodPhase.RUNNING)
#: Actions on a whole Job; others have no effect yet.
_ACTIONS: Final = {action.value: action for action in Action}
