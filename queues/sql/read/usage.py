"""Use between two times: amounts × seconds, by queue, user, flavor and workload, exact to the unit and second.

Use in a period follows from what is held now and from the postings since the period began: what was posted after its
end, or in it, is taken back for the seconds before. So no question reads partitions older than the period, however
long the history is. The plain form, which the tests compare with, adds up ± amount × (end − time of the posting) over
all postings from the first one on.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import TextClause, bindparam, func, select, text
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import TypeEngine

from queues.quota.budgets import HoursUsed
from queues.quota.queue import ROOT
from queues.read_api.bodies import WorkloadBody
from queues.read_api.usage import UsageBody
from queues.reason_codes import ReasonCode
from queues.resources import DEVICE_MARK, scale, show
from queues.sql.read.rows import KindIn, Seen
from queues.sql.statements import FLAG, MOMENT, NUMBER, TEXT, TEXTS, moment
from queues.sql.tables import (
    closed_admissions,
    history_starts,
    postings,
    queue_balances,
    queue_versions,
    queues,
)
from queues.sql.world import seconds_of
from queues.workload import NO_FLAVOR, QueueName

#: Evictions for other workloads.
PREEMPTIONS: Final = (ReasonCode.PREEMPTED, ReasonCode.RECLAIMED, ReasonCode.CLEARED)
#: Evictions because a node or device failed, or pods were lost or did not get ready.
FAULTS: Final = (
    ReasonCode.NODE_LOST,
    ReasonCode.GPU_UNHEALTHY,
    ReasonCode.NOT_READY,
    ReasonCode.TAKEN_BACK,
)
#: Evictions because nodes were drained, or kept for a reservation.
MAINTENANCE: Final = (ReasonCode.MAINTENANCE, ReasonCode.NODES_RESERVED)


class UsageColumn(StrEnum):
    """What use can be grouped by."""

    #: A child of ``root``, for all queues below it.
    TENANT = "tenant"
    QUEUE = "queue"
    USER = "user"
    WORKLOAD = "workload"
    FLAVOR = "flavor"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuestion:
    """What is asked. Times are seconds since the epoch."""

    begins: int
    ends: int
    by: frozenset[UsageColumn]
    #: None for all of them.
    resource: str | None = None
    #: Lines in the answer; the totals are of all lines.
    limit: int
    #: Key of the last line of the page before; None to begin with the first line.
    after: tuple[str, ...] | None = None

    def names_workloads(self) -> bool:
        """Whether the answer would name users or workloads."""
        return bool(self.by & {UsageColumn.USER, UsageColumn.WORKLOAD})


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQueue:
    """A queue whose use is asked for, as the user sees it."""

    queue: str
    #: "": the user may not see it.
    tenant: str
    #: The queue under which use of other users is shown; None if it is not shown.
    shown_as: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageViewer:
    """Whose question it is, and what the answer may say."""

    #: Use of this user is shown in every queue, by name.
    user: str
    #: The queues that are asked for.
    queues: tuple[UsageQueue, ...]
    #: Only use in ``queues`` counts; otherwise use of this user counts in every queue.
    is_narrowed: bool
    #: Workloads that the user may see, and with them the users that created them; None for all.
    seen: Seen | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePage:
    """A part of the lines, by key, and the totals of all lines by resource."""

    totals: tuple[UsageBody, ...]
    items: tuple[UsageBody, ...]
    #: Key of the last line of a full page; None if the page is not full.
    end: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSince:
    """Where histories begin, in seconds since the epoch: what is older was dropped. 0: nothing was."""

    #: Use is known from here on.
    postings: int = 0
    #: Workloads that have ended since are known by name, and why they were evicted.
    workloads: int = 0


_WORKLOAD: Final = ("kind", "namespace", "name", "uid")
_COLUMNS: Final[Mapping[UsageColumn, tuple[str, ...]]] = {
    UsageColumn.TENANT: ("tenant",),
    UsageColumn.QUEUE: ("queue",),
    UsageColumn.USER: ("named", "username"),
    UsageColumn.WORKLOAD: ("named", *_WORKLOAD),
    UsageColumn.FLAVOR: ("flavor",),
}
_VALUES: Final = {
    "tenant": "tenant",
    "queue": "CASE WHEN own THEN queue ELSE coalesce(shown_as, queue) END",
    "named": "CASE WHEN named THEN '1' ELSE '0' END",
    "username": "CASE WHEN named THEN username ELSE '' END",
    "kind": "CASE WHEN named THEN coalesce(kind, '') ELSE '' END",
    "namespace": "CASE WHEN named THEN coalesce(namespace, '') ELSE '' END",
    "name": "CASE WHEN named THEN coalesce(name, '') ELSE '' END",
    "uid": "CASE WHEN named THEN coalesce(uid, '') ELSE '' END",
    "flavor": "flavor",
}

#: Amounts as if each had been held from the beginning of the period: what is held now until its end, what was given
#: back until then; and what was taken since is taken off again for the time before.
HELD_UNTIL: Final = f"""
    SELECT a.id AS admission, a.queue, a.username, seat.flavor, takes.key AS resource,
           seat.seats * CAST(takes.value AS numeric) AS units, :ends AS until
    FROM admissions AS a,
         LATERAL (
             SELECT each.flavor, each.shape, count(*) AS seats
             FROM unnest(a.flavors, a.shape_of) WITH ORDINALITY AS each(flavor, shape, number)
             WHERE each.number - 1 <> ALL (a.ended)
             GROUP BY 1, 2
         ) AS seat,
         jsonb_each_text(a.shapes -> seat.shape) AS takes
    WHERE position('{DEVICE_MARK}' IN takes.key) = 0
    UNION ALL
    SELECT p.admission, substr(CASE p.debit WHEN 'pool' THEN p.credit ELSE p.debit END, length('queue/') + 1),
           p.username, line.flavor, line.resource,
           CASE p.debit WHEN 'pool' THEN 1 ELSE -1 END * CAST(line.amount AS numeric),
           least(CAST(extract(epoch FROM p.posted_at) AS bigint), :ends)
    FROM postings AS p, unnest(p.flavors, p.resources, p.amounts) AS line(flavor, resource, amount)
    WHERE p.posted_at > :since AND p.kind <> 'carry'
