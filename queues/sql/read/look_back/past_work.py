"""The work of the last days, for simulations of it. SELECT only."""

from collections import Counter, defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, and_, case, func, null, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.recorded.past_work import PastPods, PastStay, PastWorkload
from queues.resources import Resources, is_device
from queues.sql.read.world import key_of, seconds_of
from queues.sql.statements import KEYS, key_rows, parts, same
from queues.sql.tables import admissions, closed_admissions, ended_workloads, workloads
from queues.workload import QueueName, WorkloadKey

_SHARED: Final = (
    *("id", "kind", "uid", "namespace", "name", "queue", "priority", "username"),
    *("evicted_at", "pod_sets", "shape_of", "shapes"),
)
_FACTS: Final = ("kind", "uid", "arrival", "created", "seen_at", "minimum")


def _told(table: Table) -> list[ColumnElement[Any]]:
    """The columns of an admission; ``opened_at`` of an adopted one is when it was entered in the books: until then
    another one held its place."""
    entered = func.coalesce(func.date_trunc("second", table.c.admitted_at), table.c.opened_at)
    opened = case((func.cardinality(table.c.adopted_pods) > 0, entered), else_=table.c.opened_at)
    return [*table.c[_SHARED], opened.label("opened_at")]


async def count_past_work(tx: AsyncConnection, since: datetime) -> int:
    """Workloads of which an admission ended after a time, or goes on."""
    keys = union_all(
        select(closed_admissions.c.kind, closed_admissions.c.uid).where(
            closed_admissions.c.closed_at >= since
        ),
        select(admissions.c.kind, admissions.c.uid).where(admissions.c.state != "closed"),
    ).subquery()
    return await tx.scalar(select(func.count()).select_from(select(keys).distinct().subquery())) or 0


async def past_work(tx: AsyncConnection, since: datetime) -> tuple[PastWorkload, ...]:
    """Workloads of which an admission ended after a time, or goes on, with all such admissions.

    All of them are read: ``count_past_work`` says before how many they are.
    """
    rows: defaultdict[WorkloadKey, list[Any]] = defaultdict(list)
    closed = select(*_told(closed_admissions), closed_admissions.c.closed_at.label("ended_at")).where(
        closed_admissions.c.closed_at >= since
    )
    running = select(*_told(admissions), null().label("ended_at")).where(admissions.c.state != "closed")
    for question in (closed, running):
        async for part in parts(tx, question):
            for row in part:
                rows[key_of(row.kind, row.uid)].append(row)
    facts = await _facts(tx, rows.keys(), since)
    return tuple(_workload(key, each, facts.get(key)) for key, each in sorted(rows.items()))


async def _facts(
    tx: AsyncConnection, keys: Collection[WorkloadKey], since: datetime
) -> dict[WorkloadKey, Any]:
    """What is stored of the workloads beside their admissions; of those that are long gone nothing is."""
    found: dict[WorkloadKey, Any] = {}
    gone = and_(same(ended_workloads, KEYS), ended_workloads.c.ended_at >= since)
    for question in (
        select(*ended_workloads.c[_FACTS]).select_from(ended_workloads).join(KEYS.table, gone),
        select(*workloads.c[_FACTS]).select_from(workloads).join(KEYS.table, same(workloads, KEYS)),
    ):
        for row in await tx.execute(question, KEYS.rows(key_rows(keys))):
            found[key_of(row.kind, row.uid)] = row
    return found


def _workload(key: WorkloadKey, rows: list[Any], facts: Any | None) -> PastWorkload:
    rows.sort(key=lambda row: row.id)
    first = rows[0]
    opened = min(seconds_of(row.opened_at) for row in rows)
    arrived = opened
    if facts is not None:
        arrived = seconds_of(facts.seen_at) if facts.seen_at is not None else facts.created or opened
    return PastWorkload(
        key=key,
        namespace=first.namespace,
        name=first.name,
        queue=QueueName(first.queue),
        user=first.username,
        priority=first.priority,
        arrival=0 if facts is None else facts.arrival,
        arrived=min(arrived, opened),
        minimum=0 if facts is None else facts.minimum,
        stays=tuple(sorted(_stay(row) for row in rows)),
        pods=_pods(max(rows, key=lambda row: len(row.shape_of))),
    )


def _stay(row: Any) -> PastStay:
    ended = row.evicted_at or row.ended_at
    return PastStay(
        opened=seconds_of(row.opened_at),
        ended=None if ended is None else seconds_of(ended),
        evicted=row.evicted_at is not None,
    )


def _pods(row: Any) -> tuple[PastPods, ...]:
    counts = Counter(zip(row.pod_sets, row.shape_of, strict=True))
    return tuple(
        PastPods(pod_set=pod_set, takes=_asked(row.shapes[shape]), count=count)
        for (pod_set, shape), count in sorted(counts.items())
    )


def _asked(shape: dict[str, int]) -> Resources:
    """What a pod asked for: its seat also says which devices it got parts of."""
    return Resources({name: units for name, units in shape.items() if not is_device(name)})
