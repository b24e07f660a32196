"""Monthly partitions of the tables that only grow. A DEFAULT partition takes rows of all other months."""

from collections.abc import Iterator
from datetime import date

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.tables import PARTITIONED

#: Key of the advisory lock under which partitions are made ("months", as a number).
LOCK = 0x6D6F6E746873


async def ensure_partitions(tx: AsyncConnection, table: str, today: date, *, months: int = 2) -> list[str]:
    """Make a table's partitions of this month and of the following ones; returns the names of the new ones.

    Called at the start of a term and some times a day, with one table to a transaction: a transaction that writes
    into several tables can then wait for this one, but never both for each other. Rows that the DEFAULT partition
    took meanwhile are moved.
    """
    await tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
    existing = await _partitions(tx)
    missing = [each for each in _months(today, months) if _name(table, each[0]) not in existing]
    if missing:
        # A row on its way into the DEFAULT partition would be refused there once its month has a partition.
        await tx.execute(text(f'LOCK TABLE "{table}" IN SHARE ROW EXCLUSIVE MODE'))
    for first, following in missing:
        await _make(tx, table, PARTITIONED[table], _name(table, first), first, following)
    return [_name(table, first) for first, _ in missing]


async def _make(
    tx: AsyncConnection, table: str, column: str, partition: str, first: date, following: date
) -> None:
    # Names and dates come from this file; DDL takes no parameters.
    await tx.execute(
        text(
            f'CREATE TABLE "{partition}" '
            f'(LIKE "{table}" INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)'
        )
    )
    await tx.execute(
        text(
            f'WITH moved AS (DELETE FROM "{table}_default" '
            f"WHERE {column} >= '{first}' AND {column} < '{following}' RETURNING *) "
            f'INSERT INTO "{partition}" SELECT * FROM moved'
        )
    )
    await tx.execute(
        text(
            f'ALTER TABLE "{table}" ATTACH PARTITION "{partition}" '
            f"FOR VALUES FROM ('{first} 00:00+00') TO ('{following} 00:00+00')"
        )
    )


async def _partitions(tx: AsyncConnection) -> set[str]:
    rows = await tx.execute(
        text(
            "SELECT p.relname FROM pg_inherits JOIN pg_class p ON p.oid = inhrelid "
            "JOIN pg_class whole ON whole.oid = inhparent "
            "WHERE whole.relname = ANY(:tables) AND p.relkind = 'r'"
        ),
        {"tables": list(PARTITIONED)},
    )
    return set(rows.scalars())


def _months(today: date, months: int) -> Iterator[tuple[date, date]]:
    first = today.replace(day=1)
    for _ in range(months):
        following = date(first.year + 1, 1, 1) if first.month == 12 else date(first.year, first.month + 1, 1)
        yield first, following
        first = following


def _name(table: str, month: date) -> str:
    return f"{table}_{month:%Y_%m}"
