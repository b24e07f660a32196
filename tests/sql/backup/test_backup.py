"""A backup is the database as of one moment, and restores into an empty database as it was."""

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import text

from queues.errors import UnknownRevision
from queues.sql.backup import dump
from queues.sql.backup.archive import NewerBackup, NotABackup, opened
from queues.sql.backup.load import DatabaseNotEmpty, MissingTable, UnknownTable, restore
from queues.sql.database import Database, check_schema, migrate, raw_connection
from queues.sql.history.partitions import ensure_partitions, partitions
from queues.sql.ledger_identity import read_identity
from queues.sql.read.world import load_world
from tests.sql.ledger_harness import NOW, LedgerHarness, eviction, gang, queue

MONDAY = datetime(2027, 1, 11, tzinfo=UTC)
#: All that could be taken for something else in COPY's text format.
ODD = "a\tb\nc\\d \\N \\. é 𝄞 '\" ,;"


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


async def contents(dsn: str) -> dict[str, list[str]]:
    """Every row of every table, as text; and what each sequence gives next."""
    connection = await raw_connection(dsn)
    try:
        names = await connection.fetch(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
        )
        found = {
            name: sorted(row[0] for row in await connection.fetch(f'SELECT t::text FROM "{name}" t'))
            for (name,) in names
        }
        found["sequences"] = [
            str(row)
            for row in await connection.fetch(
                "SELECT sequencename, coalesce(last_value, start_value - 1) FROM pg_sequences ORDER BY 1"
            )
            if row[1]
        ]
        return found
    finally:
        await connection.close()


async def backup(muster: Database, folder: Path) -> Path:
    file = folder / "muster.backup"
    await dump.backup(muster, file)
    return file


async def restored(file: Path, dsn: str) -> None:
    with opened(file) as archive:
        await restore(dsn, archive)


async def test_a_restored_database_is_the_same(
    muster: Database, database: str, ledger: LedgerHarness, empty: str, tmp_path: Path
) -> None:
    file = await backup(muster, tmp_path)
    await restored(file, empty)
    before, after = await contents(database), await contents(empty)
    assert after["sequences"] != []
    assert after == before
    assert any(ODD in row or "𝄞" in row for rows in after.values() for row in rows)

    twin = await Database.connect(empty)
    try:
        async with twin.snapshot() as tx, muster.snapshot() as original:
            await check_schema(tx)
            assert await partitions(tx, "postings") == await partitions(original, "postings")
            assert await read_identity(tx) == await read_identity(original)
            assert [each.id for each in (await load_world(tx)).admissions] == [
                each.id for each in (await load_world(original)).admissions
            ]
        # It goes on where it was: no id is given twice.
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


