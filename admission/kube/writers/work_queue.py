"""How what is under way ends when a term does.

Writes that can wait: how fast they go, and how many went.

Looking again though nothing was seen to change: after a pause that grows from failure to failure.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar


async def cancelled(under_way: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these, and wait until they are over."""
    tasks = list(under_way)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


#: While pods are being let go only what is overdue by so many seconds is written, and more slowly.
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


@dataclass(slots=True)
class StatusCounts:
    """For metrics."""

    written: int = 0
    unchanged: int = 0
    failed: int = 0
    events: int = 0
    events_dropped: int = 0


Key = TypeVar("Key")

#: Seconds.
FIRST_PAUSE: Final = 0.2

LONGEST_PAUSE: Final = 30.0


def pause_after(failures: int) -> float:
    """Seconds to wait after so many failures in a row, doubled each time; 0: what changed meanwhile is no failure."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 10))


class Wakeup:
    """Rings once, on the running event loop, and can be set again."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def ring_by(self, pause: float) -> None:
        """Ring after this pause at the latest: an alarm that is set for earlier stays as it is."""
        if self._timer is None or self._timer.when() > asyncio.get_running_loop().time() + pause:
            self.ring_in(pause)

    def ring_in(self, pause: float) -> float:
        """Ring after just this pause, whatever was set before. Returns the time of the loop then."""
        loop = asyncio.get_running_loop()
        self.cancel()
        if self._stopped:
            return loop.time() + pause
        self._timer = loop.call_later(pause, self._rings)
        return self._timer.when()

    def _rings(self) -> None:
        self._timer = None
        self._ring()

    def cancel(self) -> None:
        """Do not ring, unless it is set again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stop(self) -> None:
        """Never ring again, though somebody who is on his way out sets it once more."""
        self._stopped = True
        self.cancel()


class KeyedWakeups(Generic[Key]):
    """An alarm for each of many."""

    def __init__(self, ring: Callable[[Key], None]) -> None:
        self._ring = ring
        self._set: dict[Key, Wakeup] = {}
        self._stopped = False

    def ring_by(self, key: Key, pause: float) -> None:
        """Ring for this one after this pause at the latest."""
        self._of(key).ring_by(pause)

    def ring_in(self, key: Key, pause: float) -> float:
        """Ring for this one after just this pause. Returns the time of the loop then."""
        return self._of(key).ring_in(pause)

    def _of(self, key: Key) -> Wakeup:
        alarm = self._set.get(key) or Wakeup(partial(self._rings, key))
        if self._stopped:
            alarm.stop()
        else:
            self._set[key] = alarm
        return alarm

    def _rings(self, key: Key) -> None:
        del self._set[key]
        self._ring(key)

    def cancel(self, key: Key) -> None:
        """Do not ring for this one, unless it is set again."""
        alarm = self._set.pop(key, None)
        if alarm is not None:
            alarm.cancel()

    def __len__(self) -> int:
        """For how many it will ring."""
        return len(self._set)

    def stop(self) -> None:
        """Never ring again for anybody."""
        self._stopped = True
        while self._set:
            self._set.popitem()[1].stop()
