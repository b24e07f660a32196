"""Partitions of the history by week. A DEFAULT partition takes rows of all other times.

They are made ahead of time. Both to make one and to drop one takes a lock that every reader and writer of the table
waits for: it is asked for with a short timeout, so that a long report delays the partition and not the ledger.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.leadership import Term, check_term
from queues.sql.tables import PARTITIONED

#: Key of the advisory lock under which partitions are made ("months", as a number).
LOCK = 0x6D6F6E746873
#: Weeks for which there are partitions, the present one included.
WEEKS = 4
#: Milliseconds to wait for a lock on a whole table.
LOCK_TIMEOUT = 250
#: Rows that the DEFAULT partition gives to a new one; where there are more, they stay, and the partition is not made.
MOST_MOVED = 20_000

WEEK = timedelta(weeks=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPartition:
    """A partition of one table: rows from ``begins`` until before ``ends``."""

    name: str
    begins: datetime
    ends: datetime


async def partitions(tx: AsyncConnection, table: str) -> list[HistoryPartition]:
    """All but the DEFAULT one, oldest first."""
    rows = await tx.execute(
        text(
            "SELECT name, (bounds[1])::timestamptz AS begins, (bounds[2])::timestamptz AS ends FROM ("
            " SELECT p.relname AS name,"
            "  regexp_match(pg_get_expr(p.relpartbound, p.oid), 'FROM \\(''(.+)''\\) TO \\(''(.+)''\\)') AS bounds"
            " FROM pg_inherits JOIN pg_class p ON p.oid = inhrelid WHERE inhparent = to_regclass(:of)"
            ") AS part WHERE bounds IS NOT NULL ORDER BY begins"
        ),
        {"of": table},
    )
    return [HistoryPartition(name=row.name, begins=row.begins, ends=row.ends) for row in rows]


async def ensure_partitions(
    tx: AsyncConnection, term: Term, table: str, today: date, *, weeks: int = WEEKS
) -> tuple[str, ...]:
    """Make a table's partitions of this week and of the following ones; returns the names of the new ones.

    Called at the start of a term and every hour, with one table to a transaction: a transaction that writes into
    several tables can then wait for this one, but never both for each other. Rows that the DEFAULT partition took
    meanwhile are moved, if they are few. Raises Fenced; DatabaseUnavailable if the table is being read for long.
    """
    await tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
    monday = datetime.combine(today - timedelta(days=today.weekday()), time(), UTC)
    existing = {each.begins for each in await partitions(tx, table)}
    missing = [monday + number * WEEK for number in range(weeks) if monday + number * WEEK not in existing]
    if missing:
        # Before the lock on the table, in the order of the writers of the ledger.
        await check_term(tx, term)
        await limit_lock_wait(tx)
        # A row on its way into the DEFAULT partition would be refused there once its week has a partition.
        await tx.execute(text(f'LOCK TABLE "{table}" IN SHARE ROW EXCLUSIVE MODE'))
    made = [await _make(tx, table, begins, begins + WEEK) for begins in missing]
    return tuple(name for name in made if name is not None)


async def limit_lock_wait(tx: AsyncConnection) -> None:
    """From here on the transaction gives up a lock that it does not get soon (``DatabaseUnavailable``)."""
    await tx.execute(text(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT}"))


async def _make(tx: AsyncConnection, table: str, begins: datetime, ends: datetime) -> str | None:
    # Names and dates come from this file; DDL takes no parameters.
    column = PARTITIONED[table]
    of_it = f"{column} >= '{begins.isoformat()}' AND {column} < '{ends.isoformat()}'"
    waiting = text(
        f'SELECT count(*) FROM (SELECT FROM "{table}_default" WHERE {of_it} LIMIT {MOST_MOVED + 1}) AS waiting'
    )
    if (await tx.scalar(waiting) or 0) > MOST_MOVED:
        return None
    partition = f"{table}_{begins:%Y_%m_%d}"
    for statement in (
        f'CREATE TABLE "{partition}" (LIKE "{table}" INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)',
        f'WITH moved AS (DELETE FROM "{table}_default" WHERE {of_it} RETURNING *) '
        f'INSERT INTO "{partition}" SELECT * FROM moved',
        f'ALTER TABLE "{table}" ATTACH PARTITION "{partition}" '
        f"FOR VALUES FROM ('{begins.isoformat()}') TO ('{ends.isoformat()}')",
    ):
        await tx.execute(text(statement))
    return partition
