"""The times at which admissions came how far: written with changes of theirs that are written anyway."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import func, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import StageTimes
from queues.sql.ledger.types import LedgerTransaction
from queues.sql.statements import MOMENT, NUMBER, UnnestRows, moment
from queues.sql.tables import admissions
from queues.workload import AdmissionId

NO_STAGES: Final[Mapping[AdmissionId, StageTimes]] = MappingProxyType({})
_UNKNOWN: Final = StageTimes()

_TIMES: Final = ("released_at", "bound_at", "running_at")

#: For ``stage_rows``.
STAGES: Final = UnnestRows(id=NUMBER, **dict.fromkeys(_TIMES, MOMENT))
#: Columns that an update of ``admissions`` from these rows sets: the first word stands.
STAGES_TOLD: Final = {name: func.coalesce(admissions.c[name], STAGES.c[name]) for name in _TIMES}
_NOTE: Final = update(admissions).where(admissions.c.id == STAGES.c.id).values(**STAGES_TOLD)


def stage_rows(
    ids: Collection[AdmissionId], stages: Mapping[AdmissionId, StageTimes] = NO_STAGES
) -> dict[str, list[object]]:
    """The parameters of ``STAGES`` for these admissions."""
    times = [(id_, stages.get(id_, _UNKNOWN)) for id_ in sorted(ids)]
    return STAGES.rows(
        [(id_, *map(_moment, (each.released, each.bound, each.running))) for id_, each in times]
    )


def _moment(seconds: float | None) -> Any:
    return None if seconds is None else moment(seconds)


async def note_stages(
    tx: AsyncConnection, transaction: LedgerTransaction, stages: Mapping[AdmissionId, StageTimes]
) -> None:
    """Store the times of admissions that are about to be evicted or freed."""
    if stages:
        await tx.execute(_NOTE, stage_rows(stages, stages))
