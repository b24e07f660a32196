"""Traces of gangs that run, or have ended: what the ledger has of them is read while turns go on, and sent.

The transaction that makes an admission ready, or closes it before, is made once, whichever replica leads; the leader
that made it sends the trace. What it has not sent when it is killed is lost: a second or so.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Final, NoReturn

from admission.tracing.sender import SPANS, SpanCounts, TraceSender
from queues.errors import DatabaseError
from queues.sql.database import Database
from queues.sql.read.over_time.traced import traced_admissions
from queues.workload import AdmissionId

_log = logging.getLogger(__name__)

#: Admissions that wait to be read at most, and those that one statement reads.
MOST: Final = 10_000
READ: Final = 200
#: Seconds between two such statements, and after one that failed.
PAUSE: Final = 0.5
AFTER_FAILURE: Final = 5.0
#: How often in a row the same admissions are tried.
_ATTEMPTS: Final = 12


class GangTraces:
    """The traces of one replica."""

    def __init__(self, database: Database, sender: TraceSender) -> None:
        self._database = database
        self._sender = sender
        self._ids: deque[AdmissionId] = deque()
        self._there_are_some = asyncio.Event()

    @property
    def counts(self) -> SpanCounts:
        """Of this process so far."""
        return self._sender.counts

    def note(self, ids: Iterable[AdmissionId]) -> None:
        """These admissions got as far as they will: committed."""
        for id_ in ids:
            if len(self._ids) >= MOST:
                self._sender.drop("queue", SPANS)
            else:
                self._ids.append(id_)
        if self._ids:
            self._there_are_some.set()

    async def run(self) -> NoReturn:
        """Until the process ends."""
        failures = 0
        while True:
            await self._there_are_some.wait()
            failures += 1
            if await self._read(last_attempt=failures == _ATTEMPTS) or failures == _ATTEMPTS:
                failures = 0
            await asyncio.sleep(AFTER_FAILURE if failures else PAUSE)

    async def close(self, seconds: float) -> None:
        """Send what is left, for at most so many seconds."""
        try:
            async with asyncio.timeout(seconds / 2):
                while self._ids and await self._read(last_attempt=True):
                    pass
        except TimeoutError:
            pass
        self._sender.drop("ledger", len(self._ids) * SPANS)
        self._ids.clear()
        await asyncio.to_thread(self._sender.close, seconds / 2)

    async def _read(self, *, last_attempt: bool) -> bool:
        """Read some admissions, and send their traces. False: the ledger cannot be read now."""
        ids = [self._ids[index] for index in range(min(READ, len(self._ids)))]
        try:
            async with self._database.snapshot() as tx:
                found = await traced_admissions(tx, ids)
        except DatabaseError as error:
            if not last_attempt:
                return False
            _log.warning("traces are dropped", extra={"why": str(error)})
            self._sender.drop("ledger", len(ids) * SPANS)
            self._forget(len(ids))
            return False
        for admission in found:
            self._sender.offer(admission)
        self._forget(len(ids))
        return True

    def _forget(self, number: int) -> None:
        for _ in range(number):
            self._ids.popleft()
        if not self._ids:
            self._there_are_some.clear()
