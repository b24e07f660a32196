"""Decisions about all workloads, in the order in which they were made. SELECT only, so that any replica can answer."""

from collections.abc import Collection
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

from sqlalchemy import and_, func, literal, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.read_api import bodies
from queues.reason_codes import ReasonCode
from queues.sql.read.pending import may_see
from queues.sql.read.rows import Seen
from queues.sql.statements import NUMBER, TEXT, UnnestRows, attributes, moment, one_of, same
from queues.sql.tables import admissions, closed_admissions, decisions, ended_workloads, workloads
from queues.sql.world import event_fields
from queues.workload import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionQuestion:
    """Which decisions are asked for."""

    #: Seconds since the epoch: older ones are left out.
    since: int
    #: Only those after this number, the oldest first; None for the newest.
    after: int | None = None
    namespace: str | None = None
    #: False: without those that give seats back.
    ends: bool = True
    #: None for those of all queues.
    queues: Collection[str] | None = None
    #: The workloads that the user may see; None for all.
    seen: Seen | None = None


async def workload_decisions(
    tx: AsyncConnection, wanted: DecisionQuestion, *, limit: int
) -> tuple[tuple[bodies.DecisionBody, ...], int]:
    """Decisions, oldest first, and the number after which the next ones come."""
    columns = decisions.c
    conditions = [
        columns.decided_at >= moment(wanted.since),
        may_see(SimpleNamespace(kind=columns.workload_kind, namespace=columns.namespace), wanted.seen),
        literal(True) if wanted.ends else columns.kind != "free",
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
    results = await _results(tx, rows)
    return tuple(
        bodies.DecisionBody(
            **event_fields(row),
            **attributes(row, "namespace", "name", "queue"),
            kind=row.workload_kind,
            uid=row.workload_uid,
            result=results.get(row.id, ""),
        )
        for row in rows
    ), end


EVICTED: Final = "evicted"
SUSPENDED: Final = "suspended"
#: The workload waits again, or goes on without these seats.
GIVEN_BACK: Final = "given back"
_ENDS: Final = frozenset({Result.SUCCEEDED, Result.FAILED, Result.DELETED})
_CLOSED: Final = UnnestRows(kind=TEXT, uid=TEXT, admission=NUMBER, decision=NUMBER)


def _results_asked() -> Any:
    """Of each closed admission why it was closed, whether its workload went on, and how it ended."""
    cause = (
        select(func.max(closed_admissions.c.cause_code))
        .where(closed_admissions.c.id == _CLOSED.c.admission)
        .scalar_subquery()
    )
    later = union_all(
        *(
            select(literal(1)).where(same(table, _CLOSED), table.c.id > _CLOSED.c.admission)
            for table in (admissions, closed_admissions)
        )
    )
    waits = select(literal(1)).where(same(workloads, _CLOSED), ~workloads.c.finished)
    there = select(workloads.c.result).where(same(workloads, _CLOSED)).scalar_subquery()
    gone = (
        select(ended_workloads.c.result)
        .where(same(ended_workloads, _CLOSED))
        .order_by(ended_workloads.c.ended_at.desc())
        .limit(1)
        .scalar_subquery()
    )
    return select(
        _CLOSED.c.decision,
        cause.label("cause"),
        or_(later.exists(), waits.exists()).label("goes_on"),
        func.coalesce(there, gone, "").label("result"),
    ).select_from(_CLOSED.table)


_RESULTS: Final = _results_asked()


async def _results(tx: AsyncConnection, rows: Collection[Any]) -> dict[int, str]:
    """How what was closed came to its end, by the number of the decision. Not known of those that are left out."""
    closed = [
        (row.workload_kind, row.workload_uid, row.admission, row.id)
        for row in rows
        if row.kind == "free" and row.admission is not None and row.code != SUSPENDED
    ]
    if not closed:
        return {}
    found = {}
    for row in await tx.execute(_RESULTS, _CLOSED.rows(closed)):
        if row.cause is not None:
            found[row.decision] = SUSPENDED if row.cause == ReasonCode.ON_HOLD else EVICTED
        elif row.goes_on:
            found[row.decision] = GIVEN_BACK
        elif row.result in _ENDS:
            found[row.decision] = str(row.result)
    return found
