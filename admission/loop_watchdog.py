"""Measures how long the event loop stands still, and finds what it was doing meanwhile.

A task of the loop notes the time every ``_TICK`` seconds. Another thread looks whether that time is old, and if so
which function the loop's thread is in.
"""

import asyncio
import logging
import sys
import threading
from collections import deque
from time import monotonic
from types import FrameType
from typing import Final, NoReturn

_log = logging.getLogger(__name__)

#: Seconds between two looks of the task, and of the thread.
_TICK: Final = 0.05
#: Seconds above which a block is logged for developers, and as a warning.
NOTED: Final = 0.1
WARNED: Final = 1.0
#: The longest block is that of the last so many seconds.
WINDOW: Final = 300.0
_FRAMES: Final = 4


class LoopWatchdog:
    """The event loop's longest block."""

    def __init__(self) -> None:
        self._ticked = monotonic()
        self._loop_thread = 0
        self._seen: str = ""
        #: Times and seconds of blocks, falling in length: a longer one makes earlier ones unimportant.
        self._blocks: deque[tuple[float, float]] = deque()
        self._stopped = threading.Event()

    def longest(self) -> float:
        """Seconds of the longest block in the last ``WINDOW`` seconds."""
        self._forget(monotonic())
        return self._blocks[0][1] if self._blocks else 0.0

    def standing(self) -> float:
        """Seconds for which the loop has stood still by now; asked from another thread. 0: it is not watched."""
        if not self._loop_thread or self._stopped.is_set():
            return 0.0
        return max(0.0, monotonic() - self._ticked - _TICK)

    async def run(self) -> NoReturn:
        """Watch the running loop until cancelled."""
        self._ticked = monotonic()
        self._loop_thread = threading.get_ident()
        threading.Thread(target=self._look, name="loop watchdog", daemon=True).start()
        try:
            while True:
                self._ticked = monotonic()
                await asyncio.sleep(_TICK)
                self._note(monotonic() - self._ticked - _TICK)
        finally:
            self._stopped.set()

    def _note(self, seconds: float) -> None:
        where, self._seen = self._seen, ""
        now = monotonic()
        self._forget(now)
        while self._blocks and self._blocks[-1][1] <= seconds:
            self._blocks.pop()
        self._blocks.append((now, max(0.0, seconds)))
        if seconds >= NOTED:
            level = logging.WARNING if seconds >= WARNED else logging.DEBUG
            _log.log(level, "event loop stood still", extra={"seconds": round(seconds, 3), "where": where})

    def _forget(self, now: float) -> None:
        while self._blocks and self._blocks[0][0] < now - WINDOW:
            self._blocks.popleft()

    def _look(self) -> None:
        while not self._stopped.wait(_TICK):
            if monotonic() - self._ticked >= _TICK + NOTED and not self._seen:
                self._seen = _place(sys._current_frames().get(self._loop_thread))


def _place(frame: FrameType | None) -> str:
    """The innermost functions, outermost first."""
    names: list[str] = []
    while frame is not None and len(names) < _FRAMES:
        names.append(f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return " > ".join(reversed(names))
