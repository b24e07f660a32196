"""Backups in a folder, for a schedule: each has the time in its name, and the oldest ones go."""

import fcntl
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from queues.errors import MusterError
from queues.sql.backup.archive import Manifest, NotABackup, opened, write
from queues.sql.backup.dump import dump_tables
from queues.sql.database import Database

#: Names that only this module gives. In their order they are in the order of their times.
_NAME: Final = re.compile(r"muster-\d{8}T\d{6}Z\.backup")
_LOCK: Final = ".muster-backup.lock"
#: Folders for what is not complete yet. Whoever has the lock knows that all others are leftovers.
_DRAFT: Final = ".muster-scheduled-"


class BackupUnderWay(MusterError):
    """Another `muster backup` is writing into {folder}, so nothing was written. Wait until it has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledBackup:
    """A backup that was written into a folder, and what was removed for it."""

    path: Path
    manifest: Manifest
    removed: tuple[Path, ...]


async def backup_into(database: Database, folder: Path, keep: int | None) -> ScheduledBackup:
    """Write a backup into ``folder``, read it again, and remove the oldest ones there until ``keep`` are left.

    Files with other names stay. What a run that was killed has left behind is removed. ``keep``: None: remove none.

    Raises BackupUnderWay, SchemaTooOld, SchemaTooNew, DatabaseError, OSError: no backup was removed.
    NotABackup: the file system did not keep what was written.
    """
    with _locked(folder):
        _remove_leftovers(folder)
        with tempfile.TemporaryDirectory(prefix=_DRAFT, dir=folder) as draft:
            manifest = await dump_tables(database, Path(draft))
            path = folder / _name(manifest.taken_at)
            write(path, manifest, Path(draft))
        _require_whole(path)
        removed = () if keep is None else _oldest(folder, path, keep)
        for each in removed:
            each.unlink()
    return ScheduledBackup(path=path, manifest=manifest, removed=removed)


def backups_in(folder: Path) -> list[Path]:
    """Those that ``backup_into`` has written, the oldest first."""
    return sorted(each for each in folder.iterdir() if _NAME.fullmatch(each.name) and each.is_file())


def _remove_leftovers(folder: Path) -> None:
    for leftover in folder.glob(f"{_DRAFT}*"):
        shutil.rmtree(leftover)


def _require_whole(path: Path) -> None:
    try:
        with opened(path):
            pass
    except NotABackup:
        path.unlink()  # it would count as one of those that are kept
        raise


def _oldest(folder: Path, newest: Path, keep: int) -> tuple[Path, ...]:
    """Those that are too many. The clock may have been set back: the new one stays, whatever its name."""
    others = [each for each in backups_in(folder) if each != newest]
    return tuple(others[: max(0, len(others) - (keep - 1))])


def _name(taken_at: datetime) -> str:
    return f"muster-{taken_at.astimezone(UTC):%Y%m%dT%H%M%SZ}.backup"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    # The file stays: two processes never lock two files of one name.
    with (folder / _LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupUnderWay(folder=folder) from None
        yield