"""
#: Admissions of the period, by id.
_FACTS: Final = """
    SELECT id, kind, namespace, name, uid, cause_code FROM admissions {evicted}
    UNION ALL
    SELECT id, kind, namespace, name, uid, cause_code FROM closed_admissions WHERE closed_at > :since {and_evicted}
"""
_NAMED: Final = (
    "own OR :sees_all OR coalesce(f.kind = ANY(:kinds)"
    " OR (f.kind, f.namespace) IN (SELECT * FROM unnest(:kinds_there, :namespaces)), false)"
)
_PARAMETERS: Final[Mapping[str, TypeEngine[Any]]] = {
    **dict.fromkeys(("begins", "ends", "limit"), NUMBER),
    **dict.fromkeys(("viewer", "resource"), TEXT),
    **dict.fromkeys(("sees_all", "narrowed"), FLAG),
    **dict.fromkeys(
        (
            "queues",
            "tenants",
            "shown",
            "kinds",
            "kinds_there",
            "namespaces",
            "after",
            "preemptions",
            "faults",
            "maintenance",
        ),
        TEXTS,
    ),
    "since": MOMENT,
}


class _Statement(NamedTuple):
    clause: TextClause
    #: Names of its parameters.
    parameters: frozenset[str]


@lru_cache(maxsize=64)
def _statement(by: frozenset[UsageColumn], one_resource: bool, after: bool) -> _Statement:
    """One statement for the totals and a page of lines, so that both are of one state."""
    columns = _columns(by)
    names_workloads = bool(by & {UsageColumn.USER, UsageColumn.WORKLOAD})
    evicted = "" if names_workloads else "evicted_at IS NOT NULL"
    facts = _FACTS.format(
        evicted=f"WHERE {evicted}" if evicted else "", and_evicted=f"AND {evicted}" if evicted else ""
    )
    key = ", ".join(columns)
    values = "".join(f", {_VALUES[name]} AS {name}" for name in columns[1:])
    blank = "".join(f", '' AS {name}" for name in columns[1:])
    beyond = f"WHERE ARRAY[{key}] > CAST(:after AS text[])" if after else ""
    clause = f"""
        WITH used AS ({HELD_UNTIL}),
        facts AS ({facts}),
        seen AS (
            SELECT u.resource, u.flavor, u.username, u.queue,
                   u.units * (u.until - :begins) AS units, f.kind, f.namespace, f.name, f.uid,
                   f.cause_code, q.shown_as, coalesce(q.tenant, '') AS tenant, o.own,
                   {_NAMED if names_workloads else "true"} AS named
            FROM used AS u
            CROSS JOIN LATERAL (SELECT u.username = :viewer AND :viewer <> '' AS own) AS o
            LEFT JOIN unnest(:queues, :tenants, :shown) AS q(queue, tenant, shown_as) ON q.queue = u.queue
            LEFT JOIN facts AS f ON f.id = u.admission
            WHERE (o.own OR q.shown_as IS NOT NULL) AND (q.queue IS NOT NULL OR NOT :narrowed)
            {"AND u.resource = :resource" if one_resource else ""}
        ),
        lines AS MATERIALIZED (
            SELECT resource{values}, sum(units) AS units,
                   coalesce(sum(units) FILTER (WHERE cause_code = ANY(:preemptions)), 0) AS preempted,
                   coalesce(sum(units) FILTER (WHERE cause_code = ANY(:faults)), 0) AS faulted,
                   coalesce(sum(units) FILTER (WHERE cause_code = ANY(:maintenance)), 0) AS maintained
            FROM seen GROUP BY {", ".join(str(number + 1) for number in range(len(columns)))}
            HAVING sum(units) <> 0
        )
        SELECT 0 AS part, resource{blank}, sum(units) AS units, sum(preempted) AS preempted,
               sum(faulted) AS faulted, sum(maintained) AS maintained
        FROM lines GROUP BY resource
        UNION ALL
        SELECT 1, * FROM (SELECT * FROM lines {beyond} ORDER BY ARRAY[{key}] LIMIT :limit) AS page
        ORDER BY part, {key}
    """
    named = [name for name in _PARAMETERS if re.search(rf":{name}\b", clause)]
    typed = (bindparam(name, type_=_PARAMETERS[name]) for name in named)
    return _Statement(text(clause).bindparams(*typed), frozenset(named))


def _columns(by: Iterable[UsageColumn]) -> tuple[str, ...]:
    """The columns that are the key of a line, in its order."""
    asked = set(by)
    found = [name for column in UsageColumn if column in asked for name in _COLUMNS[column]]
    return ("resource", *dict.fromkeys(found))


def key_length(by: Iterable[UsageColumn]) -> int:
    """Parts of the key of a line."""
    return len(_columns(by))


async def usage(tx: AsyncConnection, question: UsageQuestion, viewer: UsageViewer) -> UsagePage:
    """A page of lines. ``question.begins`` must not lie before the history of postings begins."""
    statement = _statement(question.by, question.resource is not None, question.after is not None)
    given = _parameters(question, viewer)
    rows = (await tx.execute(statement.clause, {name: given[name] for name in statement.parameters})).all()
    columns = _columns(question.by)
    lines = [row for row in rows if row.part == 1]
    return UsagePage(
        totals=tuple(_body(row, ("resource",)) for row in rows if row.part == 0),
        items=tuple(_body(row, columns) for row in lines),
        end=_key(lines[-1], columns) if lines and len(lines) == question.limit else None,
    )


def _parameters(question: UsageQuestion, viewer: UsageViewer) -> dict[str, object]:
    seen = viewer.seen or {}
    there = [(kind, name) for kind, names in seen.items() if names is not None for name in names]
    return {
        "begins": question.begins,
        "ends": max(question.begins, question.ends),
        "since": moment(question.begins),
        "limit": question.limit,
        "viewer": viewer.user,
        "narrowed": viewer.is_narrowed,
        "sees_all": viewer.seen is None,
        "queues": [each.queue for each in viewer.queues],
        "tenants": [each.tenant for each in viewer.queues],
        "shown": [each.shown_as for each in viewer.queues],
        "kinds": [kind for kind, names in seen.items() if names is None],
        "kinds_there": [kind for kind, _ in there],
        "namespaces": [name for _, name in there],
        "resource": question.resource,
        "after": list(question.after or ()),
        "preemptions": list(PREEMPTIONS),
        "faults": list(FAULTS),
        "maintenance": list(MAINTENANCE),
    }


def _key(row: Any, columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(getattr(row, name)) for name in columns)


def _body(row: Any, columns: tuple[str, ...]) -> UsageBody:
    """A line with the columns that were asked for. What may not be named has neither user nor workload."""
    found = dict(zip(columns, _key(row, columns), strict=True))
    resource, is_named = found["resource"], found.get("named", "1") == "1"
    workload = WorkloadBody(**{name: found[name] for name in _WORKLOAD}) if found.get("kind") else None
    return UsageBody(
        resource=resource,
        tenant=found.get("tenant"),
        queue=found.get("queue"),
        user=found.get("username") if is_named else None,
        workload=workload,
        flavor=found.get("flavor"),
        others=not is_named,
        amount_seconds=show(resource, int(row.units)),
        # Of one GPU, CPU or byte, to six digits after the point.
        hours=round(int(row.units) / (scale(resource) * 3600), 6),
        preempted_seconds=show(resource, int(row.preempted)),
        faulted_seconds=show(resource, int(row.faulted)),
        maintenance_seconds=show(resource, int(row.maintained)),
    )


async def usage_history(tx: AsyncConnection) -> KnownSince:
    """From when on use is known."""
    rows = await tx.execute(select(*history_starts.c["history", "begins_at"]))
    # Postings are of whole seconds: the first one that was kept may be of the second that has begun already.
    starts = {row.history: seconds_of(row.begins_at) + bool(row.begins_at.microsecond) for row in rows}
    return KnownSince(postings=starts.get(postings.name, 0), workloads=starts.get(closed_admissions.name, 0))


async def queue_parents(tx: AsyncConnection) -> dict[str, str | None]:
    """The parent of every queue that is there, and of those that were, as last written; None for ``root``."""
    parents = {row.name: row.parent for row in await tx.execute(select(*queues.c["name", "parent"]))}
    stated = queue_versions.c.document["spec"]["parent"].astext
    last = (
        select(queue_versions.c.queue, stated)
        .ext(distinct_on(queue_versions.c.queue))
        .where(queue_versions.c.queue.not_in(select(queues.c.name)))
        .order_by(queue_versions.c.queue, queue_versions.c.version.desc())
    )
    for name, parent in await tx.execute(last):
        parents[name] = None if name == ROOT else parent or ROOT
    return parents


_COUNTED: Final = func.any(bindparam("resources", type_=TEXTS))
_OWN: Final = select(*queue_balances.c["queue", "resource", "own"]).where(
    queue_balances.c.flavor == NO_FLAVOR, queue_balances.c.resource == _COUNTED, queue_balances.c.own != 0
)
#: Amounts that were taken in a period, times the seconds of it that had gone by then; negative: given back.
_TAKEN_IN: Final = text("""
    SELECT substr(CASE p.debit WHEN 'pool' THEN p.credit ELSE p.debit END, length('queue/') + 1) AS queue,
           line.resource,
           sum(CASE p.debit WHEN 'pool' THEN -1 ELSE 1 END * CAST(line.amount AS numeric)
               * (CAST(extract(epoch FROM p.posted_at) AS bigint) - :begins)) AS units
    FROM postings AS p, unnest(p.flavors, p.resources, p.amounts) AS line(flavor, resource, amount)
    WHERE p.posted_at > :since AND p.posted_at <= :until AND p.kind <> 'carry' AND line.resource = ANY(:resources)
    GROUP BY 1, 2
