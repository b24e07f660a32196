"""Turns that could not be decided, of all replicas: the last few, so that they outlive the pods.

Each replica may store its own, whether it leads or not: none of them changes the ledger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.statements import moment
from queues.sql.tables import failed_turns

#: How many are kept, and how long: they name the work of that time.
MOST: Final = 5
KEPT_FOR: Final = timedelta(days=90)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTurn:
    """A turn that is stored, without its content."""

    name: str
    kept_at: datetime
    #: Name of the replica that failed on it.
    replica: str
    #: Bytes of the content.
    size: int


async def store(tx: AsyncConnection, name: str, replica: str, content: bytes, now: int) -> None:
    """Store a turn unless there is one of that name, and drop those that are too many or too old.

    ``now``: seconds since the epoch.
    """
    row = {"name": name, "kept_at": moment(now), "replica": replica, "size": len(content), "content": content}
    await tx.execute(insert(failed_turns).values(row).on_conflict_do_nothing())
    newest = select(failed_turns.c.name).order_by(failed_turns.c.kept_at.desc(), failed_turns.c.name.desc())
    await tx.execute(delete(failed_turns).where(failed_turns.c.name.not_in(newest.limit(MOST))))
    await drop_old(tx, now)


async def drop_old(tx: AsyncConnection, now: int) -> None:
    """Drop turns that were kept for long enough. ``now``: seconds since the epoch."""
    await tx.execute(delete(failed_turns).where(failed_turns.c.kept_at < moment(now) - KEPT_FOR))


async def stored(tx: AsyncConnection) -> Sequence[FailedTurn]:
    """Those that are stored, the newest first."""
    columns = failed_turns.c["name", "kept_at", "replica", "size"]
    rows = await tx.execute(
        select(*columns).order_by(failed_turns.c.kept_at.desc(), failed_turns.c.name.desc())
    )
    return [FailedTurn(**row._mapping) for row in rows]


async def content_of(tx: AsyncConnection, name: str) -> bytes | None:
    """The compressed turn; None: there is none of that name."""
    content = await tx.scalar(select(failed_turns.c.content).where(failed_turns.c.name == name))
    return None if content is None else bytes(content)
