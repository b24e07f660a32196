"""Seats of Jobs with pods that have succeeded, before the job controller has counted them."""

from dataclasses import replace
from typing import Any

from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import JobCounts, WorkloadFact
from queues.workload import AdmissionId
from tests.builders.facts import JOB, admission, job, released, state_of
from tests.tables import named_rows


def succeeded(name: str, seat: str | None, **facts: Any) -> PodFact:
    return released(name, seat, "n1", phase=PodPhase.SUCCEEDED, **facts)


def wants(count: int, of: int, done: int = 0) -> WorkloadFact:
    """A Job of so many completions, as many at a time as are left, of which its status counts ``done``."""
    counts = JobCounts(parallelism=count, completions=of, succeeded=done)
    return job(min(count, of - done), parallelism=count, counts=counts, directed=AdmissionId(1))


A, B, RUNS = succeeded("a", None), succeeded("b", None), released("b", None, "n1")
ONE_INDEX = job(2, counts=JobCounts(parallelism=2, completions=3, over=()))


@named_rows(
    ("fact", "pods", "ended", "needs_seats"),
    {
        "not counted yet": (wants(2, 2, 0), (A, RUNS), 1, False),
        "counted": (wants(2, 2, 1), (A, RUNS), 1, False),
        "a Job with more to do keeps the seat for its next pod": (wants(2, 4), (A, RUNS), 0, False),
        "when all have succeeded nothing is held or wanted": (wants(2, 2), (A, B), 2, False),
        "two pods of one index count once": (ONE_INDEX, (replace(A, index=3), replace(B, index=3)), 0, False),
    },
)
def test_a_seat_is_given_back_when_its_pod_has_succeeded(
    fact: WorkloadFact, pods: tuple[PodFact, ...], ended: int, needs_seats: bool
) -> None:
    held = admission(JOB, "n1 n1", started=True)
    state = state_of(fact, pods, [held])
    assert len(state.ended.get(held.id, ())) == ended
    assert state.needs_seats is needs_seats


def test_the_seat_of_an_index_is_given_back_when_its_pod_has_succeeded() -> None:
    held = admission(JOB, "n1 n1", started=True)
    pods = (succeeded("a", "main/1", index=1), released("b", "main/0", "n1", index=0))
    state = state_of(job(2, indexed=True), pods, [held])
    assert state.ended == {held.id: frozenset((1,))}
    assert not state.needs_seats
