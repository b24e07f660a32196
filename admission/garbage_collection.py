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
    """Leave out what is in memory now from all later collections; what was left out earlier is collected once more."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
