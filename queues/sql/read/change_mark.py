"""A mark that differs whenever answers about queues, workloads and decisions may: cheap enough for each second."""

import hashlib
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

#: The last ledger transaction, the last version of a queue, and what heartbeats say of how old the data is.
_MARK: Final = text(
    "SELECT (SELECT string_agg(name || ' ' || ledger_seq, ',' ORDER BY name) FROM fences),"
    " (SELECT max(version) FROM queue_versions),"
    " (SELECT string_agg(lease || ' ' || term || ' ' || behind, ',' ORDER BY lease) FROM heartbeats)"
)


async def change_mark(tx: AsyncConnection) -> str:
    """The mark of the present state; it shows only whether it is the same."""
    (row,) = await tx.execute(_MARK)
    return hashlib.blake2b(repr(tuple(row)).encode(), digest_size=9).hexdigest()
