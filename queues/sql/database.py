"""Connections, transactions and the schema's version: everything that is not a question.

Library errors end here: callers see ``queues.errors`` only. ``queues.sql.revisions`` says which migrations run when.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import asyncpg
import msgspec
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DBAPIError, DisconnectionError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as NoFreeConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from queues.errors import (
    DatabaseError,
    DatabaseTooSlow,
    DatabaseUnavailable,
    DataRefused,
    OlderReplicasAtWork,
    OutcomeUnknown,
    SchemaInUse,
    SchemaTooOld,
    UnknownRevision,
)
from queues.sql.dsn import Dsn, UnusableDsnFile, database_of, dsn_text
from queues.sql.revisions import (
    HEAD,
    READY,
    is_older_session,
    known_revisions,
    require_fitting,
    session_name,
    target_beside_older,
)

if TYPE_CHECKING:
    from alembic.config import Config

#: Seconds. Both stay below the lease, so that a stopped leader's locks are gone when its successor may come.
STATEMENT_TIMEOUT = 4.0
IDLE_TIMEOUT = 3.0
CONNECT_TIMEOUT = 5.0
#: A server that is silent for longer than the statement may take, by this much, is taken for lost.
SILENCE = 1.0

#: Key of the advisory lock that lets one migration run at a time ("muster", as a number).
MIGRATION_LOCK = 0x6D7573746572

#: Beginnings of SQLSTATEs (``queues.errors``). Of a server that went or cannot go on: what it says to COMMIT proves
#: nothing.
_SERVER_GONE = ("08", "53", "57P", "58")
#: Of transactions that did not get through this time: serialisation failure, deadlock, lock not available.
_NOT_NOW = ("40001", "40P01", "55P03")
#: Of those that did not get done in time: statement timeout, a session that was idle or a transaction that was open for
#: too long.
_TOO_SLOW = ("57014", "25P03", "25P04")
#: Of a server that takes no writes: a standby, or a primary that became one.
_READ_ONLY = "25006"
#: What the libraries raise when a server does not do what it is asked. ``InternalClientError``, a defect by its name,
#: is also what a statement gets on a connection whose server has just said why it goes.
FAILURES = (
    SQLAlchemyError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
#: Of values and rows that are refused whenever they come: data exceptions, constraints, limits of the program.
_REFUSED = ("22", "23", "54")

#: The escape of NUL in JSON, after an even number of backslashes.
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")

#: What questions are asked in; callers outside this package need no other name of the library.
Transaction = AsyncConnection


class Database:
    """A pool of connections to one Postgres."""

    def __init__(self, engine: AsyncEngine, dsn: Dsn, timeouts: tuple[float, float]) -> None:
        """``timeouts``: seconds of a statement, and of a transaction in which nothing is asked."""
        self._engine = engine
        self.dsn = dsn
        self._timeouts = timeouts
        #: Called with the outcome of each ``transaction`` (committed, refused, unavailable, stopped) and its seconds.
        self.observe: Callable[[str, float], None] | None = None

    @classmethod
    def open(
        cls,
        dsn: Dsn,
        *,
        statement_timeout: float = STATEMENT_TIMEOUT,
        idle_timeout: float = IDLE_TIMEOUT,
        pool_size: int = 8,
        read_only: bool = False,
    ) -> "Database":
        """A pool on a ``postgresql://`` DSN as libpq takes it (a directory as ``?host=``: unix socket).

        A file that has the DSN is read for each connection: a new password needs no restart. If it names another
        database, connections to the one before are used no more.

        Connects when it is used, so the server may still be down. Timeouts in seconds, 0 = none. ``read_only``: the
        server refuses writes.
        """
        settings = {
            "application_name": session_name(),
            "timezone": "UTC",
            "jit": "off",
            "statement_timeout": str(round(statement_timeout * 1000)),
            "idle_in_transaction_session_timeout": str(round(idle_timeout * 1000)),
        }
        if read_only:
            settings["default_transaction_read_only"] = "on"
        patience = statement_timeout + SILENCE if statement_timeout else None
        opener = _Opener(dsn, command_timeout=patience, server_settings=settings)
        engine = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=opener.open,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=statement_timeout or None,
            json_serializer=as_json,
            json_deserializer=msgspec.json.decode,
        )
        if isinstance(dsn, Path):
            event.listen(engine.sync_engine, "checkout", opener.check)
        return cls(engine, dsn, (statement_timeout, idle_timeout))

    def another(self, pool_size: int) -> "Database":
        """The same server with connections of their own: for another event loop, or not to wait for other users."""
        statement, idle = self._timeouts
        return Database.open(self.dsn, statement_timeout=statement, idle_timeout=idle, pool_size=pool_size)

    @classmethod
    async def connect(cls, dsn: Dsn, **options: Any) -> "Database":
        """As ``open``, and the server has answered. Raises DatabaseUnavailable or DatabaseError."""
        database = cls.open(dsn, **options)
        try:
            async with database.transaction() as tx:
                await tx.execute(text("SELECT 1"))
        except BaseException:
            await database.close()
            raise
        return database

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """One READ COMMITTED transaction, committed at the end of the block, rolled back if the block raises.

        Raises DatabaseUnavailable, DataRefused, OutcomeUnknown (connection lost during COMMIT) or DatabaseError
        in place of the libraries' errors; other errors pass through.
        """
        started, outcome = perf_counter(), "stopped"
        try:
            async with self.bare_connection() as connection:
                yield connection
                await _commit(connection)
            outcome = "committed"
        except (DatabaseUnavailable, OutcomeUnknown):
            outcome = "unavailable"
            raise
        except DatabaseError:
            outcome = "refused"
            raise
        finally:
            if self.observe is not None:
                self.observe(outcome, perf_counter() - started)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncConnection]:
        """One read-only transaction; all its statements see the same state. Raises as ``transaction``."""
        async with self.bare_connection() as connection:
            await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            yield connection

    @asynccontextmanager
    async def bare_connection(self) -> AsyncIterator[AsyncConnection]:
        """A connection; what its user does not commit is rolled back. Raises as ``transaction``."""
        with _translated():
            connection = await self._engine.connect()
        try:
            with _translated():
                yield connection
        except DatabaseUnavailable as error:
            if _sqlstate(error.__cause__) == _READ_ONLY:
                # The primary may be another server by now, which only a new connection finds.
                await connection.invalidate()
            raise
        finally:
            # The first error is what counts; a connection that cannot even roll back leaves the pool.
            with suppress(*FAILURES):
                await connection.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._engine.dispose()


class _Opener:
    """Opens the connections of a pool, and knows to which databases they are."""

    def __init__(self, dsn: Dsn, **options: Any) -> None:
        self._dsn = dsn
        self._options = options
        #: What the last connection was opened to, and each other one.
        self._database = ""
        self._of: WeakKeyDictionary[asyncpg.Connection, str] = WeakKeyDictionary()

    async def open(self) -> asyncpg.Connection:
        """A new connection. Raises what asyncpg does, and UnusableDsnFile."""
        text = dsn_text(self._dsn)
        try:
            connection = await raw_connection(text, **self._options)
        except asyncpg.InvalidAuthorizationSpecificationError as error:
            if isinstance(self._dsn, str):
                raise
            # An outage that can end: server and file get a new password one after the other.
            raise UnusableDsnFile(f"{error} (as {self._dsn} says)") from error
        self._database = self._of[connection] = database_of(text)
        return connection

    def check(self, connection: Any, *_: Any) -> None:
        """Raises DisconnectionError, at which the pool opens another one: two databases are two ledgers."""
        if self._of.get(connection.driver_connection) != self._database:
            raise DisconnectionError


def as_json(value: Any) -> str:
    """JSON as Postgres takes it: what it has no place for, the character NUL, becomes U+FFFD."""
    encoded = msgspec.json.encode(value).decode()
    return _NUL.sub(r"\1\\ufffd", encoded) if "\\u0000" in encoded else encoded


async def raw_connection(dsn: str, **options: Any) -> asyncpg.Connection:
    """One connection outside the pool: what the pool is made of, and what listens."""
    scheme, separator, rest = dsn.partition("://")
    address = f"{scheme.partition('+')[0]}{separator}{rest}"
    return await asyncpg.connect(address, timeout=CONNECT_TIMEOUT, **options)


async def migrate(dsn: Dsn, to: str = HEAD) -> None:
    """Bring the schema to a revision, up (``head``, ``0002``) or down (``base``), one caller at a time.

    ``ready``: up, as far as replicas of the version before can live with.

    Raises DatabaseUnavailable, DatabaseError, SchemaTooNew (the database's revision is unknown to this code),
    UnreleasedSchema (it is older than the first one), UnknownRevision (``to`` is), SchemaTooFarBehind (of ``ready``).
    """
    async with _migrating(dsn) as connection:
        await connection.run_sync(_migrate, to)


async def finish_migration(dsn: Dsn) -> None:
    """Run also the migrations that replicas of an older version could not live with: none is left.

    Raises as ``migrate``, and OlderReplicasAtWork: connections of an older version are open, and nothing was done.
    """
    async with _migrating(dsn) as connection:
        rows = await connection.execute(
            text("SELECT application_name FROM pg_stat_activity WHERE datname = current_database()")
        )
        older = sorted(row.application_name for row in rows if is_older_session(row.application_name or ""))
        await connection.rollback()
        if older:
            raise OlderReplicasAtWork(found=len(older), oldest=older[0], expected=session_name())
        await connection.run_sync(_migrate, HEAD)


#: Milliseconds for which a migration waits for a table that something else reads or writes, and Postgres' error then.
_MIGRATION_LOCK_TIMEOUT = 5000
_LOCKED = "55P03"


@asynccontextmanager
async def _migrating(dsn: Dsn) -> AsyncIterator[AsyncConnection]:
    """A connection without timeouts, under the lock of migrations."""
    database = await Database.connect(dsn, statement_timeout=0, idle_timeout=0, pool_size=1)
    try:
        async with database.bare_connection() as connection:
            await connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": MIGRATION_LOCK})
            # What a migration waits for makes all others wait that come after it. Migrations wait for one another.
            await connection.execute(text(f"SET lock_timeout = {_MIGRATION_LOCK_TIMEOUT}"))
            await connection.commit()
            try:
                yield connection
            except DBAPIError as error:
                if _sqlstate(error) == _LOCKED:
                    raise SchemaInUse(reason=_reason(error)) from error
                raise
            finally:
                await connection.rollback()
                await connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": MIGRATION_LOCK})
                await connection.commit()
    finally:
        await database.close()


async def schema_version(tx: AsyncConnection) -> str | None:
    """Revision of the schema found; ``None``: the database is empty."""
    return await tx.run_sync(_revision)


async def check_schema(tx: AsyncConnection) -> None:
    """Raises SchemaTooOld, UnreleasedSchema or SchemaTooNew unless the schema is one this code was written for."""
    require_fitting(await schema_version(tx))


def migrations_config() -> "Config":
    """Alembic's configuration: the migrations installed with this code."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files("migrations")).replace("%", "%%"))
    return config


def _migrate(connection: Connection, to: str) -> None:
    found = _revision(connection)
    connection.commit()
    numbers = [each.number for each in known_revisions()]
    if to not in (HEAD, READY, "base", *numbers):
        raise UnknownRevision(found=to, expected=numbers[-1])
    with suppress(SchemaTooOld):
        require_fitting(found)
    if to in (HEAD, READY):
        to = numbers[-1] if to == HEAD else target_beside_older(found)
    if to == found:
        return
    from alembic import command

    config = migrations_config()
    config.attributes["connection"] = connection
    up = to != "base" and to > (found or "")
    (command.upgrade if up else command.downgrade)(config, to)


def _revision(connection: Connection) -> str | None:
    if connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


async def _commit(connection: AsyncConnection) -> None:
    try:
        await connection.commit()
    except FAILURES as error:
        state = _sqlstate(error)
        if state is not None and not state.startswith(_SERVER_GONE):
            raise  # the server itself answered: nothing was stored
        raise OutcomeUnknown from error


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except FAILURES as error:
        raise _meaning(error) from error


def _meaning(error: BaseException) -> DatabaseError:
    """The error that callers see: ``queues.errors`` has the table."""
    state = _sqlstate(error)
    if _is_unencodable(error) or (state is not None and state.startswith(_REFUSED)):
        return DataRefused(reason=_reason(error), sqlstate=state)
    if state in _TOO_SLOW:
        return DatabaseTooSlow(reason=_reason(error), sqlstate=state)
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    no_answer = state is None and isinstance(
        error, (OSError, TimeoutError, NoFreeConnection, asyncpg.InterfaceError, asyncpg.InternalClientError)
    )
    if lost or no_answer or (state is not None and state.startswith((*_SERVER_GONE, *_NOT_NOW, _READ_ONLY))):
        return DatabaseUnavailable(reason=_reason(error), sqlstate=state)
    return DatabaseError(reason=_reason(error), sqlstate=state)


def _is_unencodable(error: BaseException) -> bool:
    """Whether a value cannot even be written as JSON: text that is not Unicode, a number beyond 64 bits."""
    if not isinstance(error, StatementError) or isinstance(error, DBAPIError):
        return False
    return isinstance(error.orig, (ValueError, OverflowError))


def _sqlstate(error: BaseException | None) -> str | None:
    original = error.orig if isinstance(error, DBAPIError) else error
    state = getattr(original, "sqlstate", None)
    return state if isinstance(state, str) else None


def _reason(error: BaseException) -> str:
    original = error.orig if isinstance(error, StatementError) and error.orig is not None else error
    text = str(original).partition("\n")[0].strip()
    if isinstance(error, asyncio.TimeoutError) and not text:
        text = "no answer in time"
    return text or type(original).__name__
