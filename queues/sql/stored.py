"""Rows as values: what the world starts from and what people ask read them the same way."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import Admission, AdmissionState
from queues.sql.answers import Eviction, StoredReason
from queues.sql.seats import SEAT_COLUMNS, from_columns
from queues.sql.tables import admissions, reasons
from queues.workload import AdmissionId, WorkloadKey, WorkloadKind

REASON = (reasons.c.code, reasons.c.message, reasons.c.facts, reasons.c.since)


def reason_of(row: Row[Any]) -> StoredReason:
    """What ``REASON`` of a row says."""
    return StoredReason(code=row.code, message=row.message, facts=row.facts, since=seconds_of(row.since))


async def read_admissions(
    tx: AsyncConnection, which: ColumnElement[bool]
) -> tuple[tuple[Admission, ...], dict[AdmissionId, Eviction]]:
    """Such admissions, oldest first, and why some of them are being taken back."""
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
                workload=key_of(row.kind, row.uid),
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
                opened_at=seconds_of(row.opened_at),
                generation=row.generation,
                user=row.username,
            )
        )
        if row.evicted_at is not None:
            evictions[row.id] = Eviction(
                code=row.cause_code,
                message=row.cause_message,
                at=seconds_of(row.evicted_at),
                beneficiary=key_or_none(row.beneficiary_kind, row.beneficiary_uid),
            )
    return tuple(found), evictions


def key_of(kind: str, uid: str) -> WorkloadKey:
    """Whose row it is."""
    return WorkloadKey(WorkloadKind(kind), uid)


def key_or_none(kind: str | None, uid: str | None) -> WorkloadKey | None:
    """The same for columns that may be null."""
    return None if kind is None or uid is None else key_of(kind, uid)


def seconds_of(moment: datetime) -> int:
    """Since the epoch."""
    return int(moment.timestamp())
