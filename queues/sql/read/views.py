"""Answers for users: queues, waiting workloads, explanations. SELECT only, so that any replica can answer."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Row, Select, and_, exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import Admission, AdmissionState, LastEviction
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.resources import is_device
from queues.sql.read.last_evictions import last_evictions
from queues.sql.read.pending import WAITS, pending_line, workload_lines
from queues.sql.read.rows import (
    AccountLine,
    DecisionLine,
    Eviction,
    ExplanationRows,
    PendingLine,
    QueueLine,
    StoredReason,
)
from queues.sql.read.world import key_of, key_or_none, read_admissions, read_closed, seconds_of
from queues.sql.statements import attributes, newest_first, same
from queues.sql.tables import (
    admissions,
    capacity,
    decisions,
    history_starts,
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
    "queue_overview",
]


#: Decisions about one workload that are told: the last ones.
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
        ).where(admissions.c.state != "closed"),
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


async def explain(
    tx: AsyncConnection, namespace: str, name: str, kind: str | None = None
) -> tuple[ExplanationRows, ...]:
    """All about the workloads of that name (several kinds may share it); empty: there is none."""
    named = workload_lines().where(workloads.c.namespace == namespace, workloads.c.name == name)
    if kind is not None:
        named = named.where(workloads.c.kind == kind)
    rows = (await tx.execute(named.order_by(workloads.c.arrival))).all()
    gone = await last_evictions(tx, and_(workloads.c.namespace == namespace, workloads.c.name == name))
    return tuple([await _explanation(tx, row, gone) for row in rows])


async def _explanation(
    tx: AsyncConnection, row: Row[Any], gone: Mapping[WorkloadKey, LastEviction]
) -> ExplanationRows:
    mine = and_(admissions.c.kind == row.kind, admissions.c.uid == row.uid)
    held, evictions = await read_admissions(tx, mine)
    closed, former_evictions = await read_closed(tx, key_of(row.kind, row.uid), CLOSED)
    state = _state(row, held)
    return ExplanationRows(
        workload=pending_line(row, gone),
        state=state,
        **attributes(row, "not_before", "rollbacks"),
        admissions=(*closed, *held),
        evictions={**former_evictions, **evictions},
        history=await _history(tx, row.kind, row.uid),
        history_begins=await _history_begins(tx),
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
