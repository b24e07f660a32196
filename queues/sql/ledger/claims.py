"""Space that is promised while victims leave. Part of ``ledger``; read at the start of a term."""

from collections.abc import Collection, Sequence

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import Claim
from queues.sql.ledger.types import LedgerTransaction
from queues.sql.seat_columns import SEAT_TYPES, to_columns
from queues.sql.statements import NUMBER, NUMBERS, TEXT, JsonRows, UnnestRows
from queues.sql.tables import claims
from queues.workload import WorkloadKey

_NEW = JsonRows(
    kind=TEXT,
    uid=TEXT,
    queue=TEXT,
    generation=TEXT,
    until=NUMBER,
    victims=NUMBERS,
    **SEAT_TYPES,
)

_new_claims = insert(claims).from_select(_NEW.c.keys(), select(*_NEW.c))

_CLAIM = _new_claims.on_conflict_do_update(
    index_elements=list(claims.primary_key),
    set_={name: _new_claims.excluded[name] for name in _NEW.c.keys() if name not in ("kind", "uid")},  # noqa: SIM118
)

_ENDING = UnnestRows(kind=TEXT, uid=TEXT)

_DROP = delete(claims).where(claims.c.kind == _ENDING.c.kind, claims.c.uid == _ENDING.c.uid)


async def claim(tx: AsyncConnection, transaction: LedgerTransaction, rows: Sequence[Claim]) -> None:
    """Promise space; a later claim of the same beneficiary takes the place of the earlier."""
    new = [
        {
            "kind": row.workload.kind,
            "uid": row.workload.uid,
            "queue": row.queue,
            "generation": row.generation,
            "until": row.until,
            "victims": list(row.victims),
            **to_columns(row.seats),
        }
        for row in rows
    ]
    if new:
        await tx.execute(_CLAIM, _NEW.rows(new))


async def drop_claims(
    tx: AsyncConnection, transaction: LedgerTransaction, keys: Collection[WorkloadKey]
) -> None:
    """Promises that were kept, or are no good any more."""
    if keys:
        await tx.execute(_DROP, _ENDING.rows([(key.kind, key.uid) for key in sorted(keys)]))
