"""Fixtures for tests that need the real thing: the Kubernetes binaries, a control plane, a Postgres.

They fail, and never skip, when something is missing: a green run has tried everything.
"""

import itertools
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from sqlalchemy.engine import make_url

from deploy.local import kubernetes
from deploy.local.cluster import LocalCluster
from deploy.local.components import ClusterOptions
from deploy.local.processes import StateDirectory, die_with_parent
from queues.sql.database import Database, migrate, raw_connection
from queues.sql.embedded.server import EmbeddedPostgres
from tests.waiting import LIMIT

TEMPLATE = "muster_template"
#: Where Linux keeps files in memory, and bytes that must be free there: for the servers of all test processes.
MEMORY, ROOM = Path("/dev/shm"), 2**31
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--postgres DSN``: a server to run the SQL tests on instead of the embedded one; databases are made on it."""
    parser.addoption("--postgres", metavar="DSN", help="run the SQL tests on this server, as its superuser")


def pytest_configure() -> None:
    """A killed ``make test`` ends its tests too."""
    die_with_parent()
    # A shell without job control has what it runs in the background ignore Ctrl-C, and so would each program that
    # a test starts and ends by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Memory for processor time: at Go's default, a tenth of what an API server takes goes into garbage collection.
    os.environ.setdefault("GOGC", "400")


@pytest.fixture(scope="session")
def kubernetes_binaries() -> dict[str, Path]:
    """The path of every Kubernetes program by its name; built if need be."""
    return kubernetes.binaries()


@pytest.fixture(scope="session")
def local_cluster(kubernetes_binaries: dict[str, Path]) -> Iterator[LocalCluster]:
    """One control plane for the run, without nodes. Shared: use namespaces and node prefixes of your own."""
    with LocalCluster(options=ClusterOptions(audit="Metadata")) as cluster:
        yield cluster


class GivenServer:
    """A server that somebody else runs."""

    def __init__(self, address: str) -> None:
        self._url = make_url(address)

    def dsn(self, database: str = "postgres") -> str:
        """The SQLAlchemy URL of a database of this server."""
        return self._url.set(database=database).render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres | GivenServer]:
    """One empty server for the whole run."""
    if (address := request.config.getoption("--postgres")) is not None:
        yield GivenServer(address)
        return
    state = StateDirectory.fresh(_in_memory())
    server = EmbeddedPostgres({"max_wal_size": "128MB"})
    server.start(state.path / "db", durable=False, patience=LIMIT)
    yield server
    server.stop(discard=True)
    state.close()


def _in_memory() -> Path | None:
    """A folder whose files are in memory: on a disk, to copy a database takes ten times as long. None: no room."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        return None
    return MEMORY / f"muster-{os.getuid()}"


@pytest_asyncio.fixture(scope="session")
async def superuser(postgres_server: EmbeddedPostgres | GivenServer) -> AsyncIterator[asyncpg.Connection]:
    """A connection to no test's database, by which databases are made and dropped."""
    connection = await raw_connection(postgres_server.dsn())
    yield connection
    await connection.close()


@pytest_asyncio.fixture(scope="session")
async def migrated_template(
    postgres_server: EmbeddedPostgres | GivenServer, superuser: asyncpg.Connection
) -> str:
    """A database with the schema, to be cloned."""
    await superuser.execute(f'CREATE DATABASE "{TEMPLATE}"')
    await migrate(postgres_server.dsn(TEMPLATE))
    return TEMPLATE


@pytest_asyncio.fixture
async def database(
    postgres_server: EmbeddedPostgres | GivenServer, superuser: asyncpg.Connection, migrated_template: str
) -> AsyncIterator[str]:
    """The SQLAlchemy URL of a database of the test's own, with the schema and no rows."""
    name = f"test_{next(_numbers)}"
    await superuser.execute(f'CREATE DATABASE "{name}" TEMPLATE "{migrated_template}" STRATEGY file_copy')
    yield postgres_server.dsn(name)
    await superuser.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest_asyncio.fixture
async def muster(database: str) -> AsyncIterator[Database]:
    """A database of the test's own with the schema, connected."""
    connected = await Database.connect(database)
    yield connected
    await connected.close()
