"""Decisions about all workloads, in the order in which they were made. SELECT only, so that any replica can answer."""

from collections.abc import Collection
from dataclasses import dataclass
from types import SimpleNamespace

from sqlalchemy import and_, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.read.pending import may_see
from queues.sql.read.rows import DecisionLine, Seen
from queues.sql.read.world import key_or_none, seconds_of
from queues.sql.statements import attributes, moment, one_of
from queues.sql.tables import decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionQuestion:
    """Which decisions are asked for."""

    #: Seconds since the epoch: older ones are left out.
    since: int
    #: Only those after this number, the oldest first; None: the newest.
    after: int | None = None
    namespace: str | None = None
    #: None: of all queues.
    queues: Collection[str] | None = None
    #: The workloads that the user may see; None: all.
    seen: Seen | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadDecision:
    """One decision with the workload that it is about."""

    number: int
    kind: str
    uid: str
    namespace: str
    name: str
    queue: str
    decision: DecisionLine


async def workload_decisions(
    tx: AsyncConnection, wanted: DecisionQuestion, *, limit: int
) -> tuple[tuple[WorkloadDecision, ...], int]:
    """Decisions, oldest first, and the number after which the next ones come."""
    columns = decisions.c
    conditions = [
        columns.decided_at >= moment(wanted.since),
        may_see(SimpleNamespace(kind=columns.workload_kind, namespace=columns.namespace), wanted.seen),
        literal(True) if wanted.namespace is None else columns.namespace == wanted.namespace,
        literal(True) if wanted.queues is None else one_of(columns.queue, wanted.queues),
    ]
    page = select(decisions).where(and_(*conditions)).limit(limit)
    if wanted.after is None:
        # What is made after this transaction began comes with the next question.
        last = await tx.scalar(select(func.max(columns.id)).where(columns.decided_at >= moment(wanted.since)))
        rows = (await tx.execute(page.order_by(columns.id.desc()))).all()[::-1]
        end = last or 0
    else:
        rows = list((await tx.execute(page.where(columns.id > wanted.after).order_by(columns.id))).all())
        end = rows[-1].id if rows else wanted.after
    return tuple(
        WorkloadDecision(
            number=row.id,
            kind=row.workload_kind,
            uid=row.workload_uid,
            **attributes(row, "namespace", "name", "queue"),
            decision=DecisionLine(
                at=seconds_of(row.decided_at),
                beneficiary=key_or_none(row.beneficiary_kind, row.beneficiary_uid),
                **attributes(row, "kind", "code", "message", "admission", "numbers"),
            ),
        )
        for row in rows
    ), end
