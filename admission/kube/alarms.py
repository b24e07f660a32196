"""Looking again though nothing was seen to change: after a pause that grows from failure to failure."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

Key = TypeVar("Key")

#: Seconds.
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 30.0


def pause_after(failures: int) -> float:
    """Seconds to wait after so many failures in a row, doubled each time; 0: what changed meanwhile is no failure."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 10))


class Alarm:
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


class Alarms(Generic[Key]):
    """An alarm for each of many."""

    def __init__(self, ring: Callable[[Key], None]) -> None:
        self._ring = ring
        self._set: dict[Key, Alarm] = {}
        self._stopped = False

    def ring_by(self, key: Key, pause: float) -> None:
        """Ring for this one after this pause at the latest."""
        self._of(key).ring_by(pause)

    def ring_in(self, key: Key, pause: float) -> float:
        """Ring for this one after just this pause. Returns the time of the loop then."""
        return self._of(key).ring_in(pause)

    def _of(self, key: Key) -> Alarm:
        alarm = self._set.get(key) or Alarm(partial(self._rings, key))
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
