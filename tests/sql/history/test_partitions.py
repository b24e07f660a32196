"""History is kept by week."""

import asyncio
from datetime import date, timedelta

import pytest
from sqlalchemy import text

from queues.errors import DatabaseUnavailable
from queues.sql.database import Database
from queues.sql.history.partitions import ensure_partitions
from queues.sql.tables import PARTITIONED
from tests.sql.ledger_harness import LedgerHarness, gang, queue
from tests.waiting import LIMIT

# NOW of the harness is 2027-01-15, a Friday.
DECEMBER = date(2026, 12, 31)
OF_NOW = "postings_2027_01_11"


async def ensured(harness: LedgerHarness) -> list[str]:
    """The partitions that were missing, of all tables."""
    made: list[str] = []
    for table in PARTITIONED:
        async with harness.muster.transaction() as tx:
            made += await ensure_partitions(tx, harness.term, table, DECEMBER)
    return made


async def test_parts_are_made_ahead_of_time_and_once(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    assert {"postings_2026_12_28", "postings_2027_01_18", "decisions_2027_01_04"} <= {*await ensured(harness)}
    assert await ensured(harness) == []


async def test_what_came_too_early_is_moved_to_its_week(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    await harness.admit(gang("j1", "a", "n1"))
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM postings_default")) == 1
    await ensured(harness)
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM postings_default")) == 0
        assert await tx.scalar(text(f"SELECT count(*) FROM {OF_NOW}")) == 1


async def test_new_rows_go_to_their_week(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    await ensured(harness)
    await harness.admit(gang("j1", "a", "n1"))
    async with muster.transaction() as tx:
        assert await tx.scalar(text(f"SELECT count(*) FROM {OF_NOW}")) == 1


async def test_who_writes_while_a_part_is_made_is_not_refused(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    async with muster.transaction() as tx:
        await ensure_partitions(tx, harness.term, "postings", DECEMBER)
        admitting = asyncio.create_task(harness.admit(gang("j1", "a", "n1")))
        async with asyncio.timeout(LIMIT):
            while not admitting.done() and not await _somebody_waits(muster):  # noqa: ASYNC110 - Postgres tells nobody
                await asyncio.sleep(0.01)
    await admitting
    async with muster.transaction() as tx:
        assert await tx.scalar(text(f"SELECT count(*) FROM {OF_NOW}")) == 1


async def _somebody_waits(database: Database) -> bool:
    waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"
    async with database.transaction() as tx:
        return bool(await tx.scalar(text(waiting)))


async def test_a_report_that_reads_for_long_delays_a_partition_and_not_the_ledger(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    async with muster.snapshot() as report:
        await report.execute(text("SELECT count(*) FROM postings"))
        with pytest.raises(DatabaseUnavailable):
            await ensured(harness)
        await harness.admit(gang("j1", "a", "n1"))
    assert f"postings_{DECEMBER - timedelta(days=3):%Y_%m_%d}" in await ensured(harness)
