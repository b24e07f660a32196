"""SELECT only: everything open, as the world starts from it."""

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Row, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import Recreation
from queues.quota.accounts import Account
from queues.resources import Resources
from queues.sql.answers import Backoff, Balance, StoredReason, WorldRows
from queues.sql.claims import open_claims
from queues.sql.displacements import displacements
from queues.sql.leadership import CONTROLLER
from queues.sql.records import NodeLimit, Outcome
from queues.sql.stored import REASON, key_of, read_admissions, reason_of
from queues.sql.tables import (
    admissions,
    backoffs,
    job_states,
    leases,
    node_limits,
    nodes,
    outcomes,
    queue_balances,
    queues,
    reasons,
    recreations,
    workloads,
)
from queues.workload import AdmissionId, NodeName, QueueName, WorkloadKey


async def load_world(tx: AsyncConnection, *, lease: str = CONTROLLER) -> WorldRows:
    """Everything open, to be read in one snapshot (``Database.snapshot``)."""
    held, evictions = await read_admissions(tx, admissions.c.state != "closed")
    return WorldRows(
        ledger_seq=await tx.scalar(select(leases.c.ledger_seq).where(leases.c.name == lease)) or 0,
        admissions=held,
        evictions=evictions,
        arrivals={
            key_of(kind, uid): arrival
            for kind, uid, arrival in await tx.execute(
                select(workloads.c.kind, workloads.c.uid, workloads.c.arrival)
            )
        },
        outcomes=await _outcomes(tx),
        backoffs={
            key_of(kind, uid): Backoff(
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
            key_of(kind, uid): state
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
            workload=key_of(row.kind, row.uid),
            namespace=row.namespace,
            name=row.name,
            queue=row.queue,
            manifest=row.manifest,
        )
        for row in rows
    )


async def _reasons(tx: AsyncConnection) -> dict[WorkloadKey, StoredReason]:
    rows: Iterable[Row[Any]] = await tx.execute(select(reasons.c.kind, reasons.c.uid, *REASON))
    return {key_of(row.kind, row.uid): reason_of(row) for row in rows}


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
            workload=key_of(row.kind, row.uid),
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
    return {AdmissionId(row.id): key_of(row.kind, row.uid) for row in rows}
