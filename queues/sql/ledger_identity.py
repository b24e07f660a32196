"""What a database says of the ledger in it: its id, the term it has come to, and the nonces its cluster may have."""

from typing import Final

from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.errors import DatabaseError
from queues.ledger_record import LedgerRecord
from queues.sql.leadership import CONTROLLER, Term, check_term
from queues.sql.tables import leases, ledger_ids

#: Ids of admissions that are left out when a ledger gets a new id: far more than any ledger gives in a time that its
#: backup does not know of.
SKIPPED: Final = 1_000_000_000

_NEW_ID: Final = func.gen_random_uuid().cast(ledger_ids.c.id.type)
_SKIP: Final = text(
    "SELECT setval(ids.name, nextval(ids.name) + :skipped)"
    " FROM (SELECT pg_get_serial_sequence('admissions', 'id')::regclass AS name) AS ids"
)


async def read_identity(tx: AsyncConnection) -> LedgerRecord:
    """The ledger of this database, as of its last election. Raises DatabaseError."""
    row = (
        await tx.execute(
            select(*ledger_ids.c["id", "nonce", "next_nonce"], *leases.c["term", "holder"]).select_from(
                ledger_ids.outerjoin(leases, leases.c.name == CONTROLLER)
            )
        )
    ).first()
    if row is None:
        raise DatabaseError(reason="ledger_ids has no row. `muster ledger adopt-cluster` makes one")
    return LedgerRecord(
        ledger=row.id,
        term=row.term or 0,
        holder=row.holder or "",
        nonce=row.nonce,
        other_nonce=row.next_nonce,
    )


async def replace_nonce(tx: AsyncConnection, term: Term, recorded: str) -> None:
    """The cluster has recorded the next nonce: from now on another one is next. Raises Fenced, DatabaseError.

    ``recorded``: what the cluster has. If it is next no more, nothing is changed.
    """
    await check_term(tx, term)
    ids = ledger_ids.c
    await tx.execute(
        update(ledger_ids).where(ids.next_nonce == recorded).values(nonce=ids.next_nonce, next_nonce=_NEW_ID)
    )


async def renew_identity(tx: AsyncConnection) -> None:
    """Make it a ledger of its own: other databases with the id that it had are other ledgers from now on.

    Admissions that it does not know may have been given by one of those, and pods carry their ids. So its own go on far
    beyond.
    """
    await tx.execute(
        insert(ledger_ids)
        .values(id=_NEW_ID)
        .on_conflict_do_update(index_elements=[ledger_ids.c.single], set_={"id": _NEW_ID})
    )
    await tx.execute(_SKIP, {"skipped": SKIPPED})
