"""When a workload was seen, and how far its admissions came when. SELECT only."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Select, any_, bindparam, func, select, union_all
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.read.rows import AdmissionTimes
from queues.sql.statements import NUMBER
from queues.sql.tables import admissions, closed_admissions, ended_workloads, workloads
from queues.workload import AdmissionId, WorkloadKey


def _of(table: Any) -> Select[Any]:
    admitted = func.coalesce(table.c.admitted_at, table.c.opened_at).label("admitted")
    times = [table.c[f"{name}_at"].label(name) for name in ("released", "bound", "running")]
    return select(table.c.id, admitted, *times).where(
        table.c.id == any_(bindparam("ids", type_=ARRAY(NUMBER)))
    )


_TIMES: Final = union_all(_of(admissions), _of(closed_admissions))


async def admission_times(
    tx: AsyncConnection, ids: Collection[AdmissionId]
) -> dict[AdmissionId, AdmissionTimes]:
    """The times of these admissions, open or closed."""
    if not ids:
        return {}
    return {
        AdmissionId(id_): AdmissionTimes(
            admitted=admitted.timestamp(),
            released=_seconds(released),
            bound=_seconds(bound),
            running=_seconds(running),
        )
        for id_, admitted, released, bound, running in await tx.execute(_TIMES, {"ids": sorted(ids)})
    }


_SEEN: Final = union_all(
    *(
        select(table.c.seen_at).where(table.c.kind == bindparam("kind"), table.c.uid == bindparam("uid"))
        for table in (workloads, ended_workloads)
    )
)


async def seen_at(tx: AsyncConnection, key: WorkloadKey) -> float | None:
    """When Muster first stored a workload, whether its object is there or not; None: nobody knows."""
    found = await tx.scalars(_SEEN, {"kind": str(key.kind), "uid": key.uid})
    return min((at.timestamp() for at in found if at is not None), default=None)


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
