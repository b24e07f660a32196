"""When Python looks for reference cycles.

By its own settings it spends a fifth of this process's time under load on that: every 700 new objects, and again
and again through the thousands of nodes and pods that are kept for good.
"""

import gc
from typing import Final

#: New objects before a look at the new ones; such looks before one at the older; such before one at all.
_THRESHOLDS: Final = (10_000, 20, 20)


def seldom() -> None:
    """From now on, look less often."""
    gc.set_threshold(*_THRESHOLDS)


def keep_what_there_is() -> None:
    """What is in memory now stays for good: never look through it again. What was kept earlier is looked at now."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
