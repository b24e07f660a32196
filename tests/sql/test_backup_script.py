"""The script of the chart's CronJob: a backup of pg_dump that restores as it was, and the newest ones are kept."""

import fcntl
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import make_url, text

from queues.sql.database import Database, check_schema, migrate, raw_connection
from queues.sql.embedded.programs import find
from queues.sql.history.partitions import ensure_partitions, partitions
from queues.sql.ledger_identity import read_identity
from tests.backup_commands import SCRIPT, back_up, backups, restore
from tests.sql.ledger_harness import NOW, LedgerHarness, eviction, gang, queue

MONDAY = datetime(2027, 1, 11, tzinfo=UTC)
#: All that could be taken for something else in a dump.
ODD = "a\tb\nc\\d \\N \\. é 𝄞 '\" ,;"
OLD = ("muster-20200101T000000Z.dump", "muster-20210101T000000Z.dump")


@pytest_asyncio.fixture
async def ledger(muster: Database) -> LedgerHarness:
    """A ledger that is in use: admissions open and closed, postings in weeks of their own, odd text."""
    harness = await LedgerHarness.begin(muster, [queue("a"), queue("b")], {"n1": 90}, ["j1", "j2"])
    async with muster.transaction() as tx:
        for table in ("postings", "closed_admissions"):
            await ensure_partitions(tx, harness.term, table, (MONDAY - timedelta(weeks=2)).date(), weeks=5)
    verdict = await harness.admit(gang("j1", "a", "n1 n1"), gang("j2", "a", "n1"))
    first, _ = verdict.accepted.values()
    await harness.evict(eviction(first, message=ODD))
    await harness.free(first, 0, 1, at=NOW + 60)
    return harness


@pytest_asyncio.fixture
async def empty(database: str) -> AsyncIterator[str]:
    """The DSN of a database in which nothing is, next to the test's own."""
    url = make_url(database)
    name = f"{url.database}_empty"
    admin = await raw_connection(database)
    await admin.execute(f'CREATE DATABASE "{name}"')
    yield url.set(database=name).render_as_string(hide_password=False)
    await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await admin.close()


async def contents(dsn: str) -> dict[str, list[str]]:
    """Every row of every table, as text; and what each sequence has given last."""
    connection = await raw_connection(dsn)
    try:
        names = await connection.fetch(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
        )
        found = {
            name: sorted(row[0] for row in await connection.fetch(f'SELECT t::text FROM "{name}" t'))
            for (name,) in names
        }
        sequences = await connection.fetch("SELECT sequencename, last_value FROM pg_sequences ORDER BY 1")
        return found | {"sequences": [str(row) for row in sequences]}
    finally:
        await connection.close()


async def test_a_database_restored_by_the_command_of_the_page_is_the_same(
    muster: Database, database: str, ledger: LedgerHarness, empty: str, tmp_path: Path
) -> None:
    done = back_up(database, tmp_path)
    assert done.returncode == 0, done.stderr
    (name,) = backups(tmp_path)
    assert re.fullmatch(r"muster-\d{8}T\d{6}Z\.dump", name)
    assert done.stdout.startswith(f"{name}: {(tmp_path / name).stat().st_size} bytes, Postgres ")
    assert (tmp_path / name).stat().st_mode & 0o077 == 0

    done = restore(tmp_path / name, empty)
    assert done.returncode == 0, done.stderr
    await migrate(empty)
    before, after = await contents(database), await contents(empty)
    assert after == before
    assert any("𝄞" in row for rows in after.values() for row in rows)
    twin = await Database.connect(empty)
    try:
        async with twin.snapshot() as tx, muster.snapshot() as original:
            await check_schema(tx)
            assert await partitions(tx, "postings") == await partitions(original, "postings")
            assert await read_identity(tx) == await read_identity(original)
        await _gives_no_id_twice(twin, ledger, muster)
    finally:
        await twin.close()


async def _gives_no_id_twice(twin: Database, ledger: LedgerHarness, original: Database) -> None:
    """The restored database goes on with ids that the original never gave."""
    again = LedgerHarness(twin, ledger.term)
    again.seq = ledger.seq
    await again.arrive("j3")
    (new,) = (await again.admit(gang("j3", "a", "n1"))).accepted.values()
    async with original.snapshot() as tx:
        ids = await tx.scalars(text("SELECT id FROM admissions UNION SELECT id FROM closed_admissions"))
        assert new > max(ids)


async def test_a_restore_that_fails_leaves_the_database_as_it_was(
    muster: Database, database: str, ledger: LedgerHarness, empty: str, tmp_path: Path
) -> None:
    assert back_up(database, tmp_path).returncode == 0
    (name,) = backups(tmp_path)
    before = await contents(database)
    assert restore(tmp_path / name, database).returncode != 0, "it has these tables already"
    assert await contents(database) == before
    cut = tmp_path / "cut.dump"
    cut.write_bytes((tmp_path / name).read_bytes()[:-100])
    assert restore(cut, empty).returncode != 0
    assert await contents(empty) == {"sequences": []}


