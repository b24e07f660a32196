"""Pods that a Job lacks: a sync of its controller may be making them when the Job is deleted or made smaller."""

from dataclasses import replace

import pytest

from admission.facts.workloads import WorkloadFact
from queues.workload import AdmissionId
from tests.builders.facts import JOB, NOW, admission, job, released, state_of
from tests.tables import named_rows

ONE = AdmissionId(1)


@named_rows(
    ("fact", "pods", "lacks"),
    {
        "on its nodes": (job(2, directed=ONE), ["a"], True),
        "with all its pods": (job(2, directed=ONE), ["a", "b"], False),
        "pod by pod": (job(2), [], False),
        "for another admission": (job(2, directed=AdmissionId(7)), [], False),
        "may be resumed": (job(2, suspended=True), [], True),
    },
)
@pytest.mark.parametrize("started", [False, True], ids=["not started", "started"])
def test_a_job_lacks_pods_that_could_run_at_once(
    fact: WorkloadFact, pods: list[str], lacks: bool, started: bool
) -> None:
    taken = admission(JOB, "n1 n1", started=started)
    found = state_of(fact, [released(name, None) for name in pods], [taken])
    assert found.remembered.pods_seen is not lacks


def test_a_pod_that_is_deleted_while_its_job_goes_on_is_lacked_until_its_successor_is_seen() -> None:
    fact, taken = job(2, directed=ONE), admission(JOB, "n1 n1", started=True)
    pods = [released("a", None, "n1"), released("b", None, "n1", deleting=True)]
    assert not state_of(fact, pods, [taken]).remembered.pods_seen
    assert state_of(fact, [*pods, released("c", None)], [taken]).remembered.pods_seen


@pytest.mark.parametrize("fact", [None, job(2, directed=ONE, deleting=True)], ids=["gone", "being deleted"])
def test_a_pod_that_ends_after_its_job_was_deleted_is_not_waited_for(fact: WorkloadFact | None) -> None:
    ends = released("a", None, "n1", deleting=True)
    found = state_of(fact, [ends], [admission(JOB, "n1 n1", started=True)], pods_seen=True)
    assert (found.ended, found.remembered.stopping_since, found.remembered.pods_seen) == (
        {ONE: frozenset({1})},
        0,
        True,
    )


def test_an_index_that_a_job_has_no_more_may_still_get_its_pod() -> None:
    taken = replace(admission(JOB, "n1 n1 n1", started=True), ended=frozenset({0}))
    for fact, ended in ((job(2, directed=ONE, indexed=True), {}), (job(2, indexed=True), {ONE: {2}})):
        assert state_of(fact, [released("b", "main/1", "n1", index=1)], [taken]).ended == ended


def test_a_job_that_lacked_a_pod_when_it_was_made_smaller_may_still_get_it() -> None:
    """A sync of its controller that read the number of before goes on; nothing in the Job tells of it."""
    fact, taken = job(1, directed=ONE), admission(JOB, "n1 n1 n1", started=True)
    pods = [released("a", None, "n1")]
    found = state_of(fact, pods, [taken])
    assert (found.ended, found.is_stopped, found.remembered.stopping_since, found.look_at) == (
        {},
        False,
        NOW,
        NOW + 11,
    )
    later = state_of(fact, pods, [taken], now=NOW + 11, stopping_since=NOW)
    assert (later.ended, later.is_stopped) == ({ONE: frozenset({1, 2})}, True)
    awaited = {ONE: frozenset({0, 1, 2})}
    kept = state_of(fact, pods, [taken], now=NOW + 11, stopping_since=NOW, awaited=awaited)
    assert kept.ended.get(ONE, frozenset()) == frozenset(), "until its pods were listed"


def test_a_job_that_lacked_no_pod_when_it_was_made_smaller_gives_seats_back_at_once() -> None:
    fact, taken = job(1, directed=ONE), admission(JOB, "n1 n1 n1", started=True)
    pods = [released("a", None, "n1"), released("b", None, "n1", deleting=True)]
    found = state_of(fact, pods, [taken], pods_seen=True)
    assert (found.ended, found.is_stopped) == ({ONE: frozenset({2})}, True)


@pytest.mark.parametrize(
    "fact", [job(1), job(1, directed=ONE, parallelism=3)], ids=["gated", "its last pods"]
)
def test_seats_that_no_pod_comes_for_that_starts_by_itself_are_given_back_at_once(fact: WorkloadFact) -> None:
    found = state_of(fact, [released("a", None, "n1")], [admission(JOB, "n1 n1 n1", started=True)])
    assert found.ended == {ONE: frozenset({1, 2})}
