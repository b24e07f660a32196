"""Answers for users: queues, waiting workloads, explanations. SELECT only, so that any replica can answer."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    Table,
    and_,
    any_,
    bindparam,
    cast,
    exists,
    func,
    null,
    or_,
    select,
    text,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import Admission, AdmissionState, LastEviction
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.resources import is_device
from queues.sql.read.last_evictions import last_evictions
from queues.sql.read.listed import gone_named
from queues.sql.read.pending import WAITS, pending_line, workload_lines
from queues.sql.read.rows import (
    AccountLine,
    AdmissionTimes,
    DecisionLine,
    Eviction,
    ExplanationRows,
    ListedLine,
    OutcomeCount,
    PendingLine,
    QueueLine,
    StoredReason,
)
from queues.sql.read.world import key_or_none, read_admissions, read_closed, seconds_of
from queues.sql.statements import MOMENT, NUMBER, attributes, moment, newest_first, same
from queues.sql.tables import (
    admissions,
    capacity,
    closed_admissions,
    decisions,
    ended_workloads,
    history_starts,
    queue_balances,
    queue_limits,
    queues,
    reasons,
    workloads,
)
from queues.workload import AdmissionId, QueueName, Result, WorkloadKey

__all__ = [
    "AccountLine",
    "DecisionLine",
    "Eviction",
    "ExplanationRows",
    "PendingLine",
    "QueueLine",
    "StoredReason",
    "explain",
    "queue_overview",
]


#: Decisions about one workload that are shown: the last ones.
HISTORY = 200
#: The same of its closed admissions.
CLOSED = 50
#: Columns of a queue that are shown as they are.
_SHOWN = ("name", "parent", "paused", "closed", "broken", "changed_by", "document", "present")


async def queue_overview(tx: AsyncConnection) -> tuple[QueueLine, ...]:
    """All queues with limits and use, by name; removed ones among them as long as something of them is held."""
    accounts = await _account_lines(tx)
    waiting = await _count(
        tx, select(workloads.c.queue, func.count()).outerjoin(reasons, same(reasons, workloads)).where(WAITS)
    )
    admitted = await _count(
        tx,
        select(
            admissions.c.queue, func.count(func.distinct(func.concat(admissions.c.kind, admissions.c.uid)))
        ),
    )
    held = exists().where(queue_balances.c.queue == queues.c.name, queue_balances.c.used != 0)
    shown = or_(queues.c.present, held)
    rows = await tx.execute(select(*queues.c[_SHOWN]).where(shown).order_by(queues.c.name))
    return tuple(
        QueueLine(
            **attributes(row, *_SHOWN),
            accounts=tuple(accounts.get(row.name, ())),
            pending=waiting.get(row.name, 0),
            admitted=admitted.get(row.name, 0),
        )
        for row in rows
    )


async def _account_lines(tx: AsyncConnection) -> dict[QueueName, list[AccountLine]]:
    balance, limit = queue_balances.c, queue_limits.c
    account_columns = ("queue", "flavor", "resource")
    offered = {
        Account(flavor, resource): units
        for flavor, resource, units in await tx.execute(select(*capacity.c["flavor", "resource", "amount"]))
        if not is_device(resource)
    }
    lines: dict[QueueName, list[AccountLine]] = {}
    listed: set[Account] = set()
    for row in await tx.execute(
        select(
            *(func.coalesce(balance[name], limit[name]).label(name) for name in account_columns),
            *limit["keeps", "deserved", "ceiling"],
            *balance["used", "counted"],
        )
        .select_from(
            queue_balances.outerjoin(
                queue_limits, same(queue_balances, queue_limits, *account_columns), full=True
            )
        )
        .order_by(*account_columns)
    ):
        account = Account(row.flavor, row.resource)
        ceiling = row.ceiling
        if row.queue == ROOT:
            listed.add(account)
            units = offered.get(account, 0)
            ceiling = units if ceiling is None else min(units, ceiling)
        lines.setdefault(row.queue, []).append(
            AccountLine(
                flavor=row.flavor,
                resource=row.resource,
                guarantee=row.keeps or 0,
                deserved=row.deserved,
                capability=ceiling,
                used=row.used or 0,
                counted=row.counted or 0,
            )
        )
    unused = [
        AccountLine(flavor=account.flavor, resource=account.resource, capability=offered[account])
        for account in sorted(offered.keys() - listed)
    ]
    lines.setdefault(ROOT, []).extend(unused)
    return lines


async def _count(tx: AsyncConnection, counting: Select[Any]) -> dict[QueueName, int]:
    queue = counting.selected_columns[0]
    return {row[0]: row[1] for row in await tx.execute(counting.group_by(queue))}


_ENDED = workloads.c["username", "result", "finished_at"]


async def explain(
    tx: AsyncConnection, namespace: str, name: str, kind: str | None = None, *, now: int
) -> tuple[ExplanationRows, ...]:
    """All about the workloads of that name (several kinds may share it); empty: there is none, and never was.

    Of a kind that has none of that name now: about the last one. ``now``: seconds since the epoch.
    """
    named = (
        workload_lines()
        .add_columns(*_ENDED)
        .where(workloads.c.namespace == namespace, workloads.c.name == name)
    )
    if kind is not None:
        named = named.where(workloads.c.kind == kind)
    rows = (await tx.execute(named.order_by(workloads.c.arrival))).all()
    gone = await last_evictions(tx, and_(workloads.c.namespace == namespace, workloads.c.name == name))
    there = [await _explanation(tx, row, gone, now) for row in rows]
    kinds = {one.workload.key.kind for one in there}
    lines = [
        line for line in await gone_named(tx, namespace, name, kind) if line.workload.key.kind not in kinds
    ]
    return (*there, *[await _story(tx, line, now) for line in lines])


async def _explanation(
    tx: AsyncConnection, row: Row[Any], gone: Mapping[WorkloadKey, LastEviction], now: int
) -> ExplanationRows:
    """Of a workload with an object."""
    mine = and_(admissions.c.kind == row.kind, admissions.c.uid == row.uid)
    held, evictions = await read_admissions(tx, mine)
    state = _state(row, held)
    line = ListedLine(
        workload=pending_line(row, gone),
        state=state,
        user=row.username,
        result=Result(row.result),
        ended=row.finished_at if state == "finished" else 0,
    )
    story = await _story(tx, line, now, held)
    return replace(
        story, evictions={**story.evictions, **evictions}, **attributes(row, "not_before", "rollbacks")
    )


async def _story(
    tx: AsyncConnection, line: ListedLine, now: int, held: tuple[Admission, ...] = ()
) -> ExplanationRows:
    """What happened to a workload, whether its object is there or not. ``held``: its admissions that are not closed."""
    key = line.workload.key
    closed, evictions = await read_closed(tx, key, CLOSED)
    ids = [each.id for each in (*closed, *held)]
    return ExplanationRows(
        workload=line.workload,
        state=line.state,
        not_before=0,
        rollbacks=0,
        admissions=(*closed, *held),
        evictions=evictions,
        history=await _history(tx, key.kind, key.uid),
        history_begins=await _history_begins(tx),
        seen=await _seen_at(tx, key),
        times=await _admission_times(tx, ids),
        device_seconds=await _device_seconds(tx, ids, now),
        outcomes=await _outcomes(tx, key),
        **attributes(line, "user", "result", "ended", "is_gone"),
    )


def _times_of(table: Table, closed: ColumnElement[Any]) -> Select[Any]:
    stages = table.c["admitted_at", "released_at", "bound_at", "running_at"]
    asked = table.c.id == any_(bindparam("ids", type_=ARRAY(NUMBER)))
    return select(table.c.id, *stages, closed.label("closed_at")).where(asked)


_TIMES: Final = union_all(
    _times_of(admissions, cast(null(), MOMENT)),
    _times_of(closed_admissions, closed_admissions.c.closed_at),
)


async def _admission_times(
    tx: AsyncConnection, ids: Collection[AdmissionId]
) -> dict[AdmissionId, AdmissionTimes]:
    """The times of these admissions, open or closed."""
    if not ids:
        return {}
    return {
        AdmissionId(row.id): AdmissionTimes(
            admitted=row.admitted_at.timestamp(),
            released=_seconds(row.released_at),
            bound=_seconds(row.bound_at),
            running=_seconds(row.running_at),
            closed=None if row.closed_at is None else seconds_of(row.closed_at),
        )
        for row in await tx.execute(_TIMES, {"ids": sorted(ids)})
    }


_SEEN: Final = union_all(
    *(
        select(table.c.seen_at).where(table.c.kind == bindparam("kind"), table.c.uid == bindparam("uid"))
        for table in (workloads, ended_workloads)
    )
)


async def _seen_at(tx: AsyncConnection, key: WorkloadKey) -> float | None:
    """When Muster first stored a workload, whether its object is there or not; None if it never did."""
    found = await tx.scalars(_SEEN, {"kind": str(key.kind), "uid": key.uid})
    return min((at.timestamp() for at in found), default=None)


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


_OUTCOMES = text(
    """
    SELECT phase, exit_code, count(*) AS pods
    FROM (
        SELECT phase, exit_code FROM outcomes WHERE kind = :kind AND uid = :uid
        UNION ALL
        SELECT one ->> 'phase', CAST(one ->> 'exit_code' AS integer)
        FROM ended_workloads e, jsonb_array_elements(e.outcomes) AS one WHERE e.kind = :kind AND e.uid = :uid
    ) AS ended
    GROUP BY phase, exit_code
    ORDER BY phase DESC, exit_code
    LIMIT 50
    """
)


async def _outcomes(tx: AsyncConnection, key: WorkloadKey) -> tuple[OutcomeCount, ...]:
    """How its pods ended, those that succeeded first."""
    rows = await tx.execute(_OUTCOMES, {"kind": str(key.kind), "uid": key.uid})
    return tuple(OutcomeCount(**attributes(row, "phase", "exit_code", "pods")) for row in rows)


# What was given back again was held between the two postings; the rest is held on.
_DEVICE_SECONDS = text(
    """
    SELECT line.resource, sum(CASE kind WHEN 'free' THEN -line.amount ELSE line.amount END
                              * extract(epoch FROM :now - posted_at)) AS unit_seconds
    FROM postings, unnest(resources, amounts) AS line(resource, amount)
    WHERE admission = ANY(:ids) AND line.resource LIKE '%/%'
    GROUP BY line.resource
    """
).bindparams(bindparam("now", type_=MOMENT), bindparam("ids", type_=ARRAY(NUMBER)))


async def _device_seconds(tx: AsyncConnection, ids: Collection[AdmissionId], now: int) -> dict[str, int]:
    """What seats of these admissions took of devices until now, in units × seconds by resource."""
    if not ids:
        return {}
    rows = await tx.execute(_DEVICE_SECONDS, {"now": moment(now), "ids": sorted(ids)})
    return {resource: int(unit_seconds) for resource, unit_seconds in rows if not is_device(resource)}


def _state(row: Row[Any], held: Iterable[Admission]) -> str:
    states = {admission.state for admission in held}
    if row.finished:
        return "finished"
    if AdmissionState.EVICTING in states:
        return "evicting"
    if AdmissionState.OPEN in states:
        return "admitted"
    return "pending"


async def _history_begins(tx: AsyncConnection) -> int:
    begins = select(history_starts.c.begins_at).where(history_starts.c.history == decisions.name)
    at = await tx.scalar(begins)
    return 0 if at is None else seconds_of(at)


async def _history(tx: AsyncConnection, kind: str, uid: str) -> tuple[DecisionLine, ...]:
    last = await tx.execute(
        select(decisions)
        .where(decisions.c.workload_kind == kind, decisions.c.workload_uid == uid)
        .order_by(newest_first(decisions.c.id))
        .limit(HISTORY)
    )
    rows = last.all()[::-1]
    return tuple(
        DecisionLine(
            at=seconds_of(row.decided_at),
            beneficiary=key_or_none(row.beneficiary_kind, row.beneficiary_uid),
            **attributes(row, "kind", "code", "message", "admission", "numbers"),
        )
        for row in rows
    )