def test_the_newest_are_kept_and_other_files_stay(database: str, muster: Database, tmp_path: Path) -> None:
    others = {"muster-20200101T000000Z.dump.copy", "notes.txt"}
    for name in (*OLD, *others, ".muster-backup.draft"):
        (tmp_path / name).write_text("old")
    done = back_up(database, tmp_path, keep=2)
    assert done.returncode == 0, done.stderr
    (new,) = backups(tmp_path) - others - set(OLD)
    assert backups(tmp_path) == {OLD[1], new} | others
    assert done.stdout.splitlines()[1:] == [f"{OLD[0]}: removed, 2 are kept"]


def test_the_new_one_is_kept_though_the_clock_was_set_back(
    database: str, muster: Database, tmp_path: Path
) -> None:
    later = "muster-29990101T000000Z.dump"
    (tmp_path / later).write_text("of a clock that was wrong")
    assert back_up(database, tmp_path, keep=1).returncode == 0
    (new,) = backups(tmp_path)
    assert new != later


def shim(folder: Path, name: str, code: str) -> Path:
    """A program that is found instead of the real one, which is ``$real``."""
    folder.mkdir()
    (folder / name).write_text(f"#!/bin/sh\nreal={find() / name}\n{code}\n")
    (folder / name).chmod(0o755)
    return folder


def test_a_server_that_is_newer_is_refused_before_anything_is_written(
    database: str, muster: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    older = shim(tmp_path / "older", "pg_dump", 'echo "pg_dump (PostgreSQL) 14.19 (Debian 14.19-1.pgdg13+1)"')
    done = back_up(database, folder, programs=older)
    assert (done.returncode, done.stdout, list(folder.iterdir())) == (1, "", [])
    assert re.fullmatch(
        r"Postgres is version (\d+) and pg_dump only 14, so no backup was written: set the value backup.major to \1,"
        r" or backup.image to an image with pg_dump \1.\n",
        done.stderr,
    )


def test_a_server_that_is_older_is_backed_up_with_a_word_on_where_it_restores(
    database: str, muster: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    says = 'case $1 in --version) echo "pg_dump (PostgreSQL) 99.1";; *) exec "$real" "$@";; esac'
    done = back_up(database, folder, programs=shim(tmp_path / "newer", "pg_dump", says))
    assert done.returncode == 0, done.stderr
    assert "restore the backup into Postgres 99, or set the value backup.major to" in done.stdout
    assert len(backups(folder)) == 1


#: What goes wrong after pg_dump has said that all is well: code of a pg_dump that writes --file and breaks it.
DAMAGE = {
    "cut": "truncate -s -100 .muster-backup.draft",
    "empty": ": > .muster-backup.draft",
    "overwritten": (
        "size=$(wc -c < .muster-backup.draft); dd if=/dev/zero of=.muster-backup.draft conv=notrunc"
        " bs=1 seek=$((size - 160)) count=64 2> /dev/null"
    ),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_the_volume_did_not_keep_is_no_backup_and_no_other_is_removed_for_it(
    damage: str, database: str, ledger: LedgerHarness, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    for name in OLD:
        (folder / name).write_text("old")
    code = f'"$real" "$@" || exit; case $1 in --version) ;; *) {damage};; esac'
    done = back_up(database, folder, keep=1, programs=shim(tmp_path / "damaging", "pg_dump", code))
    assert done.returncode != 0
    assert done.stderr
    assert backups(folder) == set(OLD)


def test_a_database_that_is_not_muster_s_is_no_backup(
    database: str, muster: Database, empty: str, tmp_path: Path
) -> None:
    (tmp_path / OLD[0]).write_text("old")
    done = back_up(empty, tmp_path, keep=1)
    assert done.returncode == 1
    assert "none of Muster's tables" in done.stderr
    assert backups(tmp_path) == {OLD[0]}


def test_a_database_that_does_not_answer_is_an_error_and_nothing_is_removed(tmp_path: Path) -> None:
    (tmp_path / OLD[0]).write_text("old")
    done = back_up("postgresql://muster@127.0.0.1:1/muster", tmp_path, keep=1)
    assert done.returncode != 0
    assert "127.0.0.1" in done.stderr
    assert backups(tmp_path) == {OLD[0]}


def test_two_do_not_write_at_once(database: str, muster: Database, tmp_path: Path) -> None:
    with (tmp_path / ".muster-backup.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = back_up(database, tmp_path)
    assert (done.returncode, backups(tmp_path)) == (1, set())
    assert "Another backup is being written" in done.stderr
    assert back_up(database, tmp_path).returncode == 0


def test_kubernetes_takes_nothing_in_the_script_for_a_variable_of_its_own() -> None:
    """In arguments of a container ``$$`` is one dollar, and ``$(NAME)`` a variable."""
    script = SCRIPT.read_text(encoding="utf-8")
    assert "$$" not in script
    assert not re.search(r"\$\((MUSTER_DSN|FOLDER|KEEP)\)", script)
