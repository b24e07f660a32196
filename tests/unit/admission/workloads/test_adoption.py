"""Pods that run without an admission: which of them the ledger takes up, and as what."""

from dataclasses import replace

import pytest

from admission.facts.workloads import WorkloadFact
from queues.workload import AdmissionId, QueueName, WorkloadKey, WorkloadKind
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

ONE = AdmissionId(1)
BARE = WorkloadKey(WorkloadKind.POD, "bare")


def test_pods_that_run_without_an_admission_are_to_be_adopted_under_their_own_numbers() -> None:
    found = state_of(
        volcano_job(3),
        [migrated("c", "n3", task="worker", index=2), migrated("a", "n1", task="worker", index=0)],
    )
    assert [row[:3] for row in found.unbooked.pods] == [("c", "worker", 2), ("a", "worker", 0)]
    assert not found.needs_seats


def test_pods_of_a_lost_ledger_are_adopted_and_not_removed() -> None:
    found = state_of(volcano_job(1), [released("a", "worker/0", "n1", by=99, task="worker", index=0)])
    assert found.unbooked is not None
    assert found.leftovers == ()


def test_a_pod_that_ran_before_is_adopted_on_its_own_index_though_a_seat_is_kept_for_it() -> None:
    taken = admission(JOB, "n1 n2")
    found = state_of(job(2, indexed=True), [migrated("b", "n3", index=1)], [taken])
    assert [row[:3] for row in found.unbooked.pods] == [("b", "main", 1)]


def test_pods_beyond_what_a_job_was_directed_for_enter_the_books() -> None:
    taken = admission(JOB, "n1", started=True)
    pods = [released("a", None, "n1"), released("b", None, "n1")]
    found = state_of(job(2, directed=ONE), pods, [taken])
    assert [row[:3] for row in found.unbooked.pods] == [("b", "main", 1)]


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


def test_after_its_end_the_migration_mode_of_a_namespace_adopts_nothing() -> None:
    late = pod("a", "n1", adopt_until=NOW)
    found = state_of(job(1), [late])
    assert found.unbooked is None
    assert "muster.dev/adopt of namespace ns ended at 2027-01-15T08:00:00Z" in found.workload.obstacle.message
    assert state_of(job(1), [late], now=NOW - 1).unbooked is not None


def test_a_migration_mode_that_would_last_for_more_than_ninety_days_adopts_nothing() -> None:
    days = 90 * 86_400
    for_ever = pod("a", "n1", adopt_until=NOW + days + 1)
    found = state_of(job(1), [for_ever])
    assert found.unbooked is None
    assert "expected a time in the next 90 days" in found.workload.obstacle.message
    assert state_of(job(1), [pod("a", "n1", adopt_until=NOW + days)]).unbooked is not None


def test_a_namespace_that_may_not_use_a_queue_has_nothing_adopted_into_it() -> None:
    pods = [migrated("a", "n1"), released("b", None, "n1", by=9)]
    found = state_of(job(2), pods, may_use_queue=False)
    assert (found.unbooked, len(found.foreign)) == (None, 2)
    assert "may not use the queue" in found.workload.obstacle.message


def test_what_an_administrator_let_go_in_musters_name_is_adopted() -> None:
    """By the commands on the page on operation, with the number of no admission."""
    found = state_of(job(1), [released("a", None, "n1", by=0)])
    assert [each.uid for each in found.unbooked.pods] == ["a"]
    assert found.leftovers == ()


def test_of_a_gang_those_are_adopted_that_may_be() -> None:
    found = state_of(job(2), [pod("a", "n1"), released("b", None, "n1", by=9)])
    assert [each.uid for each in found.unbooked.pods] == ["b"]
    assert [each.name for each in found.foreign] == ["a"]
