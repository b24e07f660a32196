"""Named points of the ring at which a test can stop this process. Free unless MUSTER_FAULT is set.

``MUSTER_FAULT=applied:KILL`` ends the process with SIGKILL when it passes that point; ``applied:STOP:2`` stops it
in place at the second pass. The points of every workload's life: intake-committed, decided, applied,
one-released, released, freeing; those of a pod that is taken back and made again: recreation-stored, pod-removed,
pod-recreated.
"""

import os
import signal
from collections.abc import Callable
from typing import Final

POINTS: Final = ("intake-committed", "decided", "applied", "one-released", "released", "freeing")

RECREATION_POINTS: Final = ("recreation-stored", "pod-removed", "pod-recreated")


def fault(text: str | None) -> Callable[[str], None]:
    """The hook that the ring calls at each point. Raises ValueError for a fault that does not exist."""
    if not text:
        return lambda point: None
    where, _, rest = text.partition(":")
    name, _, count = rest.partition(":")
    points = (*POINTS, *RECREATION_POINTS)
    if where not in points or name not in ("KILL", "STOP"):
        raise ValueError(
            f"MUSTER_FAULT is {text!r}; expected POINT:KILL or POINT:STOP[:N], POINT one of {points}"
        )
    left = [int(count or 1)]
    number = signal.SIGKILL if name == "KILL" else signal.SIGSTOP

    def strike(point: str) -> None:
        if point == where and left[0]:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), number)

    return strike
