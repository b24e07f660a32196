"""Backups in a folder: named by their time, and the oldest go when the new one is complete."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from queues.sql.backup import archive, rotation
from queues.sql.backup.archive import Manifest, NotABackup, opened
from queues.sql.backup.rotation import BackupUnderWay, backup_into, backups_in
from queues.sql.database import Database

OLD = ("muster-20261124T000000Z.backup", "muster-20261125T000000Z.backup", "muster-20261126T000000Z.backup")
#: Names that only look alike, and a folder with a name that a backup could have.
OF_OTHERS = ("muster-2026-11-26.backup", "muster-20261126T000000Z.backup.copy", "notes.txt")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (*OLD, *OF_OTHERS):
        (tmp_path / name).write_text("kept until a newer one is complete")
    (tmp_path / "muster-20200101T000000Z.backup").mkdir()
    return tmp_path


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()} - {
        ".muster-backup.lock",
        "muster-20200101T000000Z.backup",
    }


async def test_the_oldest_go_and_files_of_others_stay(muster: Database, folder: Path) -> None:
    done = await backup_into(muster, folder, keep=3)
    assert [each.name for each in done.removed] == [OLD[0]]
    assert names(folder) == {*OLD[1:], *OF_OTHERS, done.path.name}
    taken = datetime.strptime(done.path.name, "muster-%Y%m%dT%H%M%SZ.backup").replace(tzinfo=UTC)
    assert taken == done.manifest.taken_at.replace(microsecond=0)
    assert backups_in(folder)[-1] == done.path
    assert done.path.stat().st_mode & 0o777 == 0o600
    with opened(done.path) as whole:
        assert whole.manifest == done.manifest


async def test_without_a_number_all_are_kept(muster: Database, folder: Path) -> None:
    done = await backup_into(muster, folder, keep=None)
    assert names(folder) == {*OLD, *OF_OTHERS, done.path.name}


async def test_the_new_one_stays_though_the_clock_was_set_back(muster: Database, folder: Path) -> None:
    later = folder / "muster-29991231T000000Z.backup"
    later.write_text("from before the clock was set back")
    done = await backup_into(muster, folder, keep=1)
    assert backups_in(folder) == [done.path]


async def test_none_is_removed_before_the_new_one_is_complete(
    muster: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "write_to", full)
    with pytest.raises(OSError, match="No space left"):
        await backup_into(muster, folder, keep=1)
    assert names(folder) == {*OLD, *OF_OTHERS}


async def test_one_that_was_not_stored_as_written_replaces_none(
    muster: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(path: Path, manifest: Manifest, contents: Path) -> None:
        archive.write(path, manifest, contents)
        os.truncate(path, path.stat().st_size // 2)

    monkeypatch.setattr(rotation, "write", cut_off)
    with pytest.raises(NotABackup):
        await backup_into(muster, folder, keep=1)
    assert names(folder) == {*OLD, *OF_OTHERS}


async def test_what_a_run_that_was_killed_has_left_is_removed(muster: Database, folder: Path) -> None:
    leftover = folder / f"{rotation._DRAFT}abc"
    leftover.mkdir()
    (leftover / "queues").write_text("half a table")
    # Of a command that names its file itself, which may be at work.
    (folder / ".muster-backup-def").mkdir()
    done = await backup_into(muster, folder, keep=9)
    assert names(folder) == {*OLD, *OF_OTHERS, done.path.name, ".muster-backup-def"}


async def test_two_do_not_write_into_one_folder(
    muster: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = rotation.dump_tables

    async def while_another_comes(database: Database, draft: Path) -> Manifest:
        with pytest.raises(BackupUnderWay):
            await backup_into(database, folder, keep=1)
        return await dump(database, draft)

    monkeypatch.setattr(rotation, "dump_tables", while_another_comes)
    done = await backup_into(muster, folder, keep=4)
    assert names(folder) == {*OLD, *OF_OTHERS, done.path.name}
