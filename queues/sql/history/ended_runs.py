"""Admissions that were closed lately, as forecasts learn run times from them."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.resources import Resources
from queues.sql.statements import parts
from queues.sql.tables import closed_admissions, ended_workloads, workloads
from queues.sql.world import seconds_of
from queues.workload import QueueName

_COLUMNS: Final = (
    *("id", "kind", "uid", "queue", "username", "opened_at", "evicted_at", "closed_at"),
    *("shape_of", "shapes"),
)


class EndedRun(NamedTuple):
    """One admission that was closed; of a gang with elastic parts, all that it got at one time."""

    #: "": unknown.
    user: str
    queue: QueueName
    #: Requests of its pods, and how many of them have each.
    pods: tuple[tuple[Resources, int], ...]
    #: From its admission to its end.
    seconds: int
    #: Its workload was evicted, and would have run longer.
    evicted: bool
    #: Of its pods' first container; "": unknown.
    image: str = ""


async def ended_runs(tx: AsyncConnection, limit: int) -> tuple[EndedRun, ...]:
    """The last ``limit`` of them by number, oldest first, without those whose pods never ran.

    The index of the numbers is read from its end: the answer takes as long however many there are.
    """
    closed = closed_admissions.c
    last = select(*closed[_COLUMNS]).where(closed.started).order_by(closed.id.desc()).limit(limit)
    runs = last.subquery("runs")
    # Its object may be there still, have been deleted, or both within a second.
    images = [
        select(table.c.image)
        .where(table.c.kind == runs.c.kind, table.c.uid == runs.c.uid)
        .limit(1)
        .scalar_subquery()
        for table in (workloads, ended_workloads)
    ]
    told = select(*runs.c[_COLUMNS], func.coalesce(*images, "").label("image")).order_by(runs.c.id.desc())
    gangs: dict[tuple[str, str, object], list[Any]] = {}
    async for part in parts(tx, told):
        for row in part:
            gangs.setdefault((row.kind, row.uid, row.opened_at), []).append(row)
    return tuple(_run(rows[::-1]) for rows in reversed(gangs.values()))


def _run(rows: Sequence[Any]) -> EndedRun:
    """``rows``: admissions that a workload got at one time, the gang first, which is evicted last."""
    gang = rows[0]
    counts = Counter[Resources]()
    for row in rows:
        for shape in sorted(row.shape_of):
            counts[Resources(row.shapes[shape])] += 1
    end = seconds_of(gang.evicted_at or gang.closed_at)
    return EndedRun(
        user=gang.username,
        queue=QueueName(gang.queue),
        pods=tuple(counts.items()),
        seconds=max(0, end - seconds_of(gang.opened_at)),
        evicted=gang.evicted_at is not None,
        image=gang.image,
    )
