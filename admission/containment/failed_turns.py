"""Snapshots of turns that could not be decided, kept on disk for ``muster replay``."""

import gzip
import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from admission.engine.snapshot import Snapshot
from admission.replay.snapshot_file import save
from queues.plan import Plan

_log = logging.getLogger(__name__)

#: Files that are kept, and bytes of all of them; older ones go. A small volume has room for more.
MOST_FILES: Final = 5
MOST_BYTES: Final = 8 * 2**20
#: Workloads and admissions of a snapshot above which it is not kept: writing it would take too much memory.
MOST_ROWS: Final = 30_000


def kept_files(folder: Path) -> list[Path]:
    """The turns that are kept in a folder, the newest first; a folder that is not there has none. Raises OSError."""
    return sorted(
        folder.glob("turn-*.json.gz"), key=lambda file: (file.stat().st_mtime_ns, file.name), reverse=True
    )


class FailedTurns:
    """The last few turns that could not be decided: one compressed file each, which goes with the pod."""

    def __init__(self, folder: Path, configuration: str, replica: str) -> None:
        """``configuration``: fingerprint of what decides here. ``replica``: the pod's name, in a cluster."""
        self._folder = folder
        self._configuration = configuration
        self._replica = replica

    def keep(self, snapshot: Snapshot) -> Path | None:
        """Write a file with an empty plan. None if that was not possible; the log says why. Blocks."""
        rows = len(snapshot.pending) + len(snapshot.admissions)
        if rows > MOST_ROWS:
            _log.warning("failed turn not kept", extra={"why": f"{rows} rows, expected at most {MOST_ROWS}"})
            return None
        nothing = Plan(now=snapshot.now, ledger_seq=snapshot.ledger_seq)
        content = gzip.compress(save(snapshot, nothing, self._configuration), compresslevel=3)
        if len(content) > MOST_BYTES:
            _log.warning("failed turn not kept", extra={"why": f"{len(content)} bytes"})
            return None
        path = self._folder / f"turn-{snapshot.now}-{snapshot.ledger_seq}.json.gz"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(len(content))
            path.write_bytes(content)
        except OSError as error:
            with suppress(OSError):
                path.unlink()
            _log.warning("failed turn not kept", extra={"folder": str(self._folder), "why": str(error)})
            return None
        _log.warning("failed turn kept", extra={"file": str(path), "copy": self._copying(path)})
        return path

    def _copying(self, path: Path) -> str:
        """The command that copies a turn out of the pod; it needs no shell in the image."""
        program = f"import sys; sys.stdout.buffer.write(open('{path}', 'rb').read())"
        return f'kubectl exec -n muster-system {self._replica} -- python3 -c "{program}" > {path.name}'

    def _make_room(self, size: int) -> None:
        """Remove the oldest files, so that one more of that size keeps the bounds."""
        for number, file in enumerate(kept_files(self._folder), start=1):
            size += file.stat().st_size
            if number >= MOST_FILES or size > MOST_BYTES:
                file.unlink(missing_ok=True)
