"""Use in a period beside what a queue owned: what it borrowed, and how much of its guarantee was idle.

What a queue deserves is in its versions, with the time when Muster knew of it, which is when it began to count. Use
changes with each posting. So both are steps, and the integrals of their differences are exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.read.usage import HELD_UNTIL
from queues.sql.read.world import seconds_of
from queues.sql.statements import MOMENT, NUMBER, TEXT, TEXTS, moment, one_of
from queues.sql.tables import queue_versions

#: Versions of queues that are read for one answer.
MOST_VERSIONS: Final = 20_000


class OwnedAmounts(NamedTuple):
    """What a queue owns of a resource for some time: from a second on, until before another one."""

    queue: str
    since: int
    until: int
    #: None: not stated, so it goes by weight.
    deserved: int | None
    guarantee: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """Units × seconds of one queue."""

    used: int = 0
    #: Of that, while the queue stated what it deserves.
    stated: int = 0
    #: Of that, beyond what it deserved.
    borrowed: int = 0
    #: Of its guarantee, what it did not use.
    idle: int = 0


class StoredVersion(NamedTuple):
    """A queue as it was from a second on, until its next version."""

    queue: str
    since: int
    #: None: it was removed.
    document: Mapping[str, Any] | None


async def queue_history(tx: AsyncConnection, names: Sequence[str], until: int) -> list[StoredVersion] | None:
    """Versions of these queues, by queue, the oldest first. None: there are more than ``MOST_VERSIONS``."""
    columns = queue_versions.c["queue", "recorded_at", "removed", "document"]
    asked = (
        select(*columns)
        .where(one_of(queue_versions.c.queue, names), queue_versions.c.recorded_at < moment(until))
        .order_by(queue_versions.c.queue, queue_versions.c.version)
        .limit(MOST_VERSIONS + 1)
    )
    rows = (await tx.execute(asked)).all()
    if len(rows) > MOST_VERSIONS:
        return None
    return [
        StoredVersion(row.queue, seconds_of(row.recorded_at), None if row.removed else row.document)
        for row in rows
    ]


_QUOTA_USE: Final = text(
    f"""
    WITH used AS ({HELD_UNTIL}),
    counted AS (
        SELECT g.counts_as AS queue, u.units, u.until
        FROM used AS u JOIN unnest(:queues, :counts_as) AS g(queue, counts_as) ON g.queue = u.queue
        WHERE u.resource = :resource
    ),
    changes AS (
        SELECT queue, at, sum(units) AS units
        FROM (
            SELECT DISTINCT counts_as AS queue, :begins AS at, CAST(0 AS numeric) AS units
            FROM unnest(:counts_as) AS g(counts_as)
            UNION ALL SELECT queue, :begins, units FROM counted
            UNION ALL SELECT queue, until, -units FROM counted WHERE until < :ends
        ) AS every_change
        GROUP BY queue, at
    ),
    steps AS (
        SELECT queue, at, lead(at, 1, :ends) OVER by_time AS until, sum(units) OVER by_time AS used
        FROM changes WINDOW by_time AS (PARTITION BY queue ORDER BY at)
    ),
    whole AS (SELECT queue, sum(used * (until - at)) AS used FROM steps GROUP BY queue),
    compared AS (
        SELECT s.queue, coalesce(sum(s.used * o.seconds) FILTER (WHERE l.deserved IS NOT NULL), 0) AS stated,
               -- greatest() leaves out what is null: nothing counts as borrowed where nothing is stated.
               sum(greatest(s.used - l.deserved, 0) * o.seconds) AS borrowed,
               sum(greatest(l.guarantee - s.used, 0) * o.seconds) AS idle
        FROM steps AS s
        JOIN unnest(:limited, :sinces, :untils, :deserved, :guarantees)
             AS l(queue, since, until, deserved, guarantee)
             ON l.queue = s.queue AND l.since < s.until AND l.until > s.at
        CROSS JOIN LATERAL (SELECT least(s.until, l.until) - greatest(s.at, l.since) AS seconds) AS o
        GROUP BY s.queue
    )
    SELECT queue, w.used, coalesce(c.stated, 0) AS stated, coalesce(c.borrowed, 0) AS borrowed,
           coalesce(c.idle, 0) AS idle
    FROM whole AS w LEFT JOIN compared AS c USING (queue)
    """
).bindparams(
    *(bindparam(name, type_=NUMBER) for name in ("begins", "ends")),
    *(bindparam(name, type_=TEXTS) for name in ("queues", "counts_as", "limited")),
    *(bindparam(name, type_=ARRAY(NUMBER)) for name in ("sinces", "untils", "deserved", "guarantees")),
    bindparam("resource", type_=TEXT),
    bindparam("since", type_=MOMENT),
)


async def quota_use(
    tx: AsyncConnection,
    *,
    begins: int,
    ends: int,
    resource: str,
    counts_as: Mapping[str, str],
    owned: Sequence[OwnedAmounts],
) -> dict[str, QuotaUse]:
    """Use by queue. ``counts_as``: where use of each queue counts, such as in its tenant. Others are left out.

    ``begins`` must not lie before the history of postings begins.
    """
    given = {
        "begins": begins,
        "ends": ends,
        "since": moment(begins),
        "resource": resource,
        "queues": list(counts_as),
        "counts_as": list(counts_as.values()),
        "limited": [each.queue for each in owned],
        "sinces": [each.since for each in owned],
        "untils": [each.until for each in owned],
        "deserved": [each.deserved for each in owned],
        "guarantees": [each.guarantee for each in owned],
    }
    return {
        row.queue: QuotaUse(
            used=int(row.used), stated=int(row.stated), borrowed=int(row.borrowed), idle=int(row.idle)
        )
        for row in await tx.execute(_QUOTA_USE, given)
    }
