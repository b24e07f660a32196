"""Admissions that were closed lately, as forecasts learn run times from them."""

from collections import Counter
from typing import Final, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.resources import Resources
from queues.sql.read.world import seconds_of
from queues.sql.statements import parts
from queues.sql.tables import closed_admissions
from queues.workload import QueueName

_COLUMNS: Final = (
    *("id", "queue", "username", "opened_at", "evicted_at", "closed_at"),
    *("shape_of", "shapes"),
)


class EndedRun(NamedTuple):
    """One admission that was closed."""

    #: "": unknown.
    user: str
    queue: QueueName
    #: Requests of its pods, and how many of them have each.
    pods: tuple[tuple[Resources, int], ...]
    #: From its admission to its end.
    seconds: int
    #: Its workload was evicted, and would have run longer.
    evicted: bool


async def ended_runs(tx: AsyncConnection, limit: int) -> tuple[EndedRun, ...]:
    """The last ``limit`` of them by number, oldest first, without those whose pods never ran.

    The index of the numbers is read from its end: the answer takes as long however many there are.
    """
    closed = closed_admissions.c
    last = select(*closed[_COLUMNS]).where(closed.started).order_by(closed.id.desc()).limit(limit)
    found: list[EndedRun] = []
    async for part in parts(tx, last):
        for row in part:
            counts = Counter(row.shape_of)
            end = seconds_of(row.evicted_at or row.closed_at)
            found.append(
                EndedRun(
                    user=row.username,
                    queue=QueueName(row.queue),
                    pods=tuple((Resources(row.shapes[shape]), counts[shape]) for shape in sorted(counts)),
                    seconds=max(0, end - seconds_of(row.opened_at)),
                    evicted=row.evicted_at is not None,
                )
            )
    return tuple(reversed(found))
