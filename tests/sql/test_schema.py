"""The schema and the way there."""

import asyncio
import logging
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from admission import controller
from queues.errors import OlderReplicasAtWork, SchemaInUse, SchemaTooNew, SchemaTooOld, UnreleasedSchema
from queues.sql import database as database_module
from queues.sql.database import (
    Database,
    check_schema,
    finish_migration,
    migrate,
    migrations_config,
    raw_connection,
    schema_version,
)
from queues.sql.embedded.server import EmbeddedPostgres
from queues.sql.ledger_identity import read_identity
from queues.sql.revisions import known_revisions
from queues.sql.tables import is_ours, metadata
from tests.fixtures_local import GivenServer
from tests.waiting import LIMIT

NEWEST = known_revisions()[-1].number


def differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(
        connection, opts={"include_name": is_ours, "compare_server_default": True, "compare_type": True}
    )
    return list(compare_metadata(context, metadata))


async def tables_there(database: Database) -> set[str]:
    async with database.transaction() as tx:
        rows = await tx.execute(
            text("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        )
        return {row.relname for row in rows}


async def test_migrations_go_up_and_down_and_up_again(database: str, muster: Database) -> None:
    there = await tables_there(muster)
    assert "admissions" in there

    await migrate(database, "base")
    assert await tables_there(muster) <= {"alembic_version", "alembic_version_pkc"}

    await migrate(database)
    assert await tables_there(muster) == there
    async with muster.transaction() as tx:
        await check_schema(tx)


async def test_a_new_schema_has_a_root_and_an_id_of_its_ledger_and_no_other_row(muster: Database) -> None:
    rows = {}
    async with muster.transaction() as tx:
        for table in metadata.sorted_tables:
            rows[table.name] = await tx.scalar(text(f'SELECT count(*) FROM "{table.name}"'))
        assert {name: count for name, count in rows.items() if count} == {"queues": 1, "ledger_ids": 1}
        assert await tx.scalar(text("SELECT name FROM queues")) == "root"
        assert (await read_identity(tx)).ledger


async def test_the_owner_of_the_database_needs_no_other_right(
    postgres_server: EmbeddedPostgres | GivenServer,
) -> None:
    dsn = postgres_server.dsn("owned")
    connection = await raw_connection(postgres_server.dsn())
    try:
        await connection.execute("CREATE ROLE owner_of_a_ledger")
        await connection.execute("CREATE DATABASE owned OWNER owner_of_a_ledger")
        await migrate(f"{dsn}{'&' if '?' in dsn else '?'}role=owner_of_a_ledger")
        owned = await raw_connection(dsn)
        owners = {
            row["tableowner"]
            for row in await owned.fetch("SELECT tableowner FROM pg_tables WHERE schemaname = 'public'")
        }
        await owned.close()
        assert owners == {"owner_of_a_ledger"}
    finally:
        await connection.execute("DROP DATABASE IF EXISTS owned WITH (FORCE)")
        await connection.execute("DROP ROLE IF EXISTS owner_of_a_ledger")
        await connection.close()


def test_revisions_are_named_by_their_files_in_their_order() -> None:
    script = ScriptDirectory.from_config(migrations_config())
    known = [each.revision for each in script.walk_revisions()][::-1]
    for file, revision in zip(sorted(Path(script.versions).glob("[0-9]*.py")), known, strict=True):
        assert file.name.startswith(f"{revision}_")


#: In a process of its own: others have loaded alembic here.
_WITHOUT_ALEMBIC = """
import asyncio, sys
from queues.sql.database import Database, check_schema, migrate
async def main():
    await migrate(sys.argv[1])
    database = await Database.connect(sys.argv[1])
    async with database.transaction() as tx:
        await check_schema(tx)
    await database.close()
asyncio.run(main())
print(sorted(name for name in sys.modules if name.startswith("alembic")))
"""


def test_an_index_on_a_table_that_exists_is_built_beside_its_writers() -> None:
    for path in sorted(Path("migrations/versions").glob("0*.py")):
        text = path.read_text()
        made = set(re.findall(r"CREATE TABLE (\w+)|create_table\(\s*\"(\w+)", text))
        indexes = re.findall(r"CREATE (?:UNIQUE )?INDEX .*? ON (\w+)|op\.create_index\((.*?)\)", text, re.S)
        on_existing = [each for each in indexes if each[0] not in {name for names in made for name in names}]
        if on_existing:
            assert "autocommit_block" in text, path.name
            assert text.upper().count("CONCURRENTLY") >= len(on_existing), path.name


def test_a_schema_that_is_as_it_should_be_is_left_without_loading_what_migrates(database: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _WITHOUT_ALEMBIC, database], capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"


async def test_the_tables_in_the_code_are_the_tables_in_the_database(muster: Database) -> None:
    async with muster.transaction() as tx:
        assert await tx.run_sync(differences) == []
        await tx.execute(text("ALTER TABLE queues DROP COLUMN paused CASCADE"))
        assert await tx.run_sync(differences) != []
        await tx.rollback()


async def test_several_migrations_at_once_wait_for_one_another(database: str) -> None:
    await migrate(database, "base")
    await asyncio.gather(*(migrate(database) for _ in range(4)))
    muster = await Database.connect(database)
    async with muster.transaction() as tx:
        assert await schema_version(tx) is not None
        await check_schema(tx)
    await muster.close()


async def test_a_migration_does_not_make_others_wait_for_a_table_that_is_in_use(
    database: str, muster: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_MIGRATION_LOCK_TIMEOUT", 50)
    async with muster.transaction() as tx:
        of_ours = "relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
        for name in (await tx.scalars(text(f"SELECT relname FROM pg_class WHERE {of_ours}"))).all():
            if not name.startswith("alembic"):
                await tx.execute(text(f'SELECT FROM "{name}" LIMIT 0'))
        async with asyncio.timeout(LIMIT):
            with pytest.raises(SchemaInUse, match="Run `muster migrate` again"):
                await migrate(database, "base")
    async with muster.transaction() as tx:
        await check_schema(tx)
    await migrate(database, "base")
    async with muster.transaction() as tx:
        assert await schema_version(tx) is None


async def test_an_old_schema_says_what_to_do(database: str) -> None:
    await migrate(database, "base")
    muster = await Database.connect(database)
    with pytest.raises(SchemaTooOld, match="run `muster migrate`"):
        async with muster.transaction() as tx:
            await check_schema(tx)
    await muster.close()


async def test_a_schema_from_the_future_is_left_alone(database: str, muster: Database) -> None:
    async with muster.transaction() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaTooNew, match="revision 9999"):
        async with muster.transaction() as tx:
            await check_schema(tx)
    with pytest.raises(SchemaTooNew):
        await migrate(database)


@pytest.mark.parametrize("revision", ["0001", "0013", "0022", "0029"])
async def test_a_schema_of_an_unreleased_version_is_left_untouched(
    database: str, muster: Database, revision: str
) -> None:
    async with muster.transaction() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = :it"), {"it": revision})
        await tx.execute(text("DROP TABLE past_use_sums"))
        await tx.execute(text("CREATE TABLE kept_turns (id bigint)"))
    there = await tables_there(muster)

    async def check(dsn: str) -> None:
        async with muster.transaction() as tx:
            await check_schema(tx)

    ways: list[Callable[[str], Awaitable[None]]] = [
        *(migrate, finish_migration, check),
        *(partial(migrate, to=to) for to in ("ready", "base", "0030")),
    ]
    for way in ways:
        with pytest.raises(
            UnreleasedSchema, match=f"revision {revision}.*left as it is.*by adopting"
        ) as told:
            await way(database)
        assert "\n" not in str(told.value)
    assert await tables_there(muster) == there
    async with muster.transaction() as tx:
        assert await schema_version(tx) == revision


async def test_command_and_controller_say_in_one_sentence_that_the_schema_is_of_an_unreleased_version(
    database: str, muster: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with muster.transaction() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = '0029'"))
    command = [sys.executable, "-m", "admission.cli.muster", "migrate", "--dsn", database]
    failed = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert len(failed.stderr.splitlines()) == 1
    assert "unreleased version of Muster (schema revision 0029" in failed.stderr

    # The controller says it once, and goes on when it finds another database.
    looks = 0

    async def look_again(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            async with muster.transaction() as tx:
                await tx.execute(text(f"UPDATE alembic_version SET version_num = '{NEWEST}'"))

    monkeypatch.setattr(controller.asyncio, "sleep", look_again)
    with caplog.at_level(logging.WARNING, logger=controller.__name__):
        outage: Any = SimpleNamespace(note=lambda _: None)
        await controller._migrate_when_up(muster, outage)
    (said,) = caplog.records
    assert "unreleased version of Muster" in str(getattr(said, "why", ""))
    assert looks == 3


async def test_the_rest_of_the_migrations_waits_until_no_older_version_is_connected(database: str) -> None:
    await migrate(database, "base")
    old = await raw_connection(database, server_settings={"application_name": "muster 0001"})
    with pytest.raises(OlderReplicasAtWork, match=r"^1 connections .*'muster 0001'.*Nothing was done"):
        await finish_migration(database)
    muster = await Database.connect(database)
    async with muster.transaction() as tx:
        assert await schema_version(tx) is None

    await old.close()
    # Its backend is gone a moment after the connection.
    async with asyncio.timeout(LIMIT), muster.transaction() as tx:
        while await tx.scalar(
            text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'muster 0001'")
        ):
            await tx.commit()
    await finish_migration(database)
    async with muster.transaction() as tx:
        await check_schema(tx)
    await muster.close()
