"""Monthly parts of the tables that only grow. A DEFAULT part takes what no month does, so nothing fails."""

from collections.abc import Iterator
from datetime import date

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.tables import PARTITIONED

#: Key of the advisory lock of whoever makes or drops parts ("months", as a number).
LOCK = 0x6D6F6E746873


async def ensure_partitions(tx: AsyncConnection, table: str, today: date, *, months: int = 2) -> list[str]:
    """Make a table's parts of this month and the ones after it; returns those that were missing.

    For the start of a term and once a day, one table to a transaction: whoever writes into several of them can
    then wait for this one, and never the other way round too. What the DEFAULT part took meanwhile is moved.
    """
    await tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
    there = await _parts(tx)
    missing = [each for each in _months(today, months) if _name(table, each[0]) not in there]
    if missing:
        # A row that was on its way into the DEFAULT part would be refused there as soon as its month has a part.
        await tx.execute(text(f'LOCK TABLE "{table}" IN SHARE ROW EXCLUSIVE MODE'))
    for first, following in missing:
        await _make(tx, table, PARTITIONED[table], _name(table, first), first, following)
    return [_name(table, first) for first, _ in missing]


async def drop_partitions(tx: AsyncConnection, before: date) -> list[str]:
    """Forget history: drop the parts of months that ended by then; returns their names."""
    await tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
    last = {_name(table, before) for table in PARTITIONED}
    old = sorted(
        part
        for part in await _parts(tx)
        if not part.endswith("_default") and all(_table(part) != _table(name) or part < name for name in last)
    )
    for part in old:
        await tx.execute(text(f'DROP TABLE "{part}"'))
    return old


async def _make(
    tx: AsyncConnection, table: str, column: str, part: str, first: date, following: date
) -> None:
    # Names and dates come from this file; DDL takes no parameters.
    await tx.execute(
        text(
            f'CREATE TABLE "{part}" '
            f'(LIKE "{table}" INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)'
        )
    )
    await tx.execute(
        text(
            f'WITH moved AS (DELETE FROM "{table}_default" '
            f"WHERE {column} >= '{first}' AND {column} < '{following}' RETURNING *) "
            f'INSERT INTO "{part}" SELECT * FROM moved'
        )
    )
    await tx.execute(
        text(
            f'ALTER TABLE "{table}" ATTACH PARTITION "{part}" '
            f"FOR VALUES FROM ('{first} 00:00+00') TO ('{following} 00:00+00')"
        )
    )


async def _parts(tx: AsyncConnection) -> set[str]:
    rows = await tx.execute(
        text(
            "SELECT part.relname FROM pg_inherits JOIN pg_class part ON part.oid = inhrelid "
            "JOIN pg_class whole ON whole.oid = inhparent "
            "WHERE whole.relname = ANY(:tables) AND part.relkind = 'r'"
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


def _table(part: str) -> str:
    return part[: -len("_0000_00")]
