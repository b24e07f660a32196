"""The script of the chart's CronJob and the restore of docs/how-to/operate.md, run by the Postgres programs at hand."""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

import deploy
from queues.sql.embedded.programs import find

SCRIPT: Final = Path(deploy.__file__).parent / "chart" / "backup.sh"
_PAGE: Final = Path(deploy.__file__).parents[1] / "docs/how-to/operate.md"
_RESTORE: Final = re.compile(r"-- sh -c '(pg_restore [^']*)'$", re.MULTILINE)
#: The backup that the page restores.
_EXAMPLE: Final = "/backups/muster-20261126T101700Z.dump"
Ended = subprocess.CompletedProcess[str]


def back_up(dsn: str, folder: Path, *, keep: int = 48, programs: Path | None = None) -> Ended:
    """Write a backup into ``folder`` as the CronJob does. ``programs``: a folder of those that are found first."""
    return _run(SCRIPT.read_text(encoding="utf-8"), dsn, folder, keep=keep, programs=programs)


def restore(file: Path, dsn: str) -> Ended:
    """Fill an empty database by the command of the page, as the shell in the pod gets it."""
    (command,) = _RESTORE.findall(_PAGE.read_text(encoding="utf-8"))
    assert _EXAMPLE in command
    return _run(command.replace(_EXAMPLE, str(file)), dsn, file.parent)


def backups(folder: Path) -> set[str]:
    """All files of a folder but the lock, which stays."""
    return {file.name for file in folder.iterdir()} - {".muster-backup.lock"}


def _run(command: str, dsn: str, folder: Path, *, keep: int = 48, programs: Path | None = None) -> Ended:
    path = ":".join(str(part) for part in (programs, find(), os.environ["PATH"]) if part)
    address = dsn.replace("postgresql+asyncpg://", "postgresql://")
    variables = {"PATH": path, "MUSTER_DSN": address, "FOLDER": str(folder), "KEEP": str(keep)}
    return subprocess.run(
        ["sh", "-c", command], env=variables, cwd="/", capture_output=True, text=True, check=False
    )
