"""Failures in a row: how long to wait after each, and when they are reported.

The same failure again and again is one that time alone does not mend (a circuit breaker's case): pauses grow, and from
``TELL_AFTER`` failures on the queue ``root`` says what was found and what to do.
"""

import random
import re
from traceback import walk_tb
from typing import Final

from queues.errors import DatabaseError, DatabaseUnavailable, Fenced, MusterError
from queues.plan import Reason
from queues.reason_codes import ReasonCode

#: Identical failures in a row after which they are reported.
TELL_AFTER: Final = 5
#: Characters of an error that are reported, and compared; its log line has all of it.
_MOST_TOLD: Final = 500
#: What differs in the text of one error from one time to the next: what is quoted, and words with a digit or a slash,
#: such as numbers, uids and paths of objects.
_VARIES: Final = re.compile(r"""(?<!\w)(['"]).*?\1(?!\w)|\S*[\d/]\S*""", re.DOTALL)
#: Packages whose lines of code distinguish one defect from another.
_OURS: Final = frozenset({"admission", "queues"})


class RepeatedFailures:
    """Identical failures of one kind of attempt, since the last success."""

    def __init__(
        self,
        attempts: str,
        *,
        first: float,
        longest: float,
        grows_after: int = 0,
        effect: str = "nothing is admitted",
    ) -> None:
        """``attempts``: what fails, as a plural, and ``effect``: what follows, for people. ``first`` and ``longest``:
        seconds of pauses; they are doubled after each failure beyond ``grows_after`` identical ones."""
        self._attempts = attempts
        self._effect = effect
        self._first = first
        self._longest = longest
        self._grows_after = grows_after
        self._same: tuple[type[BaseException], str] | None = None
        self._error: BaseException | None = None
        self.count = 0

    def note(self, error: BaseException) -> float:
        """One more failure; returns the seconds to wait before the next attempt, with jitter."""
        same = _identity(error)
        self.count = self.count + 1 if same == self._same else 1
        self._same, self._error = same, error
        doublings = min(max(0, self.count - 1 - self._grows_after), 20)
        bound = min(self._first * 2**doublings, self._longest)
        return random.uniform(max(self._first, bound / 2), bound)

    def clear(self) -> None:
        """An attempt succeeded."""
        self._same = self._error = None
        self.count = 0

    def just_reached(self) -> bool:
        """Whether this failure is the first one that is reported."""
        return self.count == TELL_AFTER

    def told(self) -> Reason | None:
        """What to report to people. None if nothing fails, or not often enough."""
        if self.count < TELL_AFTER or self._error is None:
            return None
        found = told_of(self._error) or type(self._error).__name__
        if len(found) > _MOST_TOLD:
            found = f"{found[:_MOST_TOLD]} …"
        return Reason(
            code=ReasonCode.TURNS_FAIL,
            message=f"{self.count} {self._attempts} in a row ended with the same error, and {self._effect}: "
            f"{found} {_advice(self._error)}",
        )


def _identity(error: BaseException) -> tuple[type[BaseException], str]:
    """What two failures have in common if they are the same one: for an error with a meaning what it says, whatever
    raised it; for any other one the place in this code that it came from, whatever it says."""
    place = "" if isinstance(error, MusterError) else _place(error)
    return type(error), place or _VARIES.sub("…", str(error)[:_MOST_TOLD])


def _place(error: BaseException) -> str:
    """The innermost line of this code that an error has passed; "": none."""
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        module: str = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in _OURS:
            place = f"{module}:{line}"
    return place


def told_of(error: BaseException) -> str:
    """An error with its notes, which say what differs from one such error to the next."""
    return " ".join(" ".join((str(error), *getattr(error, "__notes__", ()))).split())


def _advice(error: BaseException) -> str:
    match error:
        case DatabaseUnavailable():
            return (
                "Look at Postgres: load, locks, free disk, and whether it takes writes. "
                "Muster tries again by itself, after pauses that grow."
            )
        case DatabaseError():
            return (
                "Look at Postgres' own log and at the schema; the log of Muster's leader has the statement."
            )
        case Fenced():
            return (
                "The leader loses its lease before it gets anything done: look at Postgres' answer times, at the "
                "processor that Muster gets and at its metric muster_loop_block_seconds, or raise leaseSeconds."
            )
        case MusterError():
            return "The log of Muster's leader has the details."
    return (
        "This is a defect of Muster: the log of its leader has the place, to be reported. "
        "Running pods go on; another version of Muster may help meanwhile."
    )
