"""Writes that can wait, statuses and events: how fast they go, and how long they are held."""

import asyncio
from collections.abc import Callable
from typing import Final

#: While pods are being released only what is overdue by so many seconds is written, and more slowly.
HOLD: Final = 15.0
PER_SECOND_BUSY: Final = 20.0
#: Seconds between two looks at whether that is over.
BUSY_LOOK: Final = 0.25


class RateLimiter:
    """Spaces writes evenly, at the rate that the moment allows."""

    def __init__(self, busy: Callable[[], bool], normal: float, when_busy: float) -> None:
        self._busy = busy
        self._normal = normal
        self._when_busy = when_busy
        self._next = 0.0

    async def wait(self) -> None:
        """Return when the next write may go."""
        now = asyncio.get_running_loop().time()
        rate = self._when_busy if self._busy() else self._normal
        turn = max(now, self._next)
        self._next = turn + 1.0 / rate
        if turn > now:
            await asyncio.sleep(turn - now)
