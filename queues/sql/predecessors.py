"""Which workloads others mean that are to come after them, where their objects are gone. SELECT only."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import case, lateral, literal, or_, select, true, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.dependencies import Arrived, Predecessor, PredecessorQuestion
from queues.sql.statements import NUMBER, TEXT, UnnestRows
from queues.sql.tables import ended_workloads, workloads
from queues.sql.world import key_of
from queues.workload import Result

#: Of a successor without a number: every workload that has one came before.
_LAST: Final = 2**63 - 1
_ASKED = UnnestRows(
    place=NUMBER, namespace=TEXT, kind=TEXT, name=TEXT, own_uid=TEXT, created=NUMBER, arrival=NUMBER
)
_KNOWN = union_all(
    *(
        select(*table.c["kind", "uid", "created", "arrival"], ended.label("ended"), table.c.result)
        .where(
            *(table.c[name] == _ASKED.c[name] for name in ("namespace", "name", "kind")),
            table.c.uid != _ASKED.c.own_uid,
        )
        .correlate(_ASKED.table)
        for table, ended in ((workloads, workloads.c.finished), (ended_workloads, literal(True)))
    )
).subquery("known")
#: As ``Arrived.is_before``.
_IS_BEFORE = or_(_KNOWN.c.created <= _ASKED.c.created, _KNOWN.c.arrival < _ASKED.c.arrival)
_MEANT = lateral(
    select(_KNOWN)
    .order_by(
        _IS_BEFORE.desc(),
        case((_IS_BEFORE, -_KNOWN.c.arrival), else_=_KNOWN.c.arrival),
        # A pod that was made again has the number of the one that it replaces.
        _KNOWN.c.created.desc(),
    )
    .limit(1),
    "meant",
)
_PREDECESSORS = select(_ASKED.c.place, *_MEANT.c).join_from(_ASKED.table, _MEANT, true())


async def predecessors(
    tx: AsyncConnection, questions: Sequence[PredecessorQuestion]
) -> dict[PredecessorQuestion, Predecessor]:
    """For each question the newest workload of that name that came before the successor; if there is none, the first
    that came after it. A name of which the ledger knows no workload, as far as its history goes back, is absent."""
    rows = [
        (place, namespace, kind, name, successor.uid, created, _LAST if number is None else number)
        for place, (successor, (created, number), namespace, kind, name) in enumerate(questions)
    ]
    found = await tx.execute(_PREDECESSORS, _ASKED.rows(rows))
    return {
        questions[row.place]: Predecessor(
            key_of(row.kind, row.uid),
            Arrived(row.created, row.arrival),
            Result(row.result) if row.ended else None,
        )
        for row in found
    }
