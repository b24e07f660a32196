"""Pods that a Job lacks: a sync of its controller may be making them when the Job is deleted."""

import pytest

from admission.facts import WorkloadFact
from queues.workload import AdmissionId
from tests.builders.facts import JOB, admission, job, released, state_of

ONE = AdmissionId(1)


@pytest.mark.parametrize(
    ("fact", "pods", "lacks"),
    [
        (job(2, directed=ONE), ["a"], True),
        (job(2, directed=ONE), ["a", "b"], False),
        (job(2), [], False),
        (job(2, directed=AdmissionId(7)), [], False),
        (job(2, suspended=True), [], True),
    ],
    ids=["on its nodes", "with all its pods", "pod by pod", "for another admission", "may be resumed"],
)
@pytest.mark.parametrize("started", [False, True], ids=["not started", "started"])
def test_a_job_lacks_pods_that_could_run_at_once(
    fact: WorkloadFact, pods: list[str], lacks: bool, started: bool
) -> None:
    taken = admission(JOB, "n1 n1", started=started)
    found = state_of(fact, [released(name, None) for name in pods], [taken])
    assert found.pods_seen is not lacks


def test_a_pod_that_is_deleted_while_its_job_goes_on_is_lacked_until_its_successor_is_seen() -> None:
    fact, taken = job(2, directed=ONE), admission(JOB, "n1 n1", started=True)
    pods = [released("a", None, "n1"), released("b", None, "n1", deleting=True)]
    assert not state_of(fact, pods, [taken]).pods_seen
    assert state_of(fact, [*pods, released("c", None)], [taken]).pods_seen


@pytest.mark.parametrize("fact", [None, job(2, directed=ONE, deleting=True)], ids=["gone", "being deleted"])
def test_a_pod_that_ends_after_its_job_was_deleted_is_not_waited_for(fact: WorkloadFact | None) -> None:
    ends = released("a", None, "n1", deleting=True)
    found = state_of(fact, [ends], [admission(JOB, "n1 n1", started=True)], pods_seen=True)
    assert (found.ended, found.stopping_since, found.pods_seen) == ({ONE: frozenset({1})}, 0, True)
