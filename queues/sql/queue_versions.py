"""Versions of queues: how each is now, and who changed what. Part of ``observed``, by way of ``limits``."""

from collections.abc import Sequence

from sqlalchemy import func, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.quota.queue import ROOT
from queues.sql.given import FLAG, JSON, NUMBER, TEXT, GivenWide, names
from queues.sql.records import QueueVersion
from queues.sql.tables import queue_versions, queues
from queues.workload import QueueName

_VERSIONS = GivenWide(
    name=TEXT,
    uid=TEXT,
    generation=NUMBER,
    parent=TEXT,
    document=JSON,
    changed_by=TEXT,
    paused=FLAG,
    closed=FLAG,
    problem=TEXT,
    present=FLAG,
)
_current = insert(queues).from_select(_VERSIONS.c.keys(), select(*_VERSIONS.c))
_new = [_current.excluded[column.name] for column in _VERSIONS.c if column.name != "name"]
_old = [queues.c[column.name] for column in _VERSIONS.c if column.name != "name"]
_differ = (
    _current.on_conflict_do_update(
        index_elements=[queues.c.name],
        set_={column.key: column for column in _new},
        where=tuple_(*_old).is_distinct_from(tuple_(*_new)),
    )
    .returning(queues.c.name, queues.c.uid, queues.c.generation, queues.c.changed_by, queues.c.document)
    .cte("differ")
)
_STORE_VERSIONS = insert(queue_versions).from_select(
    ["queue", "uid", "generation", "changed_by", "document"], select(*_differ.c)
)


async def store_versions(tx: AsyncConnection, changed: Sequence[QueueVersion]) -> None:
    """These queues are so from now on; versions that differ from the last are kept for ever."""
    told = [
        {
            "name": queue.name,
            "uid": queue.uid,
            "generation": queue.generation,
            "parent": None if queue.name == ROOT else queue.parent,
            "document": queue.document,
            "changed_by": queue.changed_by,
            "paused": queue.paused,
            "closed": queue.closed,
            "problem": queue.broken,
            "present": True,
        }
        for queue in changed
    ]
    if told:
        await tx.execute(_STORE_VERSIONS, _VERSIONS.rows(told))


async def store_removals(tx: AsyncConnection, gone: Sequence[QueueName]) -> None:
    """These queues are not there any more."""
    if not gone:
        return
    removed = (
        update(queues)
        .where(queues.c.name == func.any(names(gone)), queues.c.present)
        .values(present=False)
        .returning(queues.c.name, queues.c.uid, queues.c.generation, queues.c.document)
        .cte("removed")
    )
    await tx.execute(
        insert(queue_versions).from_select(
            ["queue", "uid", "generation", "document", "changed_by", "removed"],
            select(*removed.c, text("''"), text("true")),
        )
    )
