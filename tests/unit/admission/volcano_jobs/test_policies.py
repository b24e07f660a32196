"""Which action a lifecycle policy asks for, from what is seen of a Job's pods."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.pods import PodFact, PodPhase
from admission.reconcile.volcano_jobs import next_state
from admission.volcano_jobs.pod_changes import work_for
from admission.volcano_jobs.pods import PodRules
from admission.volcano_jobs.policies import findings
from admission.volcano_jobs.state import Action, JobState, JobTransition, Phase
from admission.volcano_jobs.view import JobView
from queues.admissions import AdmissionState
from tests.builders.volcano_jobs import KEY, UID, admission, job, pod
from tests.tables import named_rows

NOW = 1_000
RUN, DONE, BAD, WAIT = PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.PENDING
TEMPLATE = {"spec": {"containers": [{"name": "c"}]}}

Document = dict[str, Any]


def policy(action: str, *events: str, **fields: Any) -> Document:
    return {"action": action, **({"events": list(events)} if events else {}), **fields}


def stepped(before: JobState, view: JobView, now: int) -> JobState:
    return next_state(before, view, now)[0]


def state(phase: Phase = Phase.RUNNING, **fields: Any) -> JobState:
    return JobState(uid=UID, phase=phase, history=((phase, 0),), **fields)


def seen(
    *pods: PodFact,
    policies: tuple[Document, ...] = (),
    master: tuple[Document, ...] = (),
    held: AdmissionState = AdmissionState.OPEN,
    **view: Any,
) -> JobView:
    """A Job of one master and three workers. ``policies``: of the Job; ``master``: of that task."""
    spec = job(
        tasks=[
            {"name": "master", "replicas": 1, "template": TEMPLATE, "policies": list(master)},
            {"name": "worker", "replicas": 3, "template": TEMPLATE, "maxRetry": 5},
        ],
        policies=list(policies),
    )
    return JobView(spec=spec, pods=pods, admissions=(admission(state=held),), **view)


def master(phase: PodPhase = RUN, **facts: Any) -> PodFact:
    return pod(0, phase, task="master", uid="m", **facts)


def asked(view: JobView, now: JobState | None = None) -> str | None:
    found = findings(now or state(), view, NOW).asked
    return None if found is None else f"{found.action.value}, {found.message}"


ON_FAILURE = policy("RestartJob", "PodFailed")
ON_EVICTION = policy("RestartJob", "PodEvicted")
EVICTING = AdmissionState.EVICTING
GOING = {"deleting": True, "ended_first": False}

COMPLETES = policy("CompleteJob", "TaskCompleted")
ABORTS, ANY = policy("AbortJob", "PodFailed"), policy("AbortJob", "*")
CODE = policy("TerminateJob", exitCode=137)
FAILED = "PodFailed: pod train-worker-1 failed"
WAITED = policy("AbortJob", "PodPending", timeout="60s")
GONE_FAILED = {("worker", 1): BAD}


@named_rows(
    ("view", "wanted"),
    {
        "a pod failed": (seen(pod(1, BAD), policies=(ON_FAILURE,)), f"RestartJob, {FAILED}"),
        "a pod failed that is gone": (
            seen(pod(0), policies=(ON_FAILURE,), outcomes=GONE_FAILED),
            f"RestartJob, {FAILED}",
        ),
        "event, as some write it": (
            seen(pod(1, BAD), policies=({"action": "AbortJob", "event": "PodFailed"},)),
            f"AbortJob, {FAILED}",
        ),
        "an exit code": (
            seen(pod(1, BAD, exit_code=137), policies=(CODE, ON_FAILURE)),
            f"TerminateJob, {FAILED} with exit code 137",
        ),
        "another exit code": (
            seen(pod(1, BAD, exit_code=1), policies=(CODE, ON_FAILURE)),
            f"RestartJob, {FAILED} with exit code 1",
        ),
        "the first that matches decides": (
            seen(pod(1, BAD, exit_code=137), policies=(ON_FAILURE, CODE)),
            f"RestartJob, {FAILED} with exit code 137",
        ),
        "the policy of the task goes first": (
            seen(master(BAD), policies=(ON_FAILURE,), master=(ABORTS,)),
            "AbortJob, PodFailed: pod train-master-0 failed",
        ),
        "a task is done": (
            seen(master(DONE), pod(0), master=(COMPLETES,)),
            "CompleteJob, TaskCompleted: all 1 pods of task master succeeded",
        ),
        "what completes the Job goes before what restarts it": (
            seen(master(DONE), pod(0, BAD), policies=(ON_FAILURE,), master=(COMPLETES,)),
            "CompleteJob, TaskCompleted: all 1 pods of task master succeeded",
        ),
        "containers restarted too often": (
            seen(pod(0, restarts=2), pod(1, WAIT, restarts=3), policies=(policy("AbortJob", "TaskFailed"),)),
            "AbortJob, TaskFailed: containers of task worker were restarted 5 times",
        ),
        "a pod was deleted": (
            seen(pod(2, **GOING), policies=(ON_EVICTION,)),
            "RestartJob, PodEvicted: pod train-worker-2 was deleted",
        ),
        "a pod has waited too long": (
            seen(pod(1, WAIT, created=NOW - 60), policies=(WAITED,)),
            "AbortJob, PodPending: pod train-worker-1 does not run",
        ),
    },
)
def test_a_policy_asks_for_its_action(view: JobView, wanted: str) -> None:
    assert asked(view) == wanted


@named_rows(
    "view",
    {
        "nothing happened": seen(master(), pod(0), policies=(ANY,)),
        "a pod failed and nothing was asked for": seen(pod(1, BAD)),
        "the policy of another task": seen(pod(0, BAD), master=(ABORTS,)),
        "a task is not done yet": seen(pod(0, DONE), pod(1, DONE), policies=(COMPLETES,)),
        "containers restarted": seen(
            pod(0, restarts=2), pod(1, restarts=2), policies=(policy("AbortJob", "TaskFailed"),)
        ),
        "a pod that had ended was deleted": seen(pod(2, DONE, deleting=True), policies=(ON_EVICTION,)),
        "a pod was scaled down": seen(pod(3, **GOING), policies=(ON_EVICTION,)),
        "the whole Job is evicted": seen(pod(2, **GOING), policies=(ON_EVICTION,), held=EVICTING),
        "a pod failed because its admission is evicted": seen(
            pod(1, BAD), pod(2), policies=(ON_FAILURE,), held=EVICTING
        ),
        "a pod of an admission before": seen(pod(1, BAD, admission=None), policies=(ON_FAILURE,)),
        "a pod that was scaled down had failed": seen(pod(3, BAD), policies=(ON_FAILURE,)),
        "pods that are scaled down had succeeded, those that are wanted run": seen(
            *(pod(index, DONE if index > 2 else RUN) for index in range(6)), policies=(COMPLETES,)
        ),
        "a task is to be restarted for a pod that is gone": seen(
            pod(0), policies=(policy("RestartTask", "PodFailed"),), outcomes=GONE_FAILED
        ),
        "a pod is to be restarted that is gone": seen(
            policies=(policy("RestartPod", "PodFailed"),), outcomes=GONE_FAILED
        ),
        "a pod of an older version": seen(pod(1, BAD, version=-1), policies=(ON_FAILURE,)),
        "the Job is being deleted": seen(pod(1, BAD), policies=(ON_FAILURE,), deleting=True),
        "an action that nobody knows": seen(pod(1, BAD), policies=(policy("Dance", "PodFailed"),)),
        "all is done, and any event stops the Job": seen(master(DONE), policies=(ANY,)),
        "a pod waits, and any event stops the Job": seen(pod(1, WAIT), policies=(ANY,)),
        "a pod has not waited long enough": seen(pod(1, WAIT, created=NOW - 59), policies=(WAITED,)),
        "a policy with a timeout for something else than waiting has no effect yet": seen(
            pod(1, BAD), policies=({**ON_FAILURE, "timeout": "10m"},)
        ),
    },
)
def test_a_policy_asks_for_nothing(view: JobView) -> None:
    assert asked(view) is None


@pytest.mark.parametrize("phase", [Phase.RESTARTING, Phase.ABORTING, Phase.COMPLETED, Phase.FAILED])
def test_nothing_is_asked_of_a_job_that_is_being_stopped_or_was(phase: Phase) -> None:
    assert asked(seen(pod(1, BAD), policies=(ON_FAILURE,)), state(phase)) is None


def test_a_failed_pod_restarts_the_job_once_however_often_it_is_seen() -> None:
    view = seen(master(), pod(0), pod(1, BAD), pod(2), policies=(ON_FAILURE,))
    first = stepped(state(), view, NOW)
    again = stepped(first, view, NOW + 1)
    assert (first.phase, first.version, first.retry_count) == (Phase.RESTARTING, 1, 1)
    assert again == first
    assert first.message == "PodFailed: pod train-worker-1 failed"


def test_a_pod_that_failed_at_once_restarts_a_job_that_was_never_seen_running() -> None:
    view = seen(master(), pod(0, BAD), policies=(ON_FAILURE,))
    found = stepped(JobState(uid=UID), view, NOW)
    assert [phase for phase, _ in found.history] == [Phase.PENDING, Phase.RESTARTING]


def test_the_last_pod_that_fails_restarts_the_job_before_it_counts_as_failed() -> None:
    outcomes = {("master", 0): DONE, ("worker", 0): DONE, ("worker", 1): DONE, ("worker", 2): BAD}
    pods = (master(DONE), pod(0, DONE), pod(1, DONE), pod(2, BAD))
    view = seen(*pods, policies=(ON_FAILURE,), outcomes=outcomes)
    assert stepped(state(), view, NOW).phase is Phase.RESTARTING


def restarted(action: str, **fields: Any) -> JobView:
    """Six pods in two tasks, of which the second of the workers failed."""
    task = {"template": TEMPLATE, "policies": [policy(action, "PodFailed")], **fields}
    tasks = [{**task, "name": "master", "replicas": 2}, {**task, "name": "worker", "replicas": 4}]
    masters = [pod(index, task="master", uid=f"m{index}") for index in range(2)]
    workers = [pod(index, BAD if index == 1 else RUN) for index in range(4)]
    spec = job(tasks=tasks, minAvailable=6)
    outcomes = {("worker", 1): BAD}
    return JobView(spec=spec, pods=(*masters, *workers), admissions=(admission(),), outcomes=outcomes)


TARGETS = [
    ("RestartPod", {}, ("pod-1",)),
    ("RestartTask", {}, ("pod-0", "pod-1", "pod-2", "pod-3")),
    ("RestartPartition", {"partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}, ("pod-0", "pod-1")),
    ("RestartPartition", {}, ("pod-1",)),
]


@pytest.mark.parametrize(("action", "fields", "targets"), TARGETS)
def test_a_targeted_action_restarts_some_pods_deletes_them_and_the_others_run_on(
    action: str, fields: Document, targets: tuple[str, ...]
) -> None:
    view = restarted(action, **fields)
    found = stepped(state(), view, NOW)
    assert (found.phase, found.version, found.retry_count) == (Phase.RESTARTING, 0, 1)
    assert found.restarted == set(targets)
    without = replace(view, outcomes={})
    counts = without.counts(found)
    assert (counts.terminating, counts.running) == (len(targets), 6 - len(targets))
    work = work_for(KEY, found, without, NOW, rules=PodRules())
    assert {unwanted.uid for unwanted in work.deletes} == set(targets)
    assert not work.creates


def test_a_job_goes_on_when_the_pods_that_were_restarted_are_gone() -> None:
    view = restarted("RestartPod")
    first = stepped(state(), view, NOW)
    there = tuple(each for each in view.pods if each.uid not in first.restarted)
    after = stepped(first, replace(view, pods=there, outcomes={}), NOW + 1)
    assert after.phase is Phase.PENDING
    running = stepped(after, replace(view, pods=(*there, pod(1, uid="again")), outcomes={}), NOW + 2)
    assert (running.phase, running.retry_count) == (Phase.RUNNING, 1)


def test_the_next_look_is_when_the_first_pod_has_waited_long_enough() -> None:
    pending = policy("AbortJob", "PodPending", timeout="10m")
    view = seen(pod(0, WAIT, created=NOW - 100), pod(1, WAIT, created=NOW - 50), policies=(pending,))
    assert findings(state(), view, NOW).next_timeout == NOW + 500
    assert findings(state(), view, NOW + 600).next_timeout is None
    assert findings(state(), seen(pod(0), policies=(pending,)), NOW).next_timeout is None


def test_a_job_that_was_restarted_as_often_as_it_may_be_has_failed() -> None:
    view = seen(pod(1, BAD, version=2), policies=(ON_FAILURE,))
    found = stepped(state(version=2, retry_count=2), view, NOW)
    assert (found.phase, found.retry_count) == (Phase.FAILED, 3)
    assert not JobTransition(key=KEY, old=state(version=2, retry_count=2), new=found).restarts


def test_a_job_that_restarts_keeps_the_seats_of_pods_that_ended() -> None:
    before = state()
    after = stepped(before, seen(pod(1, BAD), policies=(ON_FAILURE,)), NOW)
    assert JobTransition(key=KEY, old=before, new=after).restarts
    assert not JobTransition(key=KEY, old=after, new=after.entered(Phase.PENDING, NOW)).restarts


def test_the_action_is_the_reason_of_the_phase() -> None:
    view = seen(master(DONE), pod(0), master=(policy("CompleteJob", "TaskCompleted"),))
    found = stepped(state(), view, NOW)
    assert (found.phase, found.reason) == (Phase.COMPLETING, Action.COMPLETE)


def after(view: JobView, now: JobState | None = None, at: int = NOW) -> JobState:
    """The state a turn later."""
    return stepped(now or state(started_at=1), view, at)


def test_what_a_policy_waits_for_must_be_seen_for_all_that_time() -> None:
    failed = seen(pod(0), pod(1, BAD), policies=(policy("RestartJob", "PodFailed", timeout="10m"),))
    waiting = after(failed)
    assert waiting.seen_since == {"PodFailed/worker/1": NOW}
    assert JobState.from_json(waiting.to_json()) == waiting
    assert findings(waiting, failed, NOW + 1).next_timeout == NOW + 600
    assert after(failed, waiting, NOW + 599) == waiting
    assert after(failed, waiting, NOW + 600).phase is Phase.RESTARTING

    well = replace(failed, pods=(pod(0), pod(1)))
    assert after(well, waiting, NOW + 300).seen_since == {}


def test_a_pod_that_was_deleted_is_waited_for_until_another_runs_in_its_place() -> None:
    gone = seen(pod(0), pod(1, **GOING), policies=(policy("RestartJob", "PodEvicted", timeout="5m"),))
    waiting = after(gone)
    for there in ((pod(0),), (pod(0), pod(1, WAIT, uid="new"))):
        assert after(replace(gone, pods=there), waiting, NOW + 299).seen_since == waiting.seen_since
        assert after(replace(gone, pods=there), waiting, NOW + 300).phase is Phase.RESTARTING
    back = replace(gone, pods=(pod(0), pod(1, uid="new")))
    assert after(back, waiting, NOW + 300) == replace(waiting, seen_since={})


def test_a_job_that_was_scaled_is_updated_once() -> None:
    first = seen(master(), policies=(policy("RestartJob", "JobUpdated"),))
    known = after(first)
    assert (known.retry_count, known.replicas) == (0, 4)
    scaled = replace(first, spec=replace(first.spec, tasks=first.spec.tasks[1:]))
    restarted = after(scaled, known)
    assert (restarted.retry_count, restarted.replicas) == (1, 3)
    assert restarted.message == "JobUpdated: it has 3 replicas, it had 4"
    assert after(scaled, replace(restarted, phase=Phase.RUNNING)).retry_count == 1
    assert after(replace(first, spec=replace(first.spec, policies=()))).replicas is None


def test_an_aborted_job_is_resumed_by_a_policy_on_its_update() -> None:
    view = seen(policies=(policy("ResumeJob", "JobUpdated"),))
    assert after(view, state(Phase.ABORTED, replicas=5)).retry_count == 0
    told = asked(view, state(Phase.ABORTED, replicas=5))
    assert told == "ResumeJob, JobUpdated: it has 4 replicas, it had 5"


def test_a_timeout_that_has_passed_is_used_up_by_what_it_asked_for() -> None:
    """A Job that was restarted for a pod that is gone does not restart for it again and again."""
    gone = seen(pod(0), pod(1, **GOING), policies=(policy("RestartJob", "PodEvicted", timeout="1m"),))
    waiting = after(gone)
    alone = replace(gone, pods=())
    restarted = after(alone, waiting, NOW + 60)
    assert (restarted.retry_count, restarted.seen_since) == (1, {})
    assert after(alone, restarted, NOW + 61).retry_count == 1


def test_nothing_is_waited_for_in_a_seat_that_the_job_does_not_hold_any_more() -> None:
    gone = seen(pod(0), pod(1, **GOING), policies=(policy("RestartJob", "PodEvicted", timeout="1m"),))
    waiting = after(gone)
    evicted = replace(gone, pods=(), admissions=())
    assert after(evicted, waiting, NOW + 60).retry_count == 0


def test_a_restarted_pod_is_waited_for_anew() -> None:
    policies = (policy("RestartPod", "PodFailed", timeout="10s"), policy("AbortJob", "Unknown"))
    failed = seen(pod(0), pod(1, BAD), pod(2), master(), policies=policies)
    waiting = after(failed)
    restarted = after(failed, waiting, NOW + 10)
    assert (restarted.restarted, restarted.seen_since) == ({"pod-1"}, {})
    # Its seat was given back, and the Job asks for another: no seat was lost.
    again = replace(failed, pods=(pod(0), pod(2), master()), ended={failed.admissions[0].id: frozenset({1})})
    assert after(again, replace(restarted, phase=Phase.RUNNING), NOW + 11).phase is not Phase.ABORTING


def test_a_job_that_is_scaled_up_has_lost_no_seat() -> None:
    view = seen(pod(0), pod(1), pod(2), master(), policies=(policy("RestartJob", "*"),))
    larger = replace(view.spec, minimum=8, tasks=(*view.spec.tasks, replace(view.spec.tasks[1], name="more")))
    assert asked(replace(view, spec=larger), state(started_at=1)) is None


def test_a_gang_of_which_seats_are_lost_while_pods_run_is_unknown() -> None:
    view = seen(pod(0), pod(1), policies=(policy("AbortJob", "Unknown"),))
    running = state(started_at=1)
    assert asked(view, running) is None
    lost = replace(view, ended={view.admissions[0].id: frozenset({2})})
    assert asked(lost, running) == "AbortJob, Unknown: 2 pods run, of 4 that must run together"
    assert asked(lost, state()) is None
    assert asked(replace(lost, pods=()), running) is None
    assert asked(replace(lost, outcomes={("worker", 2): DONE}), running) is None
