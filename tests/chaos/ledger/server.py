"""The Postgres of a run: one server, a database for each seed, and what can go wrong with it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import asyncpg

from queues.sql.database import migrate, raw_connection
from queues.sql.embedded.server import EmbeddedPostgres
from tests.chaos import row_changes
from tests.fakes import postgres_crash

#: Nothing that was committed is lost with the server; with the machine it may be.
_SETTINGS: Final = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}
_TEMPLATE: Final = "chaos_template"

_END_SESSIONS: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND pid <> pg_backend_pid()"
)
#: A clock that goes as the machine's does and can be set; sessions find it before the server's own.
_CLOCK: Final = """
CREATE SCHEMA settable_clock;
CREATE TABLE settable_clock.clock (ahead DOUBLE PRECISION NOT NULL);
INSERT INTO settable_clock.clock VALUES (0);
CREATE FUNCTION settable_clock.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN pg_catalog.clock_timestamp() + (SELECT ahead FROM settable_clock.clock) * interval '1 second';
END
$$;
"""
_PATH: Final = "public, settable_clock, pg_catalog"
_DISK: Final = """
CREATE TABLE chaos.disk (is_full BOOLEAN NOT NULL);
INSERT INTO chaos.disk VALUES (false);
CREATE FUNCTION chaos.write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT is_full FROM chaos.disk) THEN
        RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
    END IF;
    RETURN NULL;
END
$$;
"""


class ChaosPostgres:
    """One server, and one database at a time."""

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedPostgres(_SETTINGS)
        self._folder = folder
        self._lock = asyncio.Lock()
        self.database = ""

    @property
    def socket(self) -> Path:
        """Folder of its socket."""
        return Path(parse_qs(urlsplit(self._server.dsn()).query)["host"][0])

    def dsn(self, database: str | None = None) -> str:
        """Address of a database, the seed's by default, for its superuser."""
        return self._server.dsn(self.database if database is None else database)

    def start(self) -> None:
        self._server.start(self._folder)

    def stop(self) -> None:
        self._server.stop(discard=True)

    async def prepare(self, roles: Sequence[str]) -> None:
        """The database that others are cloned from; a role for each replica."""
        await self._run("postgres", f'CREATE DATABASE "{_TEMPLATE}"')
        for role in roles:
            await self._run("postgres", f'CREATE ROLE "{role}" LOGIN SUPERUSER')
        address = self.dsn(_TEMPLATE)
        await migrate(address)
        await self._run(_TEMPLATE, _CLOCK)
        await row_changes.install(address)
        tables = [*(table.name for table in row_changes.TABLES), "heartbeats"]
        full = [
            f"CREATE TRIGGER disk BEFORE INSERT OR UPDATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION chaos.write()"
            for table in tables
        ]
        await self._run(_TEMPLATE, _DISK, *full)

    async def begin(self, name: str) -> None:
        """A fresh database for one seed."""
        self.database = name
        await self._run("postgres", f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await self._run(
            "postgres",
            f'CREATE DATABASE "{name}" TEMPLATE "{_TEMPLATE}" STRATEGY wal_log',
            f'ALTER DATABASE "{name}" SET search_path = {_PATH}',
        )

    async def end(self) -> None:
        """The seed's database goes."""
        await self._run("postgres", f'DROP DATABASE IF EXISTS "{self.database}" WITH (FORCE)')

    # ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def crash(self, down: float) -> None:
        """SIGKILL; after some seconds it comes back on the same data."""
        async with self._lock:
            await asyncio.to_thread(postgres_crash.crash, self._server)
            await asyncio.sleep(down)
            await asyncio.to_thread(postgres_crash.recover, self._server)

    async def end_sessions(self) -> None:
        """All sessions of the seed's database end."""
        await self._change("postgres", _END_SESSIONS.format(self.database))

    async def set_read_only(self, on: bool) -> None:
        """New sessions may not write; those that were open end when it begins, and go on when it is over."""
        value = "SET default_transaction_read_only = on" if on else "RESET default_transaction_read_only"
        ends = [_END_SESSIONS.format(self.database)] if on else []
        await self._change("postgres", f'ALTER DATABASE "{self.database}" {value}', *ends)

    async def set_full(self, on: bool) -> None:
        """No table grows any more."""
        await self._change(self.database, f"UPDATE chaos.disk SET is_full = {on}")

    async def set_clock(self, ahead: float) -> None:
        """Its clock is set by some seconds; it stays so."""
        await self._change(self.database, f"UPDATE settable_clock.clock SET ahead = ahead + {ahead}")

    async def heal(self) -> None:
        """Everything can be read and written again."""
        await self.set_read_only(False)
        await self.set_full(False)

    async def _change(self, database: str, *statements: str) -> None:
        """Statements, while the server is up."""
        async with self._lock:
            await self._run(database, *statements)

    async def fetch(self, question: str, *values: Any) -> list[asyncpg.Record]:
        """Rows of the seed's database."""
        connection = await raw_connection(self.dsn())
        try:
            found: list[asyncpg.Record] = await connection.fetch(question, *values)
            return found
        finally:
            await connection.close()

    async def _run(self, database: str, *statements: str) -> None:
        connection = await raw_connection(
            self.dsn(database), server_settings={"default_transaction_read_only": "off"}
        )
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()
