"""History is kept by month."""

import asyncio
from datetime import date

from sqlalchemy import text

from queues.sql.database import Database
from queues.sql.partitions import ensure_partitions
from queues.sql.tables import PARTITIONED
from tests.sql.ledger_harness import LedgerHarness, gang, queue

# NOW of the harness is 2027-01-15.
DECEMBER = date(2026, 12, 31)


async def ensured(database: Database) -> list[str]:
    """The parts that were missing, of all tables."""
    made = []
    for table in PARTITIONED:
        async with database.transaction() as tx:
            made += await ensure_partitions(tx, table, DECEMBER)
    return made


async def test_parts_are_made_ahead_of_time_and_once(muster: Database) -> None:
    assert {"postings_2026_12", "postings_2027_01", "decisions_2027_01"} <= {*await ensured(muster)}
    assert await ensured(muster) == []


async def test_what_came_too_early_is_moved_to_its_month(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    await harness.admit(gang("j1", "a", "n1"))
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM postings_default")) == 1
    await ensured(muster)
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM postings_default")) == 0
        assert await tx.scalar(text("SELECT count(*) FROM postings_2027_01")) == 1


async def test_new_rows_go_to_their_month(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    await ensured(muster)
    await harness.admit(gang("j1", "a", "n1"))
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM postings_2027_01")) == 1


async def test_who_writes_while_a_part_is_made_is_not_refused(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    async with muster.transaction() as tx:
        await ensure_partitions(tx, "postings", DECEMBER)
        admitting = asyncio.create_task(harness.admit(gang("j1", "a", "n1")))
        async with asyncio.timeout(30):
            while not admitting.done() and not await _somebody_waits(muster):  # noqa: ASYNC110 - Postgres tells nobody
                await asyncio.sleep(0.01)
    await admitting
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM postings_2027_01")) == 1


async def _somebody_waits(database: Database) -> bool:
    waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"
    async with database.transaction() as tx:
        return bool(await tx.scalar(text(waiting)))
