"""Garbage collection of reference cycles: how often Python runs it; and when freed memory goes back to the system.

By default it takes a fifth of this process's time under load: it runs every 700 new objects, and again and again
visits the thousands of nodes and pods that stay in memory.
"""

import ctypes
import gc
from collections.abc import Mapping
from typing import Any, Final

#: New objects before a collection of the youngest; such collections before one of the next generation; and of all.
#: So the largest collection visits fifty thousand objects: 0.1 seconds, in which the loop stands still.
_THRESHOLDS: Final = (3_000, 3, 3)


#: ``M_MMAP_THRESHOLD`` of glibc's ``mallopt``, and blocks of so many bytes: arrays of a turn are smaller.
_MMAP_THRESHOLD: Final = -3
_LARGE: Final = 2**20
#: ``M_ARENA_MAX``: threads share what one of them has freed. Only one of them runs at a time anyway.
_ARENA_MAX: Final = -8


def return_freed_memory() -> None:
    """Give large blocks, as those of large mappings are, back to the system when they are freed, and let one thread
    use what another one has freed.

    By itself glibc does so only until the first of a size is freed: later ones lie among small blocks, which keep what
    is around them from going back. Without glibc nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_ARENA_MAX, 1)


def collect_seldom() -> None:
    """Collect less often from now on, and only what is new since the last collection of everything.

    What was in use then mostly lives as long as the objects of the cluster, which form no cycles. Were it visited again
    each time, one collection would take seconds in a large cluster, in which nothing else is done.
    """
    gc.set_threshold(*_THRESHOLDS)
    if _freeze_survivors not in gc.callbacks:
        gc.callbacks.append(_freeze_survivors)


def _freeze_survivors(phase: str, info: Mapping[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


def freeze_objects() -> None:
    """Leave out what is in memory now from all later collections. It takes no time, however much there is.

    A collection would: seconds for the objects of a large cluster. So the few cycles that are garbage by now stay.
    """
    gc.freeze()


def collect_all() -> None:
    """Collect everything once more: what an earlier term has left. It takes seconds after a term in a large cluster."""
    gc.unfreeze()
    gc.collect()
