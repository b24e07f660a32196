"""Connections, transactions and the schema's version: everything that is not a question.

Library errors end here: callers see ``queues.errors`` only.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

#: Milliseconds-accurate limits in seconds; both must stay below the lease, so that a stopped holder blocks nobody.
STATEMENT_TIMEOUT = 4.0
IDLE_TIMEOUT = 3.0


class Database:
    """A pool of connections to one Postgres."""

    def __init__(self, engine: AsyncEngine, dsn: str) -> None:
        self._engine = engine
        self.dsn = dsn

    @classmethod
    async def connect(
        cls,
        dsn: str,
        *,
        statement_timeout: float = STATEMENT_TIMEOUT,
        idle_timeout: float = IDLE_TIMEOUT,
        pool_size: int = 8,
    ) -> "Database":
        """Open a pool on a libpq-style ``postgresql://`` DSN. Raises DatabaseUnavailable, DatabaseError."""
        raise NotImplementedError

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """One READ COMMITTED transaction, committed at the end of the block, rolled back if it raises.

        Raises DatabaseUnavailable, OutcomeUnknown (connection lost during COMMIT) or DatabaseError in place of the
        libraries' errors; others pass through.
        """
        raise NotImplementedError
        yield

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncConnection]:
        """One read-only transaction whose statements all see the same moment (REPEATABLE READ)."""
        raise NotImplementedError
        yield

    async def close(self) -> None:
        """Close every connection."""
        raise NotImplementedError


async def migrate(dsn: str, to: str = "head") -> None:
    """Bring the schema to a revision, up or down. Several at once wait for one another."""
    raise NotImplementedError


async def schema_version(tx: AsyncConnection) -> str | None:
    """Revision of the schema found; ``None``: the database is empty."""
    raise NotImplementedError


async def check_schema(tx: AsyncConnection) -> None:
    """Raises SchemaTooOld or SchemaTooNew unless the schema is the one this code was written for."""
    raise NotImplementedError
