"""A DSN in a file: what is written there counts for the next connection, and nothing has to be restarted."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import make_url, text

from admission.cli.command_line import finish
from admission.cli.muster import muster as muster_command
from deploy.local.processes import StateDirectory
from queues.errors import DatabaseError, DatabaseUnavailable
from queues.sql.database import Database, migrate, raw_connection, schema_version
from queues.sql.dsn import UnusableDsnFile, database_of, dsn_text
from queues.sql.embedded.server import EmbeddedPostgres
from tests.tables import with_rows

PID = text("SELECT pg_backend_pid()")


@pytest_asyncio.fixture(scope="module")
async def administrator() -> AsyncIterator[str]:
    """The DSN of the superuser of a server that asks the role ``rotated`` for its password."""
    state, server = StateDirectory.fresh(), EmbeddedPostgres()
    dsn = server.start(state.path / "db", durable=False)
    connection = await raw_connection(dsn)
    _ask_for_password(Path(await connection.fetchval("SHOW hba_file")))
    await connection.execute("CREATE ROLE rotated LOGIN PASSWORD 'first'")
    await connection.execute("GRANT ALL ON SCHEMA public TO rotated")
    await connection.execute("CREATE DATABASE other")
    await connection.fetchval("SELECT pg_reload_conf()")
    await connection.close()
    yield dsn
    server.stop(discard=True)
    state.close()


def _ask_for_password(rules: Path) -> None:
    rules.write_text("local all rotated scram-sha-256\n" + rules.read_text())


def dsn_with(administrator: str, password: str, database: str = "postgres") -> str:
    url = make_url(administrator).set(username="rotated", password=password, database=database)
    return url.render_as_string(hide_password=False)


async def set_password(administrator: str, password: str) -> None:
    connection = await raw_connection(administrator)
    await connection.execute(f"ALTER ROLE rotated PASSWORD '{password}'")
    await connection.close()


async def backend(of: Database) -> int:
    async with of.transaction() as tx:
        return int(await tx.scalar(PID))


async def break_connections(administrator: str) -> None:
    """As a failover does."""
    connection = await raw_connection(administrator)
    await connection.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotated'")
    await connection.close()


async def test_a_new_password_counts_for_the_next_connection(administrator: str, tmp_path: Path) -> None:
    await set_password(administrator, "first")
    file = tmp_path / "dsn"
    file.write_text(dsn_with(administrator, "first") + "\n")
    muster = await Database.connect(file)
    before = await backend(muster)

    await set_password(administrator, "second")
    assert await backend(muster) == before, "a connection that is open goes on"
    await break_connections(administrator)
    with suppress(DatabaseUnavailable):
        await backend(muster)  # finds out that it is broken
    with pytest.raises(DatabaseUnavailable, match=f"password authentication failed.*as {file} says"):
        await backend(muster)
    file.write_text(dsn_with(administrator, "second"))
    after = await backend(muster)
    another = muster.another(pool_size=1)
    await backend(another)

    assert after != before
    await another.close()
    await muster.close()


async def test_two_roles_by_turns_have_the_same_rights(administrator: str, tmp_path: Path) -> None:
    """As docs/how-to/postgres-ha.md has it."""
    connection = await raw_connection(administrator)
    await connection.execute("CREATE ROLE by_turns LOGIN")
    await connection.execute("GRANT rotated TO by_turns")
    await connection.execute("ALTER ROLE by_turns SET role = rotated")
    await connection.close()
    await set_password(administrator, "first")
    file = tmp_path / "dsn"
    file.write_text(dsn_with(administrator, "first"))
    muster = await Database.connect(file, pool_size=2)
    async with muster.transaction() as tx:
        await tx.execute(text("CREATE TABLE IF NOT EXISTS owned (a int)"))
    file.write_text(dsn_with(administrator, "").replace("rotated", "by_turns"))
    async with muster.transaction(), muster.transaction() as tx:
        users = (await tx.execute(text("SELECT session_user, current_user"))).one()
        assert tuple(users) == ("by_turns", "rotated")
        await tx.execute(text("DROP TABLE owned"))
    await muster.close()


async def test_a_wrong_password_without_a_file_is_no_outage_that_can_end(administrator: str) -> None:
    await set_password(administrator, "first")
    with pytest.raises(DatabaseError, match="password authentication failed") as caught:
        await Database.connect(dsn_with(administrator, "wrong"))
    assert not isinstance(caught.value, DatabaseUnavailable)


async def test_no_connection_to_the_database_before_is_used_beside_one_to_another(
    administrator: str, tmp_path: Path
) -> None:
    await set_password(administrator, "first")
    file = tmp_path / "dsn"
    file.write_text(dsn_with(administrator, "first"))
    muster = await Database.connect(file, pool_size=2)

    async def name() -> str:
        async with muster.transaction() as tx:
            return str(await tx.scalar(text("SELECT current_database()")))

    assert await name() == "postgres"
    file.write_text(dsn_with(administrator, "first", "other"))
    assert await name() == "postgres", "nothing was opened since"
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT current_database()")) == "postgres"
        assert await name() == "other"
    for _ in range(3):
        assert await name() == "other"
    await muster.close()


async def test_the_schema_is_made_by_a_dsn_of_a_file(administrator: str, tmp_path: Path) -> None:
    await set_password(administrator, "first")
    file = tmp_path / "dsn"
    file.write_text(dsn_with(administrator, "first"))
    await migrate(file)
    muster = await Database.connect(file)
    async with muster.transaction() as tx:
        assert await schema_version(tx)
    await muster.close()
    await migrate(file, "base")


def test_commands_in_a_pod_have_the_dsn_of_its_file(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MUSTER_DSN", raising=False)
    monkeypatch.setenv("MUSTER_DSN_FILE", str(tmp_path / "dsn"))
    assert finish(muster_command, "muster", ["migrate"]) == 1
    assert f"dsnFile: {tmp_path / 'dsn'} cannot be read" in capsys.readouterr().err.replace("\n", " ")
    (tmp_path / "dsn").write_text(database)
    assert finish(muster_command, "muster", ["migrate"]) == 0


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read"),
        (b" \n", "is empty, expected a file with postgresql://"),
        (b"\xff", "is no UTF-8"),
    ],
)
async def test_a_file_without_a_dsn_is_an_outage_that_names_it(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    file = tmp_path / "dsn"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UnusableDsnFile, match=told):
        dsn_text(file)
    muster = Database.open(file)
    with pytest.raises(DatabaseUnavailable, match=f"{file}.*{told}"):
        await backend(muster)
    await muster.close()


@with_rows("one", "other", "same")
def test_another_user_or_password_is_not_another_database(one: str, other: str, same: bool) -> None:
    assert (database_of(one) == database_of(other)) is same
