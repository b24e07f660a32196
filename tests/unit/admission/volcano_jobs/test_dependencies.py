"""Tasks that start after others."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.pods import PodPhase
from admission.reconcile.volcano_jobs import next_state
from admission.volcano_jobs.dependencies import not_started, waiting_tasks
from admission.volcano_jobs.lifecycle import advance
from admission.volcano_jobs.pod_changes import work_for
from admission.volcano_jobs.pods import PodRules
from admission.volcano_jobs.state import JobState, Phase
from admission.volcano_jobs.view import JobView
from queues.admissions import Seat
from queues.workload import NodeName
from tests.builders.volcano_jobs import KEY, TAKES, UID, admission, job, pod

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
DONE, BAD, RUN = PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.RUNNING


def task(name: str, replicas: int, *after: str, iteration: str = "all", **fields: Any) -> dict[str, Any]:
    depends = {"dependsOn": {"name": list(after), "iteration": iteration}} if after else {}
    return {"name": name, "replicas": replicas, "template": TEMPLATE, **depends, **fields}


def ready(index: int, name: str, **facts: Any) -> Any:
    return pod(index, RUN, task=name, ready_since=1, uid=f"{name}-{index}", **facts)


def seen(*pods: Any, tasks: Any = (), **view: Any) -> JobView:
    tasks = tasks or (task("launcher", 1, "worker"), task("worker", 2))
    spec = job(tasks=list(tasks), minAvailable=0, plugins={})
    seats = tuple(
        Seat(pod_set=each.name, ordinal=index, node=NodeName("n"), takes=TAKES)
        for each in spec.tasks
        for index in range(each.replicas)
    )
    return JobView(spec=spec, pods=pods, admissions=(replace(admission(), seats=seats),), **view)


def stepped(before: JobState, view: JobView, now: int) -> JobState:
    return next_state(before, view, now)[0]


def state(phase: Phase = Phase.RUNNING) -> JobState:
    return JobState(uid=UID, phase=phase, history=((phase, 0),))


def waiting(view: JobView) -> list[str]:
    return [each.task for each in waiting_tasks(state(), view)]


def created(view: JobView) -> list[str]:
    work = work_for(KEY, state(), view, 0, rules=PodRules())
    return [f"{each.task}-{each.index}" for each in work.creates]


@pytest.mark.parametrize(
    ("pods", "outcomes", "waits"),
    [
        ((), {}, True),
        ((ready(0, "worker"),), {}, True),
        ((ready(0, "worker"), pod(1, RUN, uid="w1")), {}, True),
        ((ready(0, "worker"), ready(1, "worker", deleting=True)), {}, True),
        ((ready(0, "worker"), ready(1, "worker", version=-1)), {}, True),
        ((ready(0, "worker"), ready(1, "worker")), {}, False),
        ((ready(0, "worker"), pod(1, DONE, uid="w1")), {}, False),
        ((ready(0, "worker"),), {("worker", 1): DONE}, False),
        ((ready(0, "worker"),), {("worker", 1): BAD}, True),
    ],
)
def test_a_task_waits_until_enough_pods_of_the_other_are_ready_or_have_succeeded(
    pods: Any, outcomes: Any, waits: bool
) -> None:
    view = seen(*pods, outcomes=outcomes)
    assert waiting(view) == ["launcher"] * waits
    assert ("launcher-0" in created(view)) is not waits


def test_no_more_pods_are_needed_than_the_task_itself_needs() -> None:
    tasks = (task("launcher", 1, "worker"), task("worker", 3, minAvailable=1))
    assert waiting(seen(ready(2, "worker"), tasks=tasks)) == []


def test_one_of_several_tasks_is_enough_where_the_owner_says_so() -> None:
    def tasks(iteration: str) -> Any:
        return (task("a", 1), task("b", 1), task("c", 1, "a", "b", iteration=iteration))

    assert waiting(seen(ready(0, "a"), tasks=tasks("any"))) == []
    assert waiting(seen(ready(0, "a"), tasks=tasks("all"))) == ["c"]
    assert waiting(seen(tasks=tasks("any"))) == ["c"]


def test_a_task_that_waits_says_for_what_without_numbers() -> None:
    (told,) = waiting_tasks(state(), seen())
    assert told.told() == "task launcher starts once pods of worker are ready"


def test_a_job_fails_when_nothing_runs_and_a_task_can_never_start() -> None:
    failed = seen(pod(0, BAD, uid="w0"), pod(1, DONE, uid="w1"))
    for phase in (Phase.PENDING, Phase.RUNNING):
        new = advance(state(phase), failed, 5)
        assert (new.phase, new.reason) == (Phase.FAILED, "TaskFailed")
        assert new.message == "task launcher cannot start: too many pods of worker failed"
    still = seen(pod(0, BAD, uid="w0"), pod(1, RUN, uid="w1"))
    assert advance(state(), still, 5).phase is not Phase.FAILED
    enough = (task("launcher", 1, "worker"), task("worker", 2, minAvailable=1))
    assert advance(state(), seen(pod(0, BAD, uid="w0"), tasks=enough), 5).phase is not Phase.FAILED


def test_a_job_does_not_wait_for_a_policy_that_can_do_nothing_any_more() -> None:
    """The failed pod is gone, so that nothing can be restarted, though its time has come."""
    restart = {"event": "PodFailed", "action": "RestartPod", "timeout": "10s"}
    tasks = (task("launcher", 1, "worker"), task("worker", 1, policies=[restart]))
    view = seen(tasks=tasks, outcomes={("worker", 0): BAD})
    waiting = stepped(state(Phase.PENDING), view, 100)
    assert waiting.phase is Phase.PENDING
    assert stepped(waiting, view, 110).phase is Phase.FAILED


def test_a_task_that_has_started_is_not_told_to_wait() -> None:
    launched = pod(0, RUN, task="launcher", uid="l0")
    view = seen(launched, ready(0, "worker"))
    assert waiting(view) == ["launcher"]
    assert not_started(state(), view) == ()
    assert [each.task for each in not_started(state(), seen(ready(0, "worker")))] == ["launcher"]
