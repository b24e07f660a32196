"""Claims: space that is promised to a beneficiary while its victims leave."""

from collections.abc import Collection, Sequence

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import Claim
from queues.sql.ledger.types import LedgerTransaction
from queues.sql.seat_columns import SEAT_NAMES, to_columns
from queues.sql.statements import KEYS, JsonRows, attributes, key_rows, same, upsert_rows
from queues.sql.tables import claims
from queues.workload import WorkloadKey

_CLAIMS = JsonRows(
    *claims.c["kind", "uid", "queue", "generation", "until", "victims"],
    *(claims.c[name] for name in SEAT_NAMES),
)

_UPSERT_CLAIMS = upsert_rows(claims, _CLAIMS)

_DELETE_CLAIMS = delete(claims).where(same(claims, KEYS))


async def claim(tx: AsyncConnection, transaction: LedgerTransaction, rows: Sequence[Claim]) -> None:
    """Store claims; a later claim of the same beneficiary replaces the earlier one."""
    new = [
        {
            **attributes(row.workload, "kind", "uid"),
            **attributes(row, "queue", "generation", "until", "victims"),
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
        await tx.execute(_DELETE_CLAIMS, KEYS.rows(key_rows(keys)))
