"""The leader's care for the turns that are kept: one a minute, written beside the turns and stored in Postgres.

A snapshot never changes, so it is written in a thread while the turns go on. The thread shares the interpreter with
them: it works for a few milliseconds, and then rests three times as long. A turn that cannot be written or stored is
left out, and the log says so: no turn waits for one that is kept, and no term ends by it.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Final, NoReturn

from admission.engine.snapshot import Snapshot
from admission.replay.compressed import compressed_steps
from admission.turn_report import Decided
from queues.errors import DatabaseError
from queues.plan import Plan
from queues.sql.database import Database
from queues.sql.history.kept_turns import NewTurn, TurnBounds, store
from queues.sql.leadership import Term

_log = logging.getLogger(__name__)

#: Workloads and admissions above which a turn is not kept: the thread would write it for too long.
MOST_ROWS: Final = 100_000
#: Seconds for which the thread works before it rests, and how many times as long it rests.
_WORKS: Final = 0.005
_RESTS: Final = 3.0
#: Of all bytes that may be kept one turn may take this part, so that there is always a day to look back on.
_PART: Final = 8


class TurnKeeper:
    """Keeps turns of one term."""

    def __init__(
        self,
        database: Database,
        term: Term,
        bounds: TurnBounds,
        configuration: str,
        clock: Callable[[], float],
    ) -> None:
        """``configuration``: fingerprint of what decides here. ``clock`` gives seconds since the epoch."""
        self._database = database
        self._term = term
        self._bounds = bounds
        self._configuration = configuration
        self._clock = clock
        self._offered: Decided | None = None
        #: The one that is offered once the other is kept.
        self._later: Decided | None = None
        #: The turn of which was decided last whether to keep it.
        self._seen: Decided | None = None
        self._there_is_one = asyncio.Event()

    def offer(self, turn: Decided | None) -> None:
        """A turn that may be kept; None: nothing was decided yet.

        Of those that come before the next one is kept it is the first that changes the ledger; if none does, the last
        one. What is decided after it is offered again: the last turn before a quiet time is kept too.
        """
        if turn is None or turn is self._seen or not self._bounds.most_bytes:
            return
        self._seen = turn
        if self._offered is None or not self._offered.plan.changes_ledger():
            self._offered = turn
        elif self._later is None or not self._later.plan.changes_ledger():
            self._later = turn
        self._there_is_one.set()

    async def run(self) -> NoReturn:
        """Until the term is over. Raises Fenced."""
        while True:
            await self._there_is_one.wait()
            turn = self.take()
            if turn is not None:
                await self.keep(turn)
            await asyncio.sleep(self._bounds.every)

    def take(self) -> Decided | None:
        """The turn that is to be kept now; None: there is none."""
        turn, self._offered, self._later = self._offered, self._later, None
        if self._offered is None:
            self._there_is_one.clear()
        return turn

    async def keep(self, turn: Decided) -> bool:
        """Write and store a turn. False: it is left out, and the log says why. Raises Fenced."""
        snapshot = turn.snapshot
        rows = len(snapshot.pending) + len(snapshot.admissions)
        if rows > MOST_ROWS:
            return _left_out(f"{rows} workloads and admissions, expected at most {MOST_ROWS}")
        try:
            content = await _written_beside(snapshot, turn.plan, self._configuration)
        except Exception:  # whatever cannot be written is no reason to stop leading
            _log.warning("turn not kept", exc_info=True)
            return False
        most = self._bounds.most_bytes // _PART
        if len(content) > most:
            return _left_out(f"{len(content)} bytes, expected at most {most}")
        new = NewTurn(
            decided_at=snapshot.now,
            ledger_seq=snapshot.ledger_seq,
            configuration=self._configuration,
            changed=turn.plan.changes_ledger(),
            content=content,
        )
        try:
            async with self._database.transaction() as tx:
                await store(tx, self._term, new, self._bounds, int(self._clock()))
        except DatabaseError as error:
            return _left_out(str(error))
        return True


def _left_out(why: str) -> bool:
    _log.warning("turn not kept", extra={"why": why})
    return False


async def _written_beside(snapshot: Snapshot, plan: Plan, configuration: str) -> bytes:
    """The bytes of a turn, written in a thread, which ends soon if nobody waits for them any more."""
    given_up = threading.Event()

    def write() -> bytes:
        written: list[bytes] = []
        began = time.perf_counter()
        for piece in compressed_steps(snapshot, plan, configuration):
            written.append(piece)
            worked = time.perf_counter() - began
            if worked > _WORKS:
                if given_up.wait(worked * _RESTS):
                    return b""
                began = time.perf_counter()
        return b"".join(written)

    try:
        return await asyncio.to_thread(write)
    finally:
        given_up.set()
