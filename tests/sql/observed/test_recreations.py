"""What is kept of pods that are to be made again, and who takes their place in line."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from queues import kind_names
from queues.admissions import Recreation, Setbacks
from queues.errors import Fenced
from queues.sql.database import Database
from queues.sql.leadership import Term
from queues.sql.observed import workloads
from queues.sql.observed.rows import Description, Succession
from queues.sql.world import load_world
from queues.workload import QueueName, Result, WorkloadKey
from tests.sql.ledger_harness import NOW, LedgerHarness

OLD = WorkloadKey(kind_names.POD, "old")
NEW = WorkloadKey(kind_names.POD, "new")
TEAM = QueueName("a")
INTENT = Recreation(
    pod_uid="old", workload=OLD, namespace="ns", name="p", queue=TEAM, manifest='{"env":"\\u0000"}'
)


async def stored(muster: Database) -> tuple[Recreation, ...]:
    async with muster.snapshot() as tx:
        return (await load_world(tx)).recreations


async def record(muster: Database, term: Term, *rows: Recreation, gone: tuple[str, ...] = ()) -> None:
    async with muster.transaction() as tx:
        await workloads.record_recreations(tx, term, rows, gone)


async def test_an_intent_is_kept_as_it_was_told_last_until_it_is_dropped(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    other = replace(INTENT, pod_uid="other")
    await record(muster, harness.term, INTENT, other)
    changed = replace(INTENT, manifest="{}")
    await record(muster, harness.term, changed)
    assert await stored(muster) == (changed, other)
    await record(muster, harness.term, gone=("old", "never heard of"))
    assert await stored(muster) == (other,)


async def test_a_deposed_leader_keeps_no_intent(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    with pytest.raises(Fenced):
        await record(muster, replace(harness.term, number=harness.term.number - 1), INTENT)
    assert await stored(muster) == ()


def arrival(key: WorkloadKey) -> Description:
    return Description(key=key, namespace="ns", name="p", queue=TEAM)


async def test_a_pod_that_was_made_again_keeps_its_place_in_line_and_its_wait(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    late = WorkloadKey(kind_names.POD, "late")
    async with muster.transaction() as tx:
        before = await workloads.arrive(tx, harness.term, [arrival(OLD), arrival(late)])
        await tx.execute(text("INSERT INTO backoffs VALUES ('pod', 'old', 1800000060, 3)"))
    for _ in range(2):
        async with muster.transaction() as tx:
            await workloads.succeed(tx, harness.term, [Succession(heir=arrival(NEW), after=OLD)])
            numbers = await workloads.arrive(tx, harness.term, [arrival(NEW)])
        assert numbers == {NEW: before[OLD]}
    async with muster.snapshot() as tx:
        rows = await load_world(tx)
    assert rows.setbacks[NEW] == Setbacks(not_before=1_800_000_060, rollbacks=3)
    async with muster.transaction() as tx:
        await workloads.depart(tx, harness.term, {OLD: Result.UNKNOWN}, NOW)
    async with muster.snapshot() as tx:
        rows = await load_world(tx)
    assert rows.arrivals == {late: before[late], NEW: before[OLD]}
    assert list(rows.setbacks) == [NEW]


async def test_whoever_takes_the_place_of_nobody_known_arrives_last(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    async with muster.transaction() as tx:
        first = await workloads.arrive(tx, harness.term, [arrival(WorkloadKey(kind_names.POD, "first"))])
        await workloads.succeed(tx, harness.term, [Succession(heir=arrival(NEW), after=OLD)])
        numbers = await workloads.arrive(tx, harness.term, [arrival(NEW)])
    assert numbers[NEW] > max(first.values())
