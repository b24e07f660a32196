"""Admissions that close move to the history in the same transaction: ``admissions`` has what is held, and no more."""

from collections.abc import Collection
from typing import Final

from sqlalchemy import BigInteger, any_, bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.statements import MOMENT, moment
from queues.sql.tables import admissions, closed_admissions
from queues.workload import AdmissionId

#: Columns that both tables have.
KEPT: Final = tuple(column.key for column in closed_admissions.c if column.key != "closed_at")

_gone = (
    delete(admissions)
    .where(admissions.c.id == any_(bindparam("ids", type_=ARRAY(BigInteger))))
    .returning(*admissions.c[KEPT], admissions.c.closed_at)
    .cte("gone")
)
_CLOSE = insert(closed_admissions).from_select(
    [*KEPT, "closed_at"],
    select(*_gone.c[KEPT], func.coalesce(_gone.c.closed_at, bindparam("now", type_=MOMENT))),
)


async def close(tx: AsyncConnection, ids: Collection[AdmissionId], now: int) -> None:
    """Move admissions to the history. ``now`` (seconds since the epoch): when those that were open until now closed."""
    if ids:
        await tx.execute(_CLOSE, {"ids": sorted(ids), "now": moment(now)})


_LEFT_BEHIND = (
    select(admissions.c.id)
    .where(admissions.c.state == "closed", admissions.c.id > bindparam("after", type_=BigInteger))
    .order_by(admissions.c.id)
    .limit(bindparam("rows", type_=BigInteger))
)


async def move_left_behind(
    tx: AsyncConnection, now: int, *, after: AdmissionId, rows: int
) -> AdmissionId | None:
    """Move some admissions that an older version closed without moving them. ``after``: only larger ids.

    Returns the largest id moved; None if there are no more.
    """
    ids = [AdmissionId(id_) for id_ in await tx.scalars(_LEFT_BEHIND, {"after": after, "rows": rows})]
    await close(tx, ids, now)
    return ids[-1] if ids else None
