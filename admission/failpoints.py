"""Named points of the ring at which a test can stop this process. They cost nothing unless MUSTER_FAULT is set.

``MUSTER_FAULT=applied:KILL`` ends the process with SIGKILL when it passes that point; ``applied:STOP:2`` suspends it
when it passes the point for the second time. Each workload passes the points of ``POINTS``; a pod that is deleted
and created again passes those of ``RECREATION_POINTS``.
"""

import os
import signal
from collections.abc import Callable
from typing import Final

POINTS: Final = ("intake-committed", "decided", "applied", "one-released", "released", "freeing")
RECREATION_POINTS: Final = ("recreation-stored", "pod-removed", "pod-recreated")

#: Is called with the name of each point that is passed.
Failpoint = Callable[[str], None]


def armed(text: str | None) -> Failpoint:
    """The function that the ring calls at each point. None, "": it does nothing. Raises ValueError for a bad text."""
    if not text:
        return lambda point: None
    target, _, rest = text.partition(":")
    name, _, count = rest.partition(":")
    points = (*POINTS, *RECREATION_POINTS)
    if target not in points or name not in ("KILL", "STOP"):
        raise ValueError(
            f"MUSTER_FAULT is {text!r}; expected POINT:KILL or POINT:STOP[:N], POINT one of {points}"
        )
    passes_left = int(count or 1)
    number = signal.SIGKILL if name == "KILL" else signal.SIGSTOP

    def failpoint(point: str) -> None:
        nonlocal passes_left
        if point == target and passes_left:
            passes_left -= 1
            if not passes_left:
                os.kill(os.getpid(), number)

    return failpoint
