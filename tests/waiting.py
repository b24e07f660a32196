"""Waiting for a condition, never for a while.

A wait ends as soon as its condition holds, so a long limit makes no test slower that passes, and no busy machine
fails one.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

#: Seconds after which a wait has failed, of every kind: for a condition, an answer, a process or a thread.
LIMIT: Final = 600.0

_T = TypeVar("_T")

#: Seconds between two looks: at first, and at most, but never shorter than a look takes. A look may be a request or a
#: command that costs more than what it waits for.
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.2


def until(holds: Callable[[], bool], what: str) -> None:
    """Return as soon as a condition holds; fail if it does not within the limit."""
    deadline = time.monotonic() + LIMIT
    pause = FIRST_PAUSE
    looked = time.monotonic()
    while not holds():
        now = time.monotonic()
        assert now < deadline, f"waited {LIMIT:.0f} s for {what}"
        time.sleep(max(pause, now - looked))
        looked = time.monotonic()
        pause = min(pause * 1.25, LONGEST_PAUSE)


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and only not yet reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def eventually(holds: Callable[[], bool], what: str) -> None:
    """``until`` for tests whose own event loop has to do the work."""
    deadline = time.monotonic() + LIMIT
    pauses = growing_pauses(0.005, 0.05)
    while not holds():
        assert time.monotonic() < deadline, f"waited {LIMIT:.0f} s for {what}"
        await asyncio.sleep(next(pauses))


def growing_pauses(pause: float, longest: float) -> Iterator[float]:
    """Seconds between one look and the next, of which each takes processor time."""
    while True:
        yield pause
        pause = min(pause * 1.25, longest)


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, _T]) -> AsyncIterator[asyncio.Task[_T]]:
    """A task that does this work while the block goes on, and is cancelled then."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
