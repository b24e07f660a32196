"""Garbage collection of reference cycles: how often Python runs it.

By default it takes a fifth of this process's time under load: it runs every 700 new objects, and again and again
visits the thousands of nodes and pods that stay in memory.
"""

import gc
from typing import Final

#: New objects before a collection of the youngest; such collections before one of the next generation; and of all.
_THRESHOLDS: Final = (10_000, 20, 20)


def collect_seldom() -> None:
    """Collect less often from now on."""
    gc.set_threshold(*_THRESHOLDS)


def freeze_objects() -> None:
    """Leave out what is in memory now from all later collections. It takes no time, however much there is.

    A collection would: seconds for the objects of a large cluster. So the few cycles that are garbage by now stay.
    """
    gc.freeze()


def collect_all() -> None:
    """Collect everything once more: what an earlier term has left. It takes seconds after a term in a large cluster."""
    gc.unfreeze()
    gc.collect()
