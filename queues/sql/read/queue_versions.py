"""Versions of queues, as intake recorded them. SELECT only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Row, Text, case, cast, exists, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.tables import queue_versions
from queues.workload import QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedVersion:
    """A queue as it was from some time on, or its removal."""

    #: Grows with time, over all queues.
    version: int
    queue: QueueName
    #: When it was recorded, in seconds since the epoch: shortly after the change while a replica led.
    at: float
    #: The user who changed the spec last, and why; "": unknown.
    changed_by: str
    reason: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    #: Its document is larger than ``LARGEST`` bytes and was not read: the spec is empty.
    unread: bool = False
    #: Its object was deleted. The spec is the last one.
    removed: bool = False


#: Bytes of a document as JSON that is read. A queue may be as large as an object of the API server, 1.5 MiB, and an
#: answer has a hundred versions.
LARGEST: Final = 64 * 1024
_document = queue_versions.c.document
_COLUMNS = (
    *queue_versions.c["version", "queue", "recorded_at", "changed_by", "removed"],
    case((func.octet_length(cast(_document, Text)) <= LARGEST, _document)).label("document"),
)
_of, _number = queue_versions.c.queue, queue_versions.c.version


async def versions_of(
    tx: AsyncConnection, queues: Iterable[str], *, limit: int, before: int | None = None
) -> tuple[RecordedVersion, ...]:
    """Versions of some queues, the newest first: ``limit`` of them, and then of each queue among these the version that
    the oldest one followed. ``before``: only those with a smaller number; None for all."""
    wanted = select(*_COLUMNS).where(_of.in_(list(queues)))
    if before is not None:
        wanted = wanted.where(_number < before)
    page = (await tx.execute(wanted.order_by(_number.desc()).limit(limit))).all()
    if not page:
        return ()
    oldest = {row.queue: row.version for row in page}
    earlier = (
        select(func.max(_number)).where(_of.in_(oldest), _number < case(oldest, value=_of)).group_by(_of)
    )
    rest = await tx.execute(select(*_COLUMNS).where(_number.in_(earlier)).order_by(_number.desc()))
    return tuple(map(_recorded, (*page, *rest)))


async def is_recorded(tx: AsyncConnection, queue: str) -> bool:
    """Whether a queue ever had a version."""
    return bool(await tx.scalar(select(exists().where(_of == queue))))


def _recorded(row: Row[Any]) -> RecordedVersion:
    unread = row.document is None
    document = row.document if isinstance(row.document, Mapping) else {}
    spec, reason = document.get("spec"), document.get("reason")
    return RecordedVersion(
        version=row.version,
        queue=QueueName(row.queue),
        at=row.recorded_at.timestamp(),
        changed_by=row.changed_by,
        reason=reason if isinstance(reason, str) else "",
        spec=spec if isinstance(spec, Mapping) else {},
        unread=unread,
        removed=row.removed,
    )
