"""Admissions are taken back; what that means for the next try of their workloads."""

from collections.abc import Mapping, Sequence

from sqlalchemy import bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.given import MOMENT, NUMBER, TEXT, Given, moment
from queues.sql.handover import Entry, TakenBack
from queues.sql.tables import admissions, backoffs
from queues.workload import AdmissionId

_LEAVING = Given(
    id=NUMBER, code=TEXT, message=TEXT, not_before=NUMBER, beneficiary_kind=TEXT, beneficiary_uid=TEXT
)
_EVICT = (
    update(admissions)
    .where(admissions.c.id == _LEAVING.c.id, admissions.c.state == "open")
    .values(
        state="evicting",
        evicted_at=bindparam("now", type_=MOMENT),
        cause_code=_LEAVING.c.code,
        cause_message=_LEAVING.c.message,
        beneficiary_kind=_LEAVING.c.beneficiary_kind,
        beneficiary_uid=_LEAVING.c.beneficiary_uid,
    )
    .returning(
        admissions.c.id,
        admissions.c.kind,
        admissions.c.uid,
        _LEAVING.c.not_before,
        _LEAVING.c.beneficiary_uid,
    )
)


async def evict(tx: AsyncConnection, entry: Entry, rows: Sequence[TakenBack]) -> frozenset[AdmissionId]:
    """Start taking admissions back; returns those that were open until now.

    Their seats stay held until they are freed. A workload that must wait before the next try has one rollback
    more; one that goes for somebody else has one eviction more, however many admissions it loses, and waits anew.
    """
    if not rows:
        return frozenset()
    leaving = [
        (
            row.admission,
            row.code,
            row.message,
            row.not_before,
            row.beneficiary.kind if row.beneficiary else None,
            row.beneficiary.uid if row.beneficiary else None,
        )
        for row in {row.admission: row for row in rows}.values()
    ]
    result = await tx.execute(_EVICT, _LEAVING.rows(leaving) | {"now": moment(entry.now)})
    evicted = result.all()
    await _back_off(
        tx, entry, {(row.kind, row.uid): (row.not_before, row.beneficiary_uid) for row in evicted}
    )
    return frozenset(AdmissionId(row.id) for row in evicted)


_WAITING = Given(
    kind=TEXT, uid=TEXT, not_before=NUMBER, rollbacks=NUMBER, evictions=NUMBER, waiting_since=NUMBER
)
_new_backoffs = insert(backoffs).from_select(_WAITING.c.keys(), select(*_WAITING.c))
_BACK_OFF = _new_backoffs.on_conflict_do_update(
    index_elements=list(backoffs.primary_key),
    set_={
        "not_before": func.greatest(backoffs.c.not_before, _new_backoffs.excluded.not_before),
        "rollbacks": backoffs.c.rollbacks + _new_backoffs.excluded.rollbacks,
        "evictions": backoffs.c.evictions + _new_backoffs.excluded.evictions,
        "waiting_since": func.greatest(backoffs.c.waiting_since, _new_backoffs.excluded.waiting_since),
    },
)


async def _back_off(
    tx: AsyncConnection, entry: Entry, evicted: Mapping[tuple[str, str], tuple[int, str | None]]
) -> None:
    rows = [
        (*key, time, int(time > 0), int(beneficiary is not None), entry.now if beneficiary is not None else 0)
        for key, (time, beneficiary) in sorted(evicted.items())
        if time > 0 or beneficiary is not None
    ]
    if rows:
        await tx.execute(_BACK_OFF, _WAITING.rows(rows))
