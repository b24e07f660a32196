"""What a database says of the ledger in it: its id, and the term it has come to."""

from typing import Final

from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.errors import DatabaseError
from queues.ledger_record import LedgerRecord
from queues.sql.leadership import CONTROLLER
from queues.sql.tables import leases, ledger_ids

#: Ids of admissions that are left out when a ledger gets a new id: far more than any ledger gives in a time that its
#: backup does not know of.
SKIPPED: Final = 1_000_000_000

_NEW_ID: Final = func.gen_random_uuid().cast(ledger_ids.c.id.type)
_SKIP: Final = text(
    "SELECT setval(ids.name, nextval(ids.name) + :skipped)"
    " FROM (SELECT pg_get_serial_sequence('admissions', 'id')::regclass AS name) AS ids"
)


async def read_identity(tx: AsyncConnection, *, lease: str = CONTROLLER) -> LedgerRecord:
    """The ledger of this database, as of its last election. Raises DatabaseError."""
    row = (
        await tx.execute(
            select(ledger_ids.c.id, *leases.c["term", "holder"]).select_from(
                ledger_ids.outerjoin(leases, leases.c.name == lease)
            )
        )
    ).first()
    if row is None:
        raise DatabaseError(reason="ledger_ids has no row. `muster ledger adopt-cluster` makes one")
    return LedgerRecord(ledger=row.id, term=row.term or 0, holder=row.holder or "")


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
