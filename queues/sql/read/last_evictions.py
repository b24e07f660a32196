"""Last eviction of each workload that still waits, if it is worth showing: read from the log of decisions."""

from sqlalchemy import ColumnElement, and_, case, false, func, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from queues import kind_names
from queues.admissions import CAUSES_TOLD, COMING_FIRST, LastEviction
from queues.kind_names import KindName
from queues.reason_codes import ReasonCode
from queues.sql.statements import newest_first, same
from queues.sql.tables import backoffs, decisions, workloads
from queues.workload import WorkloadKey

#: Decisions that start or end a run.
_TURNING_POINTS = ("admit", "adopt", "evict")

#: A pod that was made again has another uid than the one that was taken back, and its setback, but the same name.
_BY_NAME = and_(
    workloads.c.kind == kind_names.POD,
    decisions.c.namespace == workloads.c.namespace,
    decisions.c.name == workloads.c.name,
)
#: Of the others there may be any number of one name, one after the other.
_BY_UID = and_(workloads.c.kind != kind_names.POD, decisions.c.workload_uid == workloads.c.uid)


def comes_first() -> ColumnElement[bool]:
    """Whether a row of ``workloads`` (joined with ``backoffs``) was evicted last for nothing that it is to blame for.

    It then comes first among equals of its queue.
    """
    by_uid, by_name = (_last_eviction_code(its) for its in (_BY_UID, _BY_NAME))
    code = case((workloads.c.kind == kind_names.POD, by_name), else_=by_uid)
    # Without a setback there was no such eviction: that is known without the log.
    return case((func.coalesce(backoffs.c.not_before, 0) > 0, code.in_(sorted(COMING_FIRST))), else_=false())


def _last_eviction_code(its: ColumnElement[bool]) -> ColumnElement[str]:
    """NULL: it was admitted since, or never evicted."""
    code = case((decisions.c.kind == "evict", decisions.c.code))
    return (
        select(code)
        .where(its, decisions.c.workload_kind == workloads.c.kind, decisions.c.kind.in_(_TURNING_POINTS))
        .order_by(newest_first(decisions.c.id))
        .limit(1)
        .correlate(workloads)
        .scalar_subquery()
    )


async def last_evictions(
    tx: AsyncConnection, which: ColumnElement[bool] | None = None
) -> dict[WorkloadKey, LastEviction]:
    """Workloads (that match ``which``) that were evicted for another one, because the scheduler refused their pods, or
    because a device failed, and not admitted since.

    An eviction older than the log of decisions is absent.
    """
    found: dict[WorkloadKey, LastEviction] = {}
    for its in (_BY_UID, _BY_NAME):
        found |= await _last_evictions(tx, its, which)
    return found


async def _last_evictions(
    tx: AsyncConnection, its: ColumnElement[bool], which: ColumnElement[bool] | None
) -> dict[WorkloadKey, LastEviction]:
    """``its``: which decisions are about a workload."""
    last = (
        select(*decisions.c["decided_at", "kind", "code", "message", "numbers"])
        .where(its, decisions.c.workload_kind == workloads.c.kind, decisions.c.kind.in_(_TURNING_POINTS))
        .order_by(newest_first(decisions.c.id))
        .limit(1)
        .correlate(workloads)
        .lateral("last")
    )
    by = last.c.numbers["for"].astext
    is_caused = last.c.code.in_(sorted(CAUSES_TOLD))
    # Of evictions for others and of the other ones alike there is a setback, which says so cheaply.
    told = or_(
        and_(backoffs.c.waiting_since > 0, by.is_not(None)), and_(backoffs.c.not_before > 0, is_caused)
    )
    cause = case((is_caused, last.c.message), else_="")
    asked = (
        select(
            *workloads.c["kind", "uid"],
            *last.c["decided_at", "code"],
            func.coalesce(by, "").label("by"),
            cause.label("cause"),
            func.coalesce(last.c.numbers["takes"].astext, "").label("takes"),
        )
        .select_from(workloads.join(backoffs, same(backoffs, workloads)).join(last, true()))
        .where(last.c.kind == "evict", told)
    )
    if which is not None:
        asked = asked.where(which)
    return {
        WorkloadKey(KindName(row.kind), row.uid): LastEviction(
            at=int(row.decided_at.timestamp()),
            code=ReasonCode.of_row(row.code),
            by=row.by,
            cause=row.cause,
            takes=row.takes,
        )
        for row in await tx.execute(asked)
    }