""").bindparams(
    bindparam("begins", type_=NUMBER),
    bindparam("since", type_=MOMENT),
    bindparam("until", type_=MOMENT),
    bindparam("resources", type_=TEXTS),
)
#: Seconds of postings that one statement adds up.
_STEP: Final = 86_400


async def hours_used(
    tx: AsyncConnection, begins: int, now: int, resources: Collection[str]
) -> dict[QueueName, dict[str, HoursUsed]]:
    """What each queue itself used of these resources since a period began, exact to the second.

    Where the history of postings begins later, use is known from there on. ``tx`` is one snapshot of the database.
    """
    begins = max(begins, (await usage_history(tx)).postings)
    found: defaultdict[QueueName, dict[str, HoursUsed]] = defaultdict(dict)
    asked = {"resources": sorted(resources)}
    for queue, resource, own in await tx.execute(_OWN, asked):
        found[QueueName(queue)][resource] = HoursUsed(own * (now - begins), own, now)
    # A step at a time, so that no statement takes long. What the clock of a leader before was ahead is in the last one.
    ends = max(now, begins) + _STEP
    for since in range(begins, ends, _STEP):
        step = {"begins": begins, "since": moment(since), "until": moment(since + _STEP)}
        for queue, resource, units in await tx.execute(_TAKEN_IN, asked | step):
            before = found[QueueName(queue)].get(resource, HoursUsed(0, 0, now))
            found[QueueName(queue)][resource] = before._replace(used=before.used - int(units))
    return dict(found)


_USED_KINDS: Final = text(
    "SELECT kind, namespace FROM admissions"
    " UNION SELECT kind, namespace FROM closed_admissions WHERE closed_at > :since ORDER BY 2, 1 LIMIT :limit"
).bindparams(bindparam("since", type_=MOMENT), bindparam("limit", type_=NUMBER))


async def used_kinds_in_namespaces(tx: AsyncConnection, since: int, limit: int) -> tuple[KindIn, ...]:
    """Kinds of workloads that held something at a second or since, by namespace; at most ``limit``."""
    return tuple(
        KindIn(*row) for row in await tx.execute(_USED_KINDS, {"since": moment(since), "limit": limit})
    )
