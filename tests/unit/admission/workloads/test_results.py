"""How a workload ended is told from its own status, else from its pods."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.pods import PodPhase
from admission.volcano_jobs.state import JobState, Phase
from queues import kind_names
from queues.workload import Result, WorkloadKey
from tests.builders.facts import GROUP, VOLCANO, admission, gated, group, job, pod, state_of, volcano_job

BARE = WorkloadKey(kind_names.POD, "bare")


@pytest.mark.parametrize(
    ("facts", "result"),
    [
        ({"finished": True}, Result.SUCCEEDED),
        ({"finished": True, "failed": True}, Result.FAILED),
        ({"deleting": True}, Result.DELETED),
        ({"finished": True, "deleting": True}, Result.SUCCEEDED),
        ({}, Result.UNKNOWN),
    ],
)
def test_a_job_ended_as_its_status_says(facts: dict[str, Any], result: Result) -> None:
    assert state_of(replace(job(1), **facts)).result is result
    # Also while it still holds seats.
    assert state_of(replace(job(1), **facts), [], [admission(job(1).key, "n1")]).result is result


def test_a_volcano_job_ended_as_its_state_says_and_may_go_on_after_an_abort() -> None:
    assert state_of(volcano_job(1), job_result=Result.FAILED).result is Result.FAILED
    stopped = state_of(volcano_job(1), job_result=Result.UNKNOWN)
    assert (stopped.is_over, stopped.result) == (True, Result.UNKNOWN)
    aborted = replace(volcano_job(1), finished=True, phase="Aborted")
    assert state_of(aborted).result is Result.UNKNOWN
    assert state_of(replace(aborted, phase="Completed")).result is Result.SUCCEEDED


@pytest.mark.parametrize(
    ("phase", "result"),
    [
        (Phase.COMPLETED, Result.SUCCEEDED),
        (Phase.COMPLETING, Result.SUCCEEDED),
        (Phase.FAILED, Result.FAILED),
        (Phase.TERMINATED, Result.FAILED),
        (Phase.ABORTED, Result.UNKNOWN),
        (Phase.RUNNING, None),
    ],
)
def test_each_phase_of_a_volcano_job_is_a_result_or_none(phase: Phase, result: Result | None) -> None:
    assert JobState(uid="u", phase=phase).result() is result


def test_pods_alone_tell_of_a_bare_pod_and_of_a_group_that_is_deleted() -> None:
    ended = pod("a", "n1", phase=PodPhase.SUCCEEDED)
    failed = pod("b", "n1", phase=PodPhase.FAILED)
    held = [admission(BARE, "n1")]
    assert state_of(None, [ended], held, key=BARE).result is Result.SUCCEEDED
    assert state_of(None, [failed], held, key=BARE).result is Result.FAILED
    assert state_of(None, [], held, key=BARE).result is Result.DELETED
    deleted = replace(group(2), deleting=True)
    held = [admission(GROUP, "n1", pod_set="w")]
    assert state_of(deleted, [ended, failed], held).result is Result.FAILED
    assert state_of(deleted, [ended, pod("c", "n1")], held).result is Result.DELETED


def test_a_group_has_ended_when_its_pods_have_and_goes_on_with_further_ones() -> None:
    ended = pod("a", "n1", phase=PodPhase.SUCCEEDED, group="gang")
    held = [admission(GROUP, "n1", pod_set="w")]
    done = state_of(group(1), [ended])
    assert (done.is_over, done.needs_seats, done.result) == (False, False, Result.SUCCEEDED)
    assert state_of(group(1), [replace(ended, phase=PodPhase.FAILED)]).result is Result.FAILED
    assert state_of(group(1), [ended], held).result is Result.UNKNOWN
    assert state_of(group(1), [ended, gated("b")]).result is Result.UNKNOWN
    assert state_of(group(1), []).result is Result.UNKNOWN


def test_what_is_stored_follows_the_result_and_the_user() -> None:
    runs = state_of(volcano_job(1), [], [admission(VOLCANO, "n1")])
    of_ann = replace(runs, workload=replace(runs.workload, user="ann"))
    assert len({each.described() for each in (runs, replace(runs, result=Result.FAILED), of_ann)}) == 3
