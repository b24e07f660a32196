"""Use and waits over time: what each queue held in each slot of a period, and how long workloads waited to start.

Use is exact: an amount that was held for a part of a slot counts for that part. Like ``queues.sql.read.usage`` it
follows from what is held now and from the postings since the period began.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.read.usage import HELD_UNTIL
from queues.sql.statements import MOMENT, NUMBER, TEXT, TEXTS, moment


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlots:
    """A period in slots of equal length; the last one may be shorter. Times are seconds since the epoch."""

    begins: int
    ends: int
    #: Seconds.
    step: int

    def starts(self) -> tuple[int, ...]:
        """When each slot begins."""
        return tuple(range(self.begins, self.ends, self.step))

    def length(self, index: int) -> int:
        """Seconds of a slot."""
        return min(self.step, self.ends - self.begins - index * self.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long workloads waited that got their first seats in a slot, in seconds."""

    count: int
    median: int
    #: Nine of ten waited no longer.
    most: int


#: Amounts as if each had been held from the beginning of the period until some second, by the slot of that second.
_USE: Final = text(
    f"""
    WITH used AS ({HELD_UNTIL})
    SELECT q.series, (u.until - :begins) / :step AS slot, sum(u.units) AS units,
           sum(u.units * ((u.until - :begins) % :step)) AS within
    FROM used AS u
    JOIN unnest(:queues, :series) AS q(queue, series) ON q.queue = u.queue
    WHERE u.resource = :resource
    GROUP BY 1, 2
    """
)
#: Pods that ran before Muster admitted them did not wait for it.
_WAITS: Final = text(
    """
    WITH opened AS (
        SELECT kind, uid, queue, opened_at FROM admissions WHERE adopted_pods = '{}'
        UNION ALL
        SELECT kind, uid, queue, opened_at FROM closed_admissions
        WHERE closed_at > :since AND adopted_pods = '{}'
    ),
    firsts AS (
        SELECT DISTINCT ON (kind, uid) kind, uid, queue, opened_at FROM opened ORDER BY kind, uid, opened_at
    ),
    created AS (
        SELECT kind, uid, created FROM workloads WHERE created > 0
        UNION
        SELECT kind, uid, created FROM ended_workloads WHERE ended_at > :since AND created > 0
    ),
    waited AS (
        SELECT q.series, (CAST(floor(extract(epoch FROM f.opened_at)) AS bigint) - :begins) / :step AS slot,
               greatest(0, CAST(floor(extract(epoch FROM f.opened_at)) AS bigint) - c.created) AS seconds
        FROM firsts AS f
        JOIN created AS c USING (kind, uid)
        JOIN unnest(:queues, :series) AS q(queue, series) ON q.queue = f.queue
        WHERE f.opened_at >= :since AND f.opened_at < :until
    )
    SELECT series, slot, count(*) AS started,
           percentile_disc(0.5) WITHIN GROUP (ORDER BY seconds) AS median,
           percentile_disc(0.9) WITHIN GROUP (ORDER BY seconds) AS most
    FROM waited GROUP BY GROUPING SETS ((series, slot), (slot))
    """
)
_USE_STATEMENT: Final = _USE.bindparams(
    *(bindparam(name, type_=NUMBER) for name in ("begins", "ends", "step")),
    *(bindparam(name, type_=TEXTS) for name in ("queues", "series")),
    bindparam("resource", type_=TEXT),
    bindparam("since", type_=MOMENT),
)
_WAITS_STATEMENT: Final = _WAITS.bindparams(
    *(bindparam(name, type_=NUMBER) for name in ("begins", "step")),
    *(bindparam(name, type_=TEXTS) for name in ("queues", "series")),
    *(bindparam(name, type_=MOMENT) for name in ("since", "until")),
)


async def use_over_time(
    tx: AsyncConnection, slots: TimeSlots, resource: str, series_of: Mapping[str, str]
) -> dict[str, tuple[int, ...]]:
    """Units × seconds of a resource in each slot, by series. ``series_of``: the series that each queue counts in."""
    given = {
        "begins": slots.begins,
        "ends": slots.ends,
        "step": slots.step,
        "since": moment(slots.begins),
        "resource": resource,
        **_queues(series_of),
    }
    by_series: dict[str, dict[int, Any]] = {}
    for row in await tx.execute(_USE_STATEMENT, given):
        by_series.setdefault(row.series, {})[int(row.slot)] = row
    return {series: _sums(slots, rows) for series, rows in by_series.items()}


def _sums(slots: TimeSlots, rows: Mapping[int, Any]) -> tuple[int, ...]:
    """Units × seconds of each slot: what was held until within it, and what was held until later than it."""
    count = len(slots.starts())
    # What was held until the very end of the period counts in the whole last slot.
    later = sum(int(row.units) for slot, row in rows.items() if slot >= count)
    sums: list[int] = []
    for index in reversed(range(count)):
        row = rows.get(index)
        sums.append(later * slots.length(index) + (0 if row is None else int(row.within)))
        later += 0 if row is None else int(row.units)
    return tuple(reversed(sums))


async def waits_over_time(
    tx: AsyncConnection, slots: TimeSlots, series_of: Mapping[str, str]
) -> dict[str | None, dict[int, Waits]]:
    """Waits by series and slot; under None those of all series together. Slots without any are left out."""
    given = {
        "begins": slots.begins,
        "step": slots.step,
        "since": moment(slots.begins),
        "until": moment(slots.ends),
        **_queues(series_of),
    }
    found: dict[str | None, dict[int, Waits]] = {}
    for row in await tx.execute(_WAITS_STATEMENT, given):
        waits = Waits(count=int(row.started), median=int(row.median), most=int(row.most))
        found.setdefault(row.series, {})[int(row.slot)] = waits
    return found


def _queues(series_of: Mapping[str, str]) -> dict[str, Sequence[str]]:
    return {"queues": list(series_of), "series": list(series_of.values())}
