"""SELECT only: the world at the start of a term, and what people ask."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.displacement import Displacement
from queues.quota import ROOT, Account
from queues.recreation import Recreation
from queues.resources import Resources, is_device
from queues.sql.answers import (
    AccountLine,
    Backoff,
    Balance,
    DecisionLine,
    Eviction,
    Explanation,
    PendingLine,
    QueueLine,
    StoredReason,
    WorldRows,
)
from queues.sql.claims import open_claims
from queues.sql.displacements import displacements
from queues.sql.leadership import CONTROLLER
from queues.sql.records import NodeLimit, Outcome
from queues.sql.seats import SEAT_COLUMNS, from_columns
from queues.sql.tables import (
    admissions,
    backoffs,
    capacity,
    decisions,
    job_states,
    leases,
    node_limits,
    nodes,
    outcomes,
    queue_balances,
    queue_limits,
    queues,
    reasons,
    recreations,
    workloads,
)
from queues.workload import (
    Admission,
    AdmissionId,
    AdmissionState,
    NodeName,
    QueueName,
    WorkloadKey,
    WorkloadKind,
)

__all__ = [
    "AccountLine",
    "Backoff",
    "Balance",
    "DecisionLine",
    "Eviction",
    "Explanation",
    "PendingLine",
    "QueueLine",
    "StoredReason",
    "WorldRows",
    "explain",
    "load_world",
    "pending",
    "queue_overview",
]


async def load_world(tx: AsyncConnection, *, lease: str = CONTROLLER) -> WorldRows:
    """Everything open, to be read in one snapshot (``Database.snapshot``)."""
    held, evictions = await _admissions(tx, admissions.c.state != "closed")
    return WorldRows(
        ledger_seq=await tx.scalar(select(leases.c.ledger_seq).where(leases.c.name == lease)) or 0,
        admissions=held,
        evictions=evictions,
        arrivals={
            _key(kind, uid): arrival
            for kind, uid, arrival in await tx.execute(
                select(workloads.c.kind, workloads.c.uid, workloads.c.arrival)
            )
        },
        outcomes=await _outcomes(tx),
        backoffs={
            _key(kind, uid): Backoff(
                not_before=not_before, rollbacks=rollbacks, evictions=evictions, waiting_since=since
            )
            for kind, uid, not_before, rollbacks, evictions, since in await tx.execute(
                select(
                    backoffs.c.kind,
                    backoffs.c.uid,
                    backoffs.c.not_before,
                    backoffs.c.rollbacks,
                    backoffs.c.evictions,
                    backoffs.c.waiting_since,
                )
            )
        },
        claims=await open_claims(tx),
        job_states={
            _key(kind, uid): state
            for kind, uid, state in await tx.execute(
                select(job_states.c.kind, job_states.c.uid, job_states.c.state)
            )
        },
        reasons=await _reasons(tx),
        balances=await _balances(tx),
        queues={
            name: (uid, generation)
            for name, uid, generation in await tx.execute(
                select(queues.c.name, queues.c.uid, queues.c.generation).where(queues.c.present)
            )
        },
        node_limits=await _node_limits(tx),
        recreations=await _recreations(tx),
        displacements=await displacements(tx),
    )


async def _recreations(tx: AsyncConnection) -> tuple[Recreation, ...]:
    columns = recreations.c
    rows = await tx.execute(
        select(
            columns.pod_uid,
            columns.kind,
            columns.uid,
            columns.namespace,
            columns.name,
            columns.queue,
            columns.manifest,
        ).order_by(columns.pod_uid)
    )
    return tuple(
        Recreation(
            pod_uid=row.pod_uid,
            workload=_key(row.kind, row.uid),
            namespace=row.namespace,
            name=row.name,
            queue=row.queue,
            manifest=row.manifest,
        )
        for row in rows
    )


_REASON = (reasons.c.code, reasons.c.message, reasons.c.facts, reasons.c.since)


async def _reasons(tx: AsyncConnection) -> dict[WorkloadKey, StoredReason]:
    rows: Iterable[Row[Any]] = await tx.execute(select(reasons.c.kind, reasons.c.uid, *_REASON))
    return {_key(row.kind, row.uid): _reason(row) for row in rows}


def _reason(row: Row[Any]) -> StoredReason:
    return StoredReason(code=row.code, message=row.message, facts=row.facts, since=_seconds(row.since))


async def _admissions(
    tx: AsyncConnection, which: ColumnElement[bool]
) -> tuple[tuple[Admission, ...], dict[AdmissionId, Eviction]]:
    rows = await tx.execute(
        select(
            admissions.c.id,
            admissions.c.kind,
            admissions.c.uid,
            admissions.c.namespace,
            admissions.c.name,
            admissions.c.queue,
            admissions.c.priority,
            admissions.c.generation,
            admissions.c.username,
            admissions.c.state,
            admissions.c.started,
            admissions.c.opened_at,
            admissions.c.ended,
            admissions.c.adopted_pods,
            admissions.c.adopted_seats,
            admissions.c.evicted_at,
            admissions.c.cause_code,
            admissions.c.cause_message,
            admissions.c.beneficiary_kind,
            admissions.c.beneficiary_uid,
            *SEAT_COLUMNS,
        )
        .where(which)
        .order_by(admissions.c.id)
    )
    found: list[Admission] = []
    evictions: dict[AdmissionId, Eviction] = {}
    for row in rows:
        adopted = dict(zip(row.adopted_pods, row.adopted_seats, strict=True))
        found.append(
            Admission(
                id=row.id,
                workload=_key(row.kind, row.uid),
                namespace=row.namespace,
                name=row.name,
                queue=row.queue,
                priority=row.priority,
                seats=from_columns(
                    row.pod_sets, row.ordinals, row.nodes, row.flavors, row.shape_of, row.shapes
                ),
                ended=frozenset(row.ended),
                state=AdmissionState(row.state),
                started=row.started,
                adopted=adopted or None,
                opened_at=_seconds(row.opened_at),
                generation=row.generation,
                user=row.username,
            )
        )
        if row.evicted_at is not None:
            evictions[row.id] = Eviction(
                code=row.cause_code,
                message=row.cause_message,
                at=_seconds(row.evicted_at),
                beneficiary=_key_or_none(row.beneficiary_kind, row.beneficiary_uid),
            )
    return tuple(found), evictions


async def _outcomes(tx: AsyncConnection) -> tuple[Outcome, ...]:
    rows = await tx.execute(
        select(
            outcomes.c.kind,
            outcomes.c.uid,
            outcomes.c.pod_set,
            outcomes.c.ordinal,
            outcomes.c.pod_uid,
            outcomes.c.phase,
            outcomes.c.exit_code,
            outcomes.c.version,
        ).order_by(outcomes.c.recorded_at, outcomes.c.pod_uid)
    )
    return tuple(
        Outcome(
            workload=_key(row.kind, row.uid),
            pod_set=row.pod_set,
            ordinal=row.ordinal,
            pod_uid=row.pod_uid,
            phase=row.phase,
            exit_code=row.exit_code,
            version=row.version,
        )
        for row in rows
    )


async def _balances(tx: AsyncConnection) -> dict[QueueName, dict[Account, Balance]]:
    balance = queue_balances.c
    found: dict[QueueName, dict[Account, Balance]] = {}
    for queue, flavor, resource, own, used, counted in await tx.execute(
        select(
            balance.queue, balance.flavor, balance.resource, balance.own, balance.used, balance.counted
        ).where(or_(balance.used != 0, balance.counted != 0))
    ):
        accounts = found.setdefault(queue, {})
        accounts[Account(flavor, resource)] = Balance(own=own, used=used, counted=counted)
    return found


async def _node_limits(tx: AsyncConnection) -> dict[NodeName, NodeLimit]:
    amounts: dict[NodeName, dict[str, int]] = {}
    for node, resource, units in await tx.execute(
        select(node_limits.c.node, node_limits.c.resource, node_limits.c.amount)
    ):
        amounts.setdefault(node, {})[resource] = units
    rows = await tx.execute(select(nodes.c.name, nodes.c.flavor, nodes.c.usable))
    return {
        name: NodeLimit(limits=Resources(amounts.get(name, {})), flavor=flavor, usable=usable)
        for name, flavor, usable in rows
    }


async def closed_among(tx: AsyncConnection, ids: Collection[AdmissionId]) -> dict[AdmissionId, WorkloadKey]:
    """Those of the admissions that are closed, with their workload: their pods are leftovers.

    An id that the ledger never gave is absent: its pods come from another ledger and are to be adopted.
    """
    rows = await tx.execute(
        select(admissions.c.id, admissions.c.kind, admissions.c.uid).where(
            admissions.c.id.in_(sorted(ids)), admissions.c.state == "closed"
        )
    )
    return {AdmissionId(row.id): _key(row.kind, row.uid) for row in rows}


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
    told: set[Account] = set()
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
            told.add(account)
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
        for account in sorted(offered.keys() - told)
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
        *_REASON,
    ).select_from(workloads.outerjoin(reasons, _SAME_REASON).outerjoin(backoffs, _SAME_BACKOFF))


def _line(row: Row[Any], gone: Mapping[WorkloadKey, Displacement]) -> PendingLine:
    return PendingLine(
        key=_key(row.kind, row.uid),
        namespace=row.namespace,
        name=row.name,
        queue=row.queue,
        priority=row.priority,
        arrival=row.arrival,
        created=row.created,
        minimum=row.minimum,
        pods=row.pods,
        asks=row.asks,
        reason=_reason(row) if row.code is not None else None,
        devices=row.devices,
        run_time=row.run_time,
        waiting_since=row.waiting_since,
        joins=row.joins,
        displaced=gone.get(_key(row.kind, row.uid)),
    )


async def pending(tx: AsyncConnection, queue: QueueName | None = None) -> tuple[PendingLine, ...]:
    """Who waits, in the order of arrival."""
    lines = _workload_lines().where(_WAITS).order_by(workloads.c.arrival)
    if queue is not None:
        lines = lines.where(workloads.c.queue == queue)
    gone = await displacements(tx, None if queue is None else workloads.c.queue == queue)
    return tuple(_line(row, gone) for row in await tx.execute(lines))


async def explain(
    tx: AsyncConnection, namespace: str, name: str, kind: str | None = None
) -> tuple[Explanation, ...]:
    """All about the workloads of that name (several kinds may share it); empty: there is none."""
    named = _workload_lines().where(workloads.c.namespace == namespace, workloads.c.name == name)
    if kind is not None:
        named = named.where(workloads.c.kind == kind)
    rows = (await tx.execute(named.order_by(workloads.c.arrival))).all()
    gone = await displacements(tx, and_(workloads.c.namespace == namespace, workloads.c.name == name))
    return tuple([await _explanation(tx, row, gone) for row in rows])


async def _explanation(
    tx: AsyncConnection, row: Row[Any], gone: Mapping[WorkloadKey, Displacement]
) -> Explanation:
    mine = and_(admissions.c.kind == row.kind, admissions.c.uid == row.uid)
    held, evictions = await _admissions(tx, mine)
    state = _state(row, held)
    backoff = (
        await tx.execute(
            select(backoffs.c.not_before, backoffs.c.rollbacks).where(
                backoffs.c.kind == row.kind, backoffs.c.uid == row.uid
            )
        )
    ).one_or_none()
    return Explanation(
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
            at=_seconds(row.decided_at),
            kind=row.kind,
            code=row.code,
            message=row.message,
            admission=row.admission,
            beneficiary=_key_or_none(row.beneficiary_kind, row.beneficiary_uid),
            numbers=row.numbers,
        )
        for row in rows
    )


def _key(kind: str, uid: str) -> WorkloadKey:
    return WorkloadKey(WorkloadKind(kind), uid)


def _key_or_none(kind: str | None, uid: str | None) -> WorkloadKey | None:
    return None if kind is None or uid is None else _key(kind, uid)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
