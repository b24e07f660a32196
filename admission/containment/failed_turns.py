"""Snapshots of turns that could not be decided, kept on disk and in Postgres for ``muster replay``."""

import asyncio
import gzip
import logging
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from admission.engine.snapshot import Snapshot
from admission.replay.snapshot_file import save
from queues.errors import DatabaseError
from queues.plan import Plan
from queues.sql.database import Database
from queues.sql.history.failed_turns import store

_log = logging.getLogger(__name__)

#: Files that are kept, and bytes of all of them; older ones go. A small volume has room for more.
MOST_FILES: Final = 5
MOST_BYTES: Final = 8 * 2**20
#: Workloads and admissions of a snapshot above which it is not kept: writing it would take too much memory.
MOST_ROWS: Final = 30_000

#: Turns that wait in memory for Postgres, and seconds between two looks for some.
_MOST_UNSTORED: Final = 2
_STORE_EVERY: Final = 5.0


def kept_files(folder: Path) -> list[Path]:
    """The turns that are kept in a folder, the newest first; a folder that is not there has none. Raises OSError."""
    return sorted(
        folder.glob("turn-*.json.gz"), key=lambda file: (file.stat().st_mtime_ns, file.name), reverse=True
    )


class FailedTurns:
    """The last few turns that could not be decided: one compressed file each, which goes with the pod, and in Postgres.

    Either is there for the time when the other one fails.
    """

    def __init__(self, folder: Path, configuration: str) -> None:
        """``configuration``: fingerprint of what decides here."""
        self._folder = folder
        self._configuration = configuration
        #: Names and contents that Postgres does not have yet; written by the threads that keep turns.
        self._unstored: deque[tuple[str, bytes]] = deque(maxlen=_MOST_UNSTORED)

    def keep(self, snapshot: Snapshot) -> Path | None:
        """Write a file with an empty plan; None: it was not possible, and the log says why. Blocks."""
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
        self._unstored.append((path.name, content))
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(len(content))
            path.write_bytes(content)
        except OSError as error:
            with suppress(OSError):
                path.unlink()
            _log.warning("failed turn not kept", extra={"folder": str(self._folder), "why": str(error)})
            return None
        return path

    async def run(self, database: Database, replica: str) -> NoReturn:
        """Store in Postgres what is kept, as long as this replica runs, leading or not."""
        told = False
        while True:
            try:
                await self.store_waiting(database, replica)
                told = False
            except DatabaseError as error:
                if not told:
                    _log.warning("failed turn not stored yet", extra={"why": str(error)})
                told = True
            await asyncio.sleep(_STORE_EVERY)

    async def store_waiting(self, database: Database, replica: str) -> None:
        """Store the turns that Postgres does not have yet. Raises DatabaseError; the rest goes on waiting."""
        while self._unstored:
            name, content = turn = self._unstored[0]
            async with database.transaction() as tx:
                await store(tx, name, replica, content, int(time.time()))
            if self._unstored and self._unstored[0] is turn:  # else a newer one has taken its place
                self._unstored.popleft()
            _log.info("failed turn stored", extra={"turn": name, "bytes": len(content)})

    def _make_room(self, size: int) -> None:
        """Remove the oldest files, so that one more of that size keeps the bounds."""
        for number, file in enumerate(kept_files(self._folder), start=1):
            size += file.stat().st_size
            if number >= MOST_FILES or size > MOST_BYTES:
                file.unlink(missing_ok=True)
