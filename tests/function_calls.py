"""What work costs, without a clock: for tests that say how the cost grows."""

import sys
from collections.abc import Callable


def calls_of(work: Callable[[], object]) -> int:
    """Calls of functions that some work makes, those of C included."""
    found = 0

    def count(*_: object) -> None:
        nonlocal found
        found += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found
