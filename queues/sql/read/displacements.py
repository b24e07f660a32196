"""Last preemption of each workload that still waits: read from the log of decisions."""

from sqlalchemy import ColumnElement, and_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import LastPreemption
from queues.reason_codes import ReasonCode
from queues.sql.statements import same
from queues.sql.tables import backoffs, decisions, workloads
from queues.workload import WorkloadKey, WorkloadKind

#: Decisions that start or end a run.
_TURNING_POINTS = ("admit", "adopt", "evict")

#: By name: a pod that was made again has another uid than the one that was taken back, and its setback.
_OF_IT = and_(
    decisions.c.workload_kind == workloads.c.kind,
    decisions.c.namespace == workloads.c.namespace,
    decisions.c.name == workloads.c.name,
    decisions.c.kind.in_(_TURNING_POINTS),
)


async def displacements(
    tx: AsyncConnection, which: ColumnElement[bool] | None = None
) -> dict[WorkloadKey, LastPreemption]:
    """Workloads (that match ``which``) that were evicted for another one and not admitted since.

    An eviction older than the log of decisions is absent.
    """
    last = (
        select(decisions.c.decided_at, decisions.c.kind, decisions.c.code, decisions.c.numbers)
        .where(_OF_IT)
        .order_by(decisions.c.id.desc())
        .limit(1)
        .correlate(workloads)
        .lateral("last")
    )
    by = last.c.numbers["for"].astext
    asked = (
        select(workloads.c.kind, workloads.c.uid, last.c.decided_at, last.c.code, by.label("by"))
        .select_from(workloads.join(backoffs, same(backoffs, workloads)).join(last, true()))
        .where(backoffs.c.waiting_since > 0, last.c.kind == "evict", by.is_not(None))
    )
    if which is not None:
        asked = asked.where(which)
    return {
        WorkloadKey(WorkloadKind(row.kind), row.uid): LastPreemption(
            at=int(row.decided_at.timestamp()), code=ReasonCode.of_row(row.code), by=row.by
        )
        for row in await tx.execute(asked)
    }
