"""Turns that the leader has kept, and what the decision log says of one. SELECT only."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.recorded.logged_decisions import LoggedDecision
from queues.sql.read.world import key_or_none
from queues.sql.tables import decisions, kept_turns


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTurn:
    """A turn that was kept."""

    decided_at: datetime
    ledger_seq: int
    term: int
    configuration: str
    #: Its plan changed the ledger, so that the decision log has lines of it.
    changed: bool
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSpan:
    """The turns that there are."""

    count: int
    #: Bytes of all of them.
    size: int
    #: None: there are none.
    first: datetime | None
    last: datetime | None


async def kept_span(tx: AsyncConnection) -> KeptSpan:
    """How many turns are kept, and since when."""
    at = kept_turns.c.decided_at
    row = (
        await tx.execute(
            select(
                func.count().label("turns"),
                func.coalesce(func.sum(kept_turns.c.size), 0).label("size"),
                func.min(at).label("first"),
                func.max(at).label("last"),
            )
        )
    ).one()
    return KeptSpan(count=row.turns, size=int(row.size), first=row.first, last=row.last)


async def nearest_turn(tx: AsyncConnection, at: datetime) -> StoredTurn | None:
    """The last turn that was kept at or before a time; None: there is none."""
    columns = kept_turns.c
    found = await tx.execute(
        select(*columns["decided_at", "ledger_seq", "term", "configuration", "changed", "content"])
        .where(columns.decided_at <= at)
        .order_by(columns.decided_at.desc(), columns.id.desc())
        .limit(1)
    )
    row = found.one_or_none()
    return None if row is None else StoredTurn(**row._mapping)


async def decisions_of(tx: AsyncConnection, turn: StoredTurn) -> tuple[LoggedDecision, ...]:
    """What the decision log has of a turn."""
    rows = await tx.execute(
        select(
            *decisions.c["kind", "workload_kind", "workload_uid", "namespace", "name", "queue", "code"]
        ).where(
            decisions.c.decided_at == turn.decided_at,
            decisions.c.ledger_seq == turn.ledger_seq + 1,
            decisions.c.term == turn.term,
        )
    )
    found = []
    for row in rows:
        key = key_or_none(row.workload_kind, row.workload_uid)
        if key is not None:
            found.append(LoggedDecision(row.kind, key, row.namespace, row.name, row.queue, row.code))
    return tuple(sorted(found))


async def decisions_after(tx: AsyncConnection, turn: StoredTurn, until: datetime) -> int:
    """How many lines the decision log has of later turns, up to a time."""
    later: ColumnElement[bool] = and_(
        decisions.c.decided_at >= turn.decided_at,
        decisions.c.decided_at <= until,
        decisions.c.ledger_seq > turn.ledger_seq + 1,
    )
    return await tx.scalar(select(func.count()).where(later)) or 0
