"""History is kept by month."""

from datetime import date

from sqlalchemy import text

from queues.sql.database import Database
from queues.sql.partitions import drop_partitions, ensure_partitions
from tests.sql.stage import Stage, gang, queue

# NOW of the stage is 2027-01-15.
DECEMBER = date(2026, 12, 31)


async def test_parts_are_made_ahead_of_time_and_once(muster: Database) -> None:
    async with muster.transaction() as tx:
        made = await ensure_partitions(tx, DECEMBER)
        assert {"postings_2026_12", "postings_2027_01", "decisions_2027_01"} <= set(made)
        assert await ensure_partitions(tx, DECEMBER) == []


async def test_what_came_too_early_is_moved_to_its_month(muster: Database) -> None:
    stage = await Stage.set(muster, [queue("a")], {"n1": 4}, ["j1"])
    await stage.admit(gang("j1", "a", "n1"))
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM postings_default")) == 1
        await ensure_partitions(tx, DECEMBER)
        assert await tx.scalar(text("SELECT count(*) FROM postings_default")) == 0
        assert await tx.scalar(text("SELECT count(*) FROM postings_2027_01")) == 1


async def test_new_rows_go_to_their_month_and_old_months_are_dropped(muster: Database) -> None:
    stage = await Stage.set(muster, [queue("a")], {"n1": 4}, ["j1"])
    async with muster.transaction() as tx:
        await ensure_partitions(tx, DECEMBER)
    await stage.admit(gang("j1", "a", "n1"))
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM postings_2027_01")) == 1
        dropped = await drop_partitions(tx, date(2027, 1, 1))
        assert dropped == ["decisions_2026_12", "ended_workloads_2026_12", "postings_2026_12"]
        assert await tx.scalar(text("SELECT count(*) FROM postings")) == 1
