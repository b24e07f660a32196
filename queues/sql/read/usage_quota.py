"""Use in a period next to what a queue owned: what it borrowed, and how much of its guarantee was idle.

What a queue deserves is in its versions, with the time when Muster knew of it, which is when it began to count. Use
changes with each posting. So both are steps, and the integrals of their differences are exact.

A guarantee is for a queue with all below it. Upwards a queue counts as the larger of its guarantee and of what counts
in it, as in the quota tree. So what is kept idle is added up level by level from the lowest queues on, and nothing that
is kept for a queue is counted again for those above it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import TextClause, bindparam, exists, select, text
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
    #: None if not stated, so that it goes by weight.
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
    #: Of its guarantee, what neither it nor a queue below it used or keeps by a guarantee of its own.
    idle: int = 0


class QuotaQueue(NamedTuple):
    """A queue whose use is compared with what it owned."""

    queue: str
    #: The queue above it among those that are given; "": none of them.
    above: str
    #: How many of those that are given are above it.
    level: int
    #: The queue that its use counts in, such as its tenant; "": it is not shown.
    counts_as: str
    #: The same for what it keeps idle.
    idle_in: str


class StoredVersion(NamedTuple):
    """A queue as it was from a second on, until its next version."""

    queue: str
    since: int
    #: None if it was removed.
    document: Mapping[str, Any] | None


async def has_loans(tx: AsyncConnection, until: int) -> bool:
    """Whether a version of a queue before a second states loans."""
    states = queue_versions.c.document["spec"].has_key("loans")
    return bool(await tx.scalar(select(exists().where(states, queue_versions.c.recorded_at < moment(until)))))


async def queue_history(tx: AsyncConnection, names: Sequence[str], until: int) -> list[StoredVersion] | None:
    """Versions of these queues, by queue, the oldest first. None if there are more than ``MOST_VERSIONS``."""
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


_USE_AND_BORROWED: Final = f"""
    WITH used AS ({HELD_UNTIL}),
    tree AS MATERIALIZED (
        SELECT * FROM unnest(:queues, :above, :levels, :counts_as, :idle_in)
             AS g(queue, above, level, counts_as, idle_in)
    ),
    limits AS MATERIALIZED (
        SELECT * FROM unnest(:limited, :sinces, :untils, :deserved, :guarantees)
             AS l(queue, since, until, deserved, guarantee)
    ),
    held AS MATERIALIZED (
        SELECT queue, units, until FROM used WHERE resource = :resource
    ),
    counted AS (
        SELECT g.counts_as AS queue, h.units, h.until FROM held AS h JOIN tree AS g USING (queue)
        WHERE g.counts_as <> ''
    ),
    changes AS (
        SELECT queue, at, sum(units) AS units
        FROM (
            SELECT DISTINCT counts_as AS queue, :begins AS at, CAST(0 AS numeric) AS units
            FROM tree WHERE counts_as <> ''
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
               sum(greatest(s.used - l.deserved, 0) * o.seconds) AS borrowed
        FROM steps AS s
        JOIN limits AS l ON l.queue = s.queue AND l.since < s.until AND l.until > s.at
        CROSS JOIN LATERAL (SELECT least(s.until, l.until) - greatest(s.at, l.since) AS seconds) AS o
        GROUP BY s.queue
    ),
    own AS MATERIALIZED (
        SELECT queue, at, units, CAST(0 AS numeric) AS kept
        FROM (
            SELECT queue, :begins AS at, units FROM held JOIN tree USING (queue) WHERE level >= 0
            UNION ALL
            SELECT queue, until, -units FROM held JOIN tree USING (queue) WHERE level >= 0 AND until < :ends
        ) AS taken
        UNION ALL
        SELECT queue, greatest(since, :begins), 0, guarantee FROM limits
        WHERE guarantee > 0 AND since < :ends AND until > :begins
        UNION ALL
        SELECT queue, until, 0, -guarantee FROM limits WHERE guarantee > 0 AND until > :begins AND until < :ends
    ),
"""
#: What counts in the queues of one level, besides their guarantees: their own use, and what those below count as.
_LEVEL: Final = """
    level_{level} AS MATERIALIZED (
        SELECT queue, idle_in, above, at, lead(at, 1, :ends) OVER by_time AS until,
               sum(units) OVER by_time AS used, sum(kept) OVER by_time AS guarantee
        FROM (
            SELECT queue, at, sum(units) AS units, sum(kept) AS kept
            FROM (SELECT * FROM own {and_below}) AS each GROUP BY queue, at
        ) AS change JOIN tree USING (queue)
        WHERE level = {level}
        WINDOW by_time AS (PARTITION BY queue ORDER BY at)
    ),
"""
_BELOW: Final = """
    UNION ALL
    SELECT above, at,
           greatest(used, guarantee) - lag(greatest(used, guarantee), 1, 0) OVER (PARTITION BY queue ORDER BY at), 0
    FROM level_{below}
"""
_ANSWER: Final = """
    idle AS (
        SELECT idle_in AS queue, sum(greatest(guarantee - used, 0) * (until - at)) AS idle
        FROM ({levels}) AS every_level WHERE idle_in <> '' GROUP BY idle_in
    )
    SELECT queue, w.used, coalesce(c.stated, 0) AS stated, coalesce(c.borrowed, 0) AS borrowed,
           coalesce(i.idle, 0) AS idle
    FROM whole AS w LEFT JOIN compared AS c USING (queue) LEFT JOIN idle AS i USING (queue)
"""


@lru_cache(maxsize=32)
def _quota_use(levels: int) -> TextClause:
    """The statement for a tree of so many levels."""
    parts = [_USE_AND_BORROWED]
    for level in reversed(range(levels)):
        and_below = "" if level == levels - 1 else _BELOW.format(below=level + 1)
        parts.append(_LEVEL.format(level=level, and_below=and_below))
    nothing = "SELECT idle_in, 0 AS at, 0 AS until, 0 AS used, 0 AS guarantee FROM tree WHERE false"
    every = " UNION ALL ".join(
        (
            nothing,
            *(f"SELECT idle_in, at, until, used, guarantee FROM level_{level}" for level in range(levels)),
        )
    )
    parts.append(_ANSWER.format(levels=every))
    return text("".join(parts)).bindparams(
        *(bindparam(name, type_=NUMBER) for name in ("begins", "ends")),
        *(bindparam(name, type_=TEXTS) for name in ("queues", "above", "counts_as", "idle_in", "limited")),
        *(
            bindparam(name, type_=ARRAY(NUMBER))
            for name in ("levels", "sinces", "untils", "deserved", "guarantees")
        ),
        bindparam("resource", type_=TEXT),
        bindparam("since", type_=MOMENT),
    )


async def quota_use(
    tx: AsyncConnection,
    *,
    begins: int,
    ends: int,
    resource: str,
    queues: Sequence[QuotaQueue],
    owned: Sequence[OwnedAmounts],
) -> dict[str, QuotaUse]:
    """Use of the queues that something of these counts in.

    ``queues``: with every queue below each of them. ``owned``: of each queue at most one at a time. ``begins`` must not
    lie before the history of postings begins.
    """
    guaranteed = _at_or_below_guarantees(queues, owned)
    statement = _quota_use(1 + max((each.level for each in queues if each.queue in guaranteed), default=-1))
    given = {
        "begins": begins,
        "ends": ends,
        "since": moment(begins),
        "resource": resource,
        "queues": [each.queue for each in queues],
        "above": [each.above for each in queues],
        "levels": [each.level if each.queue in guaranteed else -1 for each in queues],
        "counts_as": [each.counts_as for each in queues],
        "idle_in": [each.idle_in for each in queues],
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
        for row in await tx.execute(statement, given)
    }


def _at_or_below_guarantees(queues: Sequence[QuotaQueue], owned: Sequence[OwnedAmounts]) -> set[str]:
    """The queues that have a guarantee, and those below them: nothing of the others is kept, so nothing is idle."""
    found = {each.queue for each in owned if each.guarantee > 0}
    for each in sorted(queues, key=lambda one: one.level):
        if each.above in found:
            found.add(each.queue)
    return found
