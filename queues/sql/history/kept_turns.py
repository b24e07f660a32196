"""Turns of the last day that the leader keeps: those of the last hour close together, older ones thinned out.

What is kept is bounded in number and in bytes; where a bound is reached, the oldest go first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.leadership import Term, check_term
from queues.sql.statements import moment
from queues.sql.tables import kept_turns

#: How far apart turns are that are kept: as they come for the first hour, then these.
CLOSE_FOR: Final = timedelta(hours=1)
APART: Final = timedelta(minutes=10)
#: Older ones go.
KEPT_FOR: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBounds:
    """How much may be kept."""

    #: Bytes of all turns together; 0: none is kept.
    most_bytes: int = 64 * 2**20
    #: Turns.
    most: int = 240
    #: Seconds between two of them.
    every: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTurn:
    """A turn to keep."""

    #: Seconds since the epoch.
    decided_at: int
    ledger_seq: int
    configuration: str
    changed: bool
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTurn:
    """A turn that is kept, without its content."""

    number: int
    decided_at: datetime
    size: int


async def store(tx: AsyncConnection, term: Term, turn: NewTurn, bounds: TurnBounds, now: int) -> None:
    """Keep a turn, and drop those that have become superfluous. ``now``: seconds since the epoch. Raises Fenced.

    The term is checked last: writers of the ledger wait for the commit, not for the bytes.
    """
    await tx.execute(
        insert(kept_turns).values(
            decided_at=moment(turn.decided_at),
            ledger_seq=turn.ledger_seq,
            term=term.number,
            configuration=turn.configuration,
            changed=turn.changed,
            size=len(turn.content),
            content=turn.content,
        )
    )
    rows = await tx.execute(
        select(*kept_turns.c["id", "decided_at", "size"]).order_by(
            kept_turns.c.decided_at.desc(), kept_turns.c.id.desc()
        )
    )
    kept = [KeptTurn(number=row.id, decided_at=row.decided_at, size=row.size) for row in rows]
    gone = superfluous(kept, datetime.fromtimestamp(now, UTC), bounds)
    if gone:
        await tx.execute(delete(kept_turns).where(kept_turns.c.id.in_(gone)))
    await check_term(tx, term)


def superfluous(kept: Sequence[KeptTurn], now: datetime, bounds: TurnBounds) -> list[int]:
    """Numbers of the turns to drop. ``kept``: the newest first.

    Of several turns in one span of ten minutes of the day the last one stays once they are an hour old: which one it
    is does not change as time passes.
    """
    gone: list[int] = []
    spans: set[int] = set()
    count = size = 0
    for turn in kept:
        age = now - turn.decided_at
        if age > CLOSE_FOR:
            span = int(turn.decided_at.timestamp() // APART.total_seconds())
            if age > KEPT_FOR or span in spans:
                gone.append(turn.number)
                continue
            spans.add(span)
        count += 1
        size += turn.size
        if count > bounds.most or size > bounds.most_bytes:
            gone.append(turn.number)
    return gone
