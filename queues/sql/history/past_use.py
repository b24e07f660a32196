"""Past use summed up by block of a half-life: what a new leader reads in place of the postings.

One step takes the postings after the mark of a half-life into the sums and moves the mark, in one transaction: killed
between any two steps, no posting counts twice or never. The sums follow from the postings alone, so whatever leader
sums up, and whenever, they are the same to the last digit. Postings are not needed any more once they are summed up.
"""

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from decimal import Decimal
from typing import Final

from sqlalchemy import delete, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.quota.decayed_usage import oldest_block
from queues.sql.leadership import Term, check_term
from queues.sql.read.past_use import Mark, marks, newest_posting, slot_sums
from queues.sql.statements import UnnestRows, insert_rows
from queues.sql.tables import past_use_marks, past_use_sums

#: Key of the advisory lock under which a mark is made ("marks", as a number).
LOCK: Final = 0x6D61726B73

_SUMMED: Final = UnnestRows(*past_use_sums.c)
_new_sums = insert_rows(past_use_sums, _SUMMED)
_ADD: Final = _new_sums.on_conflict_do_update(
    index_elements=list(past_use_sums.primary_key),
    set_={"units": past_use_sums.c.units + _new_sums.excluded.units},
)


async def sum_up(tx: AsyncConnection, term: Term, half_life: int, now: int, *, rows: int) -> bool:
    """Take the next postings into the sums of a half-life, at most so many. True: more are left.

    ``now``: seconds since the epoch. Raises Fenced.
    """
    mark = await _locked_mark(tx, half_life)
    if mark is None:
        # One at a time: sums that another adds meanwhile would be taken for those of an earlier use.
        await tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
        mark = await _locked_mark(tx, half_life)
    if mark is None:
        # Of an earlier use of this half-life; they count no more, and would count twice.
        if await _forget_sums(tx, half_life, None, rows):
            return True
        mark = await _first_mark(tx, half_life, now)
    newest = await newest_posting(tx)
    until = min(newest, mark.posting + rows)
    if until > mark.posting:
        await _add(tx, mark, until, now)
    # Last, so that turns do not wait for the reading.
    await check_term(tx, term)
    return until < newest


async def _add(tx: AsyncConnection, mark: Mark, until: int, now: int) -> None:
    half_life, oldest = mark.half_life, oldest_block(now, mark.half_life)
    sums = Counter[tuple[str, str, str, str, int]]()
    for each in await slot_sums(tx, mark, until):
        if each.block >= oldest:
            sums[each.queue, each.user, each.account.flavor, each.account.resource, each.block] += each.units
    if sums:
        added = [(half_life, *key, Decimal(units)) for key, units in sorted(sums.items())]
        await tx.execute(_ADD, _SUMMED.rows(added))
    moved = update(past_use_marks).where(past_use_marks.c.half_life == half_life)
    await tx.execute(moved.values(posting=until))


async def _locked_mark(tx: AsyncConnection, half_life: int) -> Mark | None:
    columns = past_use_marks.c["half_life", "posting", "carried"]
    locked = select(*columns).where(past_use_marks.c.half_life == half_life).with_for_update()
    row = (await tx.execute(locked)).one_or_none()
    return None if row is None else Mark(*row)


async def _first_mark(tx: AsyncConnection, half_life: int, now: int) -> Mark:
    (first,) = await marks(tx, [half_life], now)
    row = {"half_life": half_life, "posting": first.posting, "carried": first.carried}
    await tx.execute(insert(past_use_marks).values(row))
    return first


async def forget(
    tx: AsyncConnection, term: Term, half_lives: Collection[int], now: int, *, rows: int
) -> bool:
    """Delete some sums that count no more: of old blocks, and of half-lives that no queue has. True: more are left.

    ``half_lives``: those that count. Raises Fenced.
    """
    await check_term(tx, term)
    # At once: without its mark, what is left of the sums of a half-life is not read.
    await tx.execute(delete(past_use_marks).where(past_use_marks.c.half_life.not_in(sorted(half_lives))))
    for half_life in half_lives:
        if await _forget_sums(tx, half_life, oldest_block(now, half_life), rows):
            return True
    unmarked = past_use_sums.c.half_life.not_in(select(past_use_marks.c.half_life))
    left = await tx.scalar(select(past_use_sums.c.half_life).where(unmarked).limit(1))
    return left is not None and await _forget_sums(tx, left, None, rows)


async def _forget_sums(tx: AsyncConnection, half_life: int, oldest: int | None, rows: int) -> bool:
    """Of a half-life, blocks before ``oldest``; None for all. True if perhaps more are left."""
    key = past_use_sums.primary_key.columns
    old = select(*key).where(past_use_sums.c.half_life == half_life).limit(rows)
    if oldest is not None:
        old = old.where(past_use_sums.c.block < oldest)
    gone = await tx.execute(
        delete(past_use_sums).where(tuple_(*key).in_(old)).returning(past_use_sums.c.block)
    )
    return len(gone.all()) == rows


async def is_summed_up(
    tx: AsyncConnection, half_lives: Collection[int], partition: str, before: datetime
) -> bool:
    """Whether the older postings in a partition (its name) are in the sums of all these half-lives, and may go."""
    # What is carried over later than a mark's beginning is in its sums by what it follows from.
    question = text(
        f'SELECT max(id) FROM "{partition}" WHERE posted_at < :before'
        " AND (kind <> 'carry' OR id <= (SELECT max(carried) FROM past_use_marks))"
    )
    last = await tx.scalar(question, {"before": before}) or 0
    reached = {mark.half_life: mark.posting for mark in await marks(tx, half_lives, 0) if mark.is_stored}
    return all(reached.get(half_life, -1) >= last for half_life in half_lives)
