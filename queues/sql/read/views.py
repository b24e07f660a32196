"""Answers for users: queues, waiting workloads, explanations. SELECT only, so that any replica can answer."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Row, Select, and_, exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import Admission, AdmissionState, LastPreemption
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.resources import is_device
from queues.sql.read.displacements import displacements
from queues.sql.read.rows import (
    AccountLine,
    DecisionLine,
    Eviction,
    ExplanationRows,
    PendingLine,
    QueueLine,
    StoredReason,
)
from queues.sql.read.world import REASON, key_of, key_or_none, read_admissions, reason_of, seconds_of
from queues.sql.tables import (
    admissions,
    backoffs,
    capacity,
    decisions,
    queue_balances,
    queue_limits,
    queues,
    reasons,
    workloads,
)
from queues.workload import QueueName, WorkloadKey

__all__ = [
    "AccountLine",
    "DecisionLine",
    "Eviction",
    "ExplanationRows",
    "PendingLine",
    "QueueLine",
    "StoredReason",
    "explain",
    "pending",
    "queue_overview",
]


async def queue_overview(tx: AsyncConnection) -> tuple[QueueLine, ...]:
    """All queues with limits and use, by name."""
    accounts = await _account_lines(tx)
    waiting = await _count(
        tx, select(workloads.c.queue, func.count()).outerjoin(reasons, _SAME_REASON).where(_WAITS)
    )
    admitted = await _count(
        tx,
        select(
            admissions.c.queue, func.count(func.distinct(func.concat(admissions.c.kind, admissions.c.uid)))
        ).where(admissions.c.state != "closed"),
    )
    rows = await tx.execute(
        select(
            queues.c.name,
            queues.c.parent,
            queues.c.paused,
            queues.c.closed,
            queues.c.broken,
            queues.c.changed_by,
            queues.c.document,
        )
        .where(queues.c.present)
        .order_by(queues.c.name)
    )
    return tuple(
        QueueLine(
            name=row.name,
            parent=row.parent,
            paused=row.paused,
            closed=row.closed,
            broken=row.broken,
            changed_by=row.changed_by,
            document=row.document,
            accounts=tuple(accounts.get(row.name, ())),
            pending=waiting.get(row.name, 0),
            admitted=admitted.get(row.name, 0),
        )
        for row in rows
    )


async def _account_lines(tx: AsyncConnection) -> dict[QueueName, list[AccountLine]]:
    balance, limit = queue_balances.c, queue_limits.c
    same = and_(
        balance.queue == limit.queue, balance.flavor == limit.flavor, balance.resource == limit.resource
    )
    offered = {
        Account(flavor, resource): units
        for flavor, resource, units in await tx.execute(
            select(capacity.c.flavor, capacity.c.resource, capacity.c.amount)
        )
        if not is_device(resource)
    }
    lines: dict[QueueName, list[AccountLine]] = {}
    listed: set[Account] = set()
    for row in await tx.execute(
        select(
            func.coalesce(balance.queue, limit.queue).label("queue"),
            func.coalesce(balance.flavor, limit.flavor).label("flavor"),
            func.coalesce(balance.resource, limit.resource).label("resource"),
            limit.keeps,
            limit.deserved,
            limit.ceiling,
            balance.used,
            balance.counted,
        )
        .select_from(queue_balances.outerjoin(queue_limits, same, full=True))
        .order_by("queue", "flavor", "resource")
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


_SAME_REASON = and_(reasons.c.kind == workloads.c.kind, reasons.c.uid == workloads.c.uid)

_SAME_BACKOFF = and_(backoffs.c.kind == workloads.c.kind, backoffs.c.uid == workloads.c.uid)

_HOLDS = exists().where(
    admissions.c.kind == workloads.c.kind,
    admissions.c.uid == workloads.c.uid,
    admissions.c.state != "closed",
)

#: Lacks seats: all of them, or (then with a reason) some.
_WAITS = and_(~workloads.c.finished, or_(~_HOLDS, reasons.c.code.is_not(None)))


def _workload_lines() -> Select[Any]:
    return select(
        workloads.c.kind,
        workloads.c.uid,
        workloads.c.namespace,
        workloads.c.name,
        workloads.c.queue,
        workloads.c.priority,
        workloads.c.arrival,
        workloads.c.created,
        workloads.c.minimum,
        workloads.c.pods,
        workloads.c.asks,
        workloads.c.devices,
        workloads.c.run_time,
        workloads.c.finished,
        _HOLDS.label("joins"),
        func.coalesce(backoffs.c.waiting_since, 0).label("waiting_since"),
        *REASON,
    ).select_from(workloads.outerjoin(reasons, _SAME_REASON).outerjoin(backoffs, _SAME_BACKOFF))


def _line(row: Row[Any], gone: Mapping[WorkloadKey, LastPreemption]) -> PendingLine:
    return PendingLine(
        key=key_of(row.kind, row.uid),
        namespace=row.namespace,
        name=row.name,
        queue=row.queue,
        priority=row.priority,
        arrival=row.arrival,
        created=row.created,
        minimum=row.minimum,
        pods=row.pods,
        asks=row.asks,
        reason=reason_of(row) if row.code is not None else None,
        devices=row.devices,
        run_time=row.run_time,
        waiting_since=row.waiting_since,
        joins=row.joins,
        displaced=gone.get(key_of(row.kind, row.uid)),
    )


async def pending(tx: AsyncConnection, queue: QueueName | None = None) -> tuple[PendingLine, ...]:
    """Waiting workloads, in the order of arrival."""
    lines = _workload_lines().where(_WAITS).order_by(workloads.c.arrival)
    if queue is not None:
        lines = lines.where(workloads.c.queue == queue)
    gone = await displacements(tx, None if queue is None else workloads.c.queue == queue)
    return tuple(_line(row, gone) for row in await tx.execute(lines))


async def explain(
    tx: AsyncConnection, namespace: str, name: str, kind: str | None = None
) -> tuple[ExplanationRows, ...]:
    """All about the workloads of that name (several kinds may share it); empty: there is none."""
    named = _workload_lines().where(workloads.c.namespace == namespace, workloads.c.name == name)
    if kind is not None:
        named = named.where(workloads.c.kind == kind)
    rows = (await tx.execute(named.order_by(workloads.c.arrival))).all()
    gone = await displacements(tx, and_(workloads.c.namespace == namespace, workloads.c.name == name))
    return tuple([await _explanation(tx, row, gone) for row in rows])


async def _explanation(
    tx: AsyncConnection, row: Row[Any], gone: Mapping[WorkloadKey, LastPreemption]
) -> ExplanationRows:
    mine = and_(admissions.c.kind == row.kind, admissions.c.uid == row.uid)
    held, evictions = await read_admissions(tx, mine)
    state = _state(row, held)
    backoff = (
        await tx.execute(
            select(backoffs.c.not_before, backoffs.c.rollbacks).where(
                backoffs.c.kind == row.kind, backoffs.c.uid == row.uid
            )
        )
    ).one_or_none()
    return ExplanationRows(
        workload=_line(row, gone),
        state=state,
        not_before=backoff.not_before if backoff else 0,
        rollbacks=backoff.rollbacks if backoff else 0,
        admissions=held,
        evictions=evictions,
        history=await _history(tx, row.kind, row.uid),
    )


def _state(row: Row[Any], held: Iterable[Admission]) -> str:
    states = {admission.state for admission in held}
    if row.finished:
        return "finished"
    if AdmissionState.EVICTING in states:
        return "evicting"
    if AdmissionState.OPEN in states:
        return "admitted"
    return "pending"


async def _history(tx: AsyncConnection, kind: str, uid: str) -> tuple[DecisionLine, ...]:
    rows = await tx.execute(
        select(
            decisions.c.decided_at,
            decisions.c.kind,
            decisions.c.code,
            decisions.c.message,
            decisions.c.admission,
            decisions.c.beneficiary_kind,
            decisions.c.beneficiary_uid,
            decisions.c.numbers,
        )
        .where(decisions.c.workload_kind == kind, decisions.c.workload_uid == uid)
        .order_by(decisions.c.id)
    )
    return tuple(
        DecisionLine(
            at=seconds_of(row.decided_at),
            kind=row.kind,
            code=row.code,
            message=row.message,
            admission=row.admission,
            beneficiary=key_or_none(row.beneficiary_kind, row.beneficiary_uid),
            numbers=row.numbers,
        )
        for row in rows
    )