async def test_a_backup_sees_one_moment_and_stops_nobody(
    muster: Database, ledger: LedgerHarness, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = dump._copy

    async def while_others_write(tx: Any, name: str, *rest: Any) -> Any:
        await ledger.arrive(f"later-{name}")
        return await copy(tx, name, *rest)

    monkeypatch.setattr(dump, "_copy", while_others_write)
    await restored(await backup(muster, tmp_path), empty)
    rows = await contents(empty)
    assert not [row for row in rows["workloads"] if "later-" in row]
    async with muster.snapshot() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM workloads WHERE name LIKE 'later-%'"))


async def test_only_an_empty_database_is_filled(
    muster: Database, database: str, ledger: LedgerHarness, tmp_path: Path
) -> None:
    file = await backup(muster, tmp_path)
    before = await contents(database)
    with pytest.raises(DatabaseNotEmpty, match="Expected an empty one"):
        await restored(file, database)
    assert await contents(database) == before


async def test_a_backup_of_an_older_schema_is_brought_to_this_one(
    muster: Database, database: str, ledger: LedgerHarness, empty: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    async with muster.transaction() as tx:
        newest = await tx.scalar(text("SELECT version_num FROM alembic_version"))
    await migrate(database, "0018")

    async def any_schema(_: Any) -> None:
        """As the version of that schema would find it."""

    monkeypatch.setattr(dump, "check_schema", any_schema)
    file = await backup(muster, tmp_path)
    with opened(file) as archive:
        assert archive.manifest.schema == "0018"
    await restored(file, empty)
    await migrate(database)
    before, after = await contents(database), await contents(empty)
    assert after["alembic_version"] == [f"({newest})"]
    assert after["workloads"] == before["workloads"]


# ── files that are no backup ────────────────────────────────────────────────────────────────────────────────────


def changed(file: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """The backup again, with other content."""
    with tarfile.open(file) as tar:
        content = {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]
    change(content)
    with tarfile.open(file, "w:gz") as tar:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def manifest(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, bytes]], None]:
    def apply(content: dict[str, bytes]) -> None:
        body = json.loads(content["manifest.json"])
        change(body)
        content["manifest.json"] = json.dumps(body).encode()

    return apply


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda content: content.pop("manifest.json"), NotABackup, "lacks"),
        (lambda content: content.pop("tables/queues"), NotABackup, "lacks"),
        (lambda content: content.update({"tables/queues": b"x\n"}), NotABackup, "table queues was changed"),
        (lambda content: content.update({"manifest.json": b"[]"}), NotABackup, "cannot be read"),
        (manifest(lambda body: body.update(format=99)), NewerBackup, "format 99"),
        (manifest(lambda body: body.update(schema="head")), NotABackup, "no revision"),
        (manifest(lambda body: body["tables"].pop("admissions")), MissingTable, "lacks table admissions"),
        (manifest(lambda body: body.update(schema="9999")), UnknownRevision, "9999"),
        (manifest(lambda body: body["sequences"].update(none_such=1)), UnknownTable, "none_such"),
        (manifest(lambda body: body["sequences"].update(arrival_numbers=-5)), NotABackup, "go on with -5, which"),
        (manifest(lambda body: body["sequences"].update(arrival_numbers=2**63)), NotABackup, "which is no id"),
        (
            manifest(lambda body: body["partitions"][0].update(bound="FOR VALUES FROM ('1') TO ('2'); DROP TABLE x")),
            UnknownTable,
            "with bounds",
        ),
        (
            manifest(lambda body: body["partitions"][0].update(name='postings_"; DROP TABLE x; --')),
            UnknownTable,
            "partition",
        ),
    ],
)  # fmt: skip
async def test_a_file_that_is_no_whole_backup_is_refused(
    change: Callable[[dict[str, bytes]], None],
    error: type[Exception],
    said: str,
    muster: Database,
    ledger: LedgerHarness,
    empty: str,
    tmp_path: Path,
) -> None:
    file = await backup(muster, tmp_path)
    changed(file, change)
    with pytest.raises(error, match=said):
        await restored(file, empty)
    assert not (await contents(empty)).get("queues")


async def test_no_id_is_given_twice_though_the_file_says_so(
    muster: Database, database: str, ledger: LedgerHarness, empty: str, tmp_path: Path
) -> None:
    file = await backup(muster, tmp_path)

    def from_one(body: dict[str, Any]) -> None:
        body["sequences"] = dict.fromkeys(body["sequences"], 1)

    changed(file, manifest(from_one))
    await restored(file, empty)
    twin = await Database.connect(empty)
    try:
        await _gives_no_id_twice(twin, ledger, muster)
    finally:
        await twin.close()


@pytest.mark.parametrize(
    "content", [b"", b"no archive", gzip.compress(b"no archive", mtime=0)], ids=["empty", "text", "another"]
)
def test_another_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(NotABackup), opened(tmp_path / "file"):
        pass
    with pytest.raises(NotABackup, match="no such file"), opened(tmp_path / "nothing"):
        pass


async def test_a_backup_that_is_cut_off_is_refused(
    muster: Database, ledger: LedgerHarness, tmp_path: Path
) -> None:
    file = await backup(muster, tmp_path)
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(NotABackup), opened(file):
        pass


async def test_the_file_is_for_its_owner_and_whole_or_as_before(
    muster: Database, ledger: LedgerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = await backup(muster, tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "add", full)
    with pytest.raises(OSError, match="No space left"):
        await backup(muster, tmp_path)
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == [file.name]
