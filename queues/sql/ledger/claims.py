"""Claims: space that is promised to a beneficiary while its victims leave."""

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

_CLAIMS = JsonRows(
    kind=TEXT,
    uid=TEXT,
    queue=TEXT,
    generation=TEXT,
    until=NUMBER,
    victims=NUMBERS,
    **SEAT_TYPES,
)

_new_claims = insert(claims).from_select(_CLAIMS.c.keys(), select(*_CLAIMS.c))

_UPSERT_CLAIMS = _new_claims.on_conflict_do_update(
    index_elements=list(claims.primary_key),
    set_={name: _new_claims.excluded[name] for name in _CLAIMS.c.keys() if name not in ("kind", "uid")},  # noqa: SIM118
)

_ENDED_CLAIMS = UnnestRows(kind=TEXT, uid=TEXT)

_DELETE_CLAIMS = delete(claims).where(
    claims.c.kind == _ENDED_CLAIMS.c.kind, claims.c.uid == _ENDED_CLAIMS.c.uid
)


async def claim(tx: AsyncConnection, transaction: LedgerTransaction, rows: Sequence[Claim]) -> None:
    """Store claims; a later claim of the same beneficiary replaces the earlier one."""
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
        await tx.execute(_UPSERT_CLAIMS, _CLAIMS.rows(new))


async def drop_claims(
    tx: AsyncConnection, transaction: LedgerTransaction, keys: Collection[WorkloadKey]
) -> None:
    """Delete the claims of these beneficiaries."""
    if keys:
        await tx.execute(_DELETE_CLAIMS, _ENDED_CLAIMS.rows([(key.kind, key.uid) for key in sorted(keys)]))
