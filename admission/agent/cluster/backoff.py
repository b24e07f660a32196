"""Pauses between attempts of 5,000 agents that fail at the same moment."""

import random
from typing import Final

#: Seconds: the first pause, and the longest.
BASE: Final = 1.0
LONGEST: Final = 60.0
#: No pause is shorter than this part of its bound.
_LEAST: Final = 0.5


class RetryBackoff:
    """Each pause has twice the bound of the one before, and lies anywhere in the upper half below its bound."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._failures = 0

    def after_failure(self, at_least: float = 0.0) -> float:
        """Seconds to wait before the next attempt. ``at_least``: what the API server asks to wait."""
        # An exponent beyond the bound says nothing more, and would overflow after a week.
        bound = min(LONGEST, BASE * 2.0 ** min(self._failures, 10))
        self._failures += 1
        return max(at_least, bound * self._rng.uniform(_LEAST, 1.0))

    def succeeded(self) -> None:
        """The next pause is a first one again."""
        self._failures = 0
