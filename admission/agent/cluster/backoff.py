"""Pauses between attempts of 5,000 agents that fail at the same moment."""

import logging
import random
from typing import Final

from queues.errors import ApiError

logger = logging.getLogger(__name__)

#: Seconds: the first pause, and the longest.
BASE: Final = 1.0
LONGEST: Final = 60.0
#: No pause is shorter than this part of its bound.
_LEAST: Final = 0.5


class RetryBackoff:
    """Each pause has twice the bound of the one before, and lies anywhere in the upper half below its bound.

    Failures in a row are one line of the log, and so is their end.
    """

    def __init__(self, what: str, rng: random.Random) -> None:
        """``what``: fails, as the log says it."""
        self._what = what
        self._rng = rng
        self._failures = 0
        #: Whether the log says that it fails.
        self._told = False

    def failed(self, error: ApiError) -> float:
        """Seconds to wait before the next attempt: no less than the API server asks for."""
        if not self._told:
            logger.warning("%s fails, and is tried again: %s", self._what, error)
        self._told = True
        return self.pause(float(error.facts.get("retry_after") or 0))

    def pause(self, at_least: float = 0.0) -> float:
        """The same for a failure that is no news."""
        # An exponent beyond the bound says nothing more, and would overflow after a week.
        bound = min(LONGEST, BASE * 2.0 ** min(self._failures, 10))
        self._failures += 1
        return max(at_least, bound * self._rng.uniform(_LEAST, 1.0))

    def succeeded(self) -> None:
        """The next pause is a first one again."""
        if self._told:
            logger.info("%s succeeds again", self._what)
        self._told = False
        self._failures = 0
