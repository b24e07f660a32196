"""Tasks of a Volcano Job that start after others (``dependsOn``).

Volcano's rule (its ``waitDependsOnTaskMeetCondition``): a task is started when as many pods of another one as that
task needs run and are ready, or have succeeded; with ``iteration: any`` one of several tasks is enough. The gang is
admitted whole before: seats of tasks that wait are held, so that what starts first never waits for room for the rest.
"""

from collections.abc import Iterator
from typing import NamedTuple

from admission.facts.pods import PodPhase
from admission.facts.volcano_jobs import TaskSpec
from admission.volcano_jobs.state import JobState
from admission.volcano_jobs.view import Counts, JobView, is_stale


class WaitingTask(NamedTuple):
    """A task that is not to be started yet."""

    task: str
    #: Tasks it waits for.
    after: tuple[str, ...]

    def told(self) -> str:
        """For people. Without numbers: they would be written again and again."""
        return f"task {self.task} starts once pods of {' and '.join(self.after)} are ready"


def waiting_tasks(state: JobState, view: JobView) -> tuple[WaitingTask, ...]:
    """Tasks that are not to be started yet."""
    if not any(task.depends_on for task in view.spec.tasks):
        return ()
    ready = _ready_by_task(state, view)
    met = {task.name for task in view.spec.tasks if ready[task.name] >= task.minimum}
    return tuple(_waiting(view, met))


def not_started(state: JobState, view: JobView) -> tuple[WaitingTask, ...]:
    """Those among them that have no pod yet: what has started once is not said to wait."""
    started = {pod.task for pod in view.pods} | {task for task, _ in view.outcomes}
    return tuple(each for each in waiting_tasks(state, view) if each.task not in started)


def can_never_start(state: JobState, view: JobView, counts: Counts) -> WaitingTask | None:
    """A task that waits for others with too many failed pods; None if there is none."""
    lost = {
        task.name
        for task in view.spec.tasks
        if task.replicas - counts.tasks.get(task.name, {}).get(PodPhase.FAILED.value, 0) < task.minimum
    }
    if not lost:
        return None
    stuck = _waiting(view, {task.name for task in view.spec.tasks} - lost)
    waiting = {each.task for each in waiting_tasks(state, view)}
    return next((each for each in stuck if each.task in waiting), None)


def _waiting(view: JobView, met: set[str]) -> Iterator[WaitingTask]:
    for task in view.spec.tasks:
        unmet = tuple(name for name in task.depends_on if name not in met and view.spec.task(name))
        enough = len(unmet) < len(task.depends_on) if task.depends_on_any else not unmet
        if task.depends_on and not enough:
            yield WaitingTask(task.name, unmet)


def _ready_by_task(state: JobState, view: JobView) -> dict[str, int]:
    """Pods of each task that run and are ready, or have succeeded."""
    succeeded = {seat for seat, outcome in view.outcomes.items() if outcome is PodPhase.SUCCEEDED}
    for pod in view.pods:
        if pod.index is None or pod.deleting or is_stale(pod, state):
            continue
        is_ready = pod.phase is PodPhase.RUNNING and pod.ready_since is not None
        if is_ready or pod.phase is PodPhase.SUCCEEDED:
            succeeded.add((pod.task, pod.index))
    tasks: dict[str, TaskSpec] = {task.name: task for task in view.spec.tasks}
    counted = [name for name, index in succeeded if name in tasks and index < tasks[name].replicas]
    return {name: counted.count(name) for name in tasks}
