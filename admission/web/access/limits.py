"""How many requests are worked on at a time: the rest waits a moment, and what is beyond that is sent away with 429."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from queues.errors import MusterError

#: Seconds after which a client that was sent away should ask again.
RETRY_AFTER: Final = 1


class TooBusy(MusterError):
    """{who} too many requests are waiting for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """How much is done at a time."""

    #: Requests that are being answered, and that wait for it.
    at_once: int = 8
    waiting: int = 64
    #: The same of one user, both together.
    of_one: int = 16
    #: Seconds that a request waits at most.
    patience: float = 2.0


class Gate:
    """Lets requests in, a few at a time. One user cannot take it all."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(limits.at_once)
        self._waiting = 0
        self._of: Counter[Hashable] = Counter()

    @asynccontextmanager
    async def entered(self, user: Hashable) -> AsyncIterator[None]:
        """A place inside for the length of the block. Raises TooBusy."""
        if self._of[user] >= self._limits.of_one:
            raise TooBusy(who="From this user")
        if self._free.locked() and self._waiting >= self._limits.waiting:
            raise TooBusy(who="From all users")
        self._of[user] += 1
        try:
            await self._wait()
            try:
                yield
            finally:
                self._free.release()
        finally:
            self._of[user] -= 1
            if not self._of[user]:
                del self._of[user]

    async def _wait(self) -> None:
        self._waiting += 1
        try:
            async with asyncio.timeout(self._limits.patience):
                await self._free.acquire()
        except TimeoutError:
            raise TooBusy(who="From all users") from None
        finally:
            self._waiting -= 1
