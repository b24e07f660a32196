"""Waiting for a condition, never for a while."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

#: Seconds between two looks: at first, and at most, but never shorter than a look takes. A look may be a request or a
#: command that costs more than what it waits for.
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.2


def until(holds: Callable[[], bool], what: str, *, seconds: float = 30.0) -> None:
    """Return as soon as a condition holds; fail if it does not within some seconds."""
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE
    looked = time.monotonic()
    while not holds():
        now = time.monotonic()
        assert now < deadline, f"waited {seconds:.0f} s for {what}"
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


async def eventually(holds: Callable[[], bool], what: str, *, seconds: float = 30.0) -> None:
    """``until`` for tests whose own event loop has to do the work."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
        await asyncio.sleep(0.005)
