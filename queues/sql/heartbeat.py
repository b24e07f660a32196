"""The leader's heartbeat: a row that shows every replica how old the stored state of the cluster is.

All times are the database's ``clock_timestamp()``, so that the clocks of replicas do not matter.
"""

from dataclasses import dataclass

from sqlalchemy import Interval, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.leadership import CONTROLLER, Term
from queues.sql.tables import heartbeats

#: A lost heartbeat costs nothing, so it need not wait for the disk.
_UNFLUSHED = text("SET LOCAL synchronous_commit = off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The last heartbeat of a leader, as of the moment it is read."""

    holder: str
    term: int
    #: Seconds since the cluster was as the tables say.
    age: float
    #: Why that is some time ago, as a sentence; "": nothing was behind when the heartbeat was written.
    behind: str
    #: Where the holder's read API is: https://host:port; "": not known.
    address: str


async def beat(tx: AsyncConnection, term: Term, *, seconds: float, behind: str, address: str) -> None:
    """Store that the tables show how the cluster was ``seconds`` ago. A later term's heartbeat is left alone."""
    await tx.execute(_UNFLUSHED)
    current = func.clock_timestamp() - func.make_interval(0, 0, 0, 0, 0, 0, seconds, type_=Interval)
    told = {
        "holder": term.holder,
        "term": term.number,
        "current_at": current,
        "behind": behind,
        "address": address,
    }
    await tx.execute(
        insert(heartbeats)
        .values(lease=term.lease, **told)
        .on_conflict_do_update(
            index_elements=[heartbeats.c.lease], set_=told, where=heartbeats.c.term <= term.number
        )
    )


async def last_heartbeat(tx: AsyncConnection, *, lease: str = CONTROLLER) -> Heartbeat | None:
    """The last heartbeat of any leader; None if no replica has ever led."""
    age = func.extract("epoch", func.clock_timestamp() - heartbeats.c.current_at)
    columns = heartbeats.c["holder", "term", "behind", "address"]
    row = (await tx.execute(select(*columns, age.label("age")).where(heartbeats.c.lease == lease))).first()
    if row is None:
        return None
    return Heartbeat(
        holder=row.holder,
        term=row.term,
        age=max(0.0, float(row.age)),
        behind=row.behind,
        address=row.address,
    )
