"""Pods that run without an admission: which of them the ledger takes up, and as what."""

from dataclasses import replace

import pytest

from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from queues import kind_names
from queues.admissions import Admission
from queues.workload import AdmissionId, QueueName, WorkloadKey
from tests.builders.facts import (
    GROUP,
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    admission,
    group,
    job,
    migrated,
    pod,
    released,
    state_of,
    volcano_job,
)
from tests.tables import named_rows

ONE = AdmissionId(1)
BARE = WorkloadKey(kind_names.POD, "bare")


WORKERS = [migrated("c", "n3", task="worker", index=2), migrated("a", "n1", task="worker", index=0)]


@named_rows(
    ("fact", "pods", "taken", "adopted"),
    {
        "under their own numbers": (volcano_job(3), WORKERS, [], [("c", "worker", 2), ("a", "worker", 0)]),
        "of a lost ledger": (
            volcano_job(1),
            [released("a", "worker/0", "n1", by=99, task="worker", index=0)],
            [],
            [("a", "worker", 0)],
        ),
        "on its own index though a seat is kept for it": (
            job(2, indexed=True),
            [migrated("b", "n3", index=1)],
            [admission(JOB, "n1 n2")],
            [("b", "main", 1)],
        ),
        "beyond what a Job was directed for": (
            job(2, directed=ONE),
            [released("a", None, "n1"), released("b", None, "n1")],
            [admission(JOB, "n1", started=True)],
            [("b", "main", 1)],
        ),
        # By the commands on the page on operation, with the number of no admission.
        "let go by an administrator in Muster's name": (
            job(1),
            [released("a", None, "n1", by=0)],
            [],
            [("a", "main", 0)],
        ),
    },
)
def test_pods_that_run_without_an_admission_are_adopted(
    fact: WorkloadFact, pods: list[PodFact], taken: list[Admission], adopted: list[tuple[str, str, int]]
) -> None:
    found = state_of(fact, pods, taken)
    assert [row[:3] for row in found.unbooked.pods] == adopted
    assert (found.leftovers, found.needs_seats) == ((), False)


@pytest.mark.parametrize("indexed", [True, False])
def test_a_directed_job_keeps_its_admission_while_a_pod_of_it_runs_elsewhere(indexed: bool) -> None:
    """The next pod after one that was adopted is made from the same template, and names the same admission."""
    taken = admission(JOB, "n1 n2", started=True, ended=frozenset({1}))
    astray = released("a", None, "n2", index=0 if indexed else None)
    elsewhere = admission(JOB, "n2", number=2, started=True, adopted={"a": 0})
    fact = job(1, directed=ONE, indexed=indexed)
    assert state_of(fact, [astray], [taken, elsewhere]).ended == {}
    assert state_of(replace(fact, finished=True), [astray], [taken, elsewhere]).ended == {ONE: {0}}


def test_a_workload_that_is_over_adopts_nobody() -> None:
    assert state_of(job(1, finished=True), [migrated("a", "n1")]).unbooked is None


def test_the_queue_of_a_job_counts_for_what_is_adopted() -> None:
    found = state_of(job(1, queue=QueueName("other")), [migrated("a", "n1")])
    assert found.unbooked.queue == "other"


@pytest.mark.parametrize(
    ("fact", "key"),
    [(job(1), JOB), (volcano_job(1), VOLCANO), (group(1), GROUP), (None, BARE)],
    ids=["job", "volcano job", "group", "pod"],
)
def test_a_pod_that_runs_in_a_queue_without_an_admission_is_told_and_never_adopted(
    fact: WorkloadFact | None, key: WorkloadKey
) -> None:
    found = state_of(fact, [pod("a", "n1", queue=TEAM)], key=key)
    assert (found.unbooked, [each.name for each in found.foreign]) == (None, ["a"])
    assert found.needs_seats
    assert found.workload.obstacle.code == "NotGated"
    assert "pod a runs without an admission" in found.workload.obstacle.message


@pytest.mark.parametrize(
    ("last", "beyond", "told"),
    [
        (NOW + 1, NOW, "muster.dev/adopt of namespace ns ended at 2027-01-15T08:00:00Z"),
        (NOW + 90 * 86_400, NOW + 90 * 86_400 + 1, "expected a time in the next 90 days"),
    ],
    ids=["ended", "longer than ninety days"],
)
def test_only_while_it_lasts_the_migration_mode_of_a_namespace_adopts(
    last: int, beyond: int, told: str
) -> None:
    assert state_of(job(1), [pod("a", "n1", adopt_until=last)]).unbooked is not None
    found = state_of(job(1), [pod("a", "n1", adopt_until=beyond)])
    assert found.unbooked is None
    assert told in found.workload.obstacle.message


def test_a_namespace_that_may_not_use_a_queue_has_nothing_adopted_into_it() -> None:
    pods = [migrated("a", "n1"), released("b", None, "n1", by=9)]
    found = state_of(job(2), pods, may_use_queue=False)
    assert (found.unbooked, len(found.foreign)) == (None, 2)
    assert "may not use the queue" in found.workload.obstacle.message


def test_of_a_gang_those_are_adopted_that_may_be() -> None:
    found = state_of(job(2), [pod("a", "n1"), released("b", None, "n1", by=9)])
    assert [each.uid for each in found.unbooked.pods] == ["b"]
    assert [each.name for each in found.foreign] == ["a"]
