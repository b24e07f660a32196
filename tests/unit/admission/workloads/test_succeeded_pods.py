"""Seats of Jobs with pods that have succeeded, before the job controller has counted them."""

from typing import Any

import pytest

from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import JobCounts, WorkloadFact
from queues.workload import AdmissionId
from tests.builders.facts import JOB, admission, job, released, state_of


def succeeded(name: str, seat: str | None, **facts: Any) -> PodFact:
    return released(name, seat, "n1", phase=PodPhase.SUCCEEDED, **facts)


def wants(count: int, of: int, done: int = 0) -> WorkloadFact:
    """A Job of so many completions, as many at a time as are left, of which its status counts ``done``."""
    counts = JobCounts(parallelism=count, completions=of, succeeded=done)
    return job(min(count, of - done), parallelism=count, counts=counts, directed=AdmissionId(1))


@pytest.mark.parametrize("counted", [0, 1], ids=["not counted yet", "counted"])
def test_a_seat_is_given_back_when_its_pod_has_succeeded(counted: int) -> None:
    held = admission(JOB, "n1 n1", started=True)
    pods = (succeeded("a", None), released("b", None, "n1"))
    state = state_of(wants(2, 2, counted), pods, [held])
    assert state.ended == {held.id: frozenset((1,))} or state.ended == {held.id: frozenset((0,))}
    assert not state.needs_seats


def test_a_job_with_more_to_do_keeps_the_seat_for_its_next_pod() -> None:
    held = admission(JOB, "n1 n1", started=True)
    pods = (succeeded("a", None), released("b", None, "n1"))
    assert state_of(wants(2, 4), pods, [held]).ended == {}


def test_when_all_pods_have_succeeded_nothing_is_held_or_wanted() -> None:
    held = admission(JOB, "n1 n1", started=True)
    state = state_of(wants(2, 2), (succeeded("a", None), succeeded("b", None)), [held])
    assert state.ended == {held.id: frozenset((0, 1))}
    assert not state.needs_seats


def test_two_pods_of_one_index_count_once() -> None:
    held = admission(JOB, "n1 n1", started=True)
    pods = (succeeded("a", None, index=3), succeeded("b", None, index=3))
    counts = JobCounts(parallelism=2, completions=3, over=())
    assert state_of(job(2, counts=counts), pods, [held]).ended == {}


def test_the_seat_of_an_index_is_given_back_when_its_pod_has_succeeded() -> None:
    held = admission(JOB, "n1 n1", started=True)
    pods = (succeeded("a", "main/1", index=1), released("b", "main/0", "n1", index=0))
    state = state_of(job(2, indexed=True), pods, [held])
    assert state.ended == {held.id: frozenset((1,))}
    assert not state.needs_seats
