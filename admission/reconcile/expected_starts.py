"""Expected starts on the objects of waiting workloads: the words, and which of them are worth a write. Pure.

A forecast is made anew every minute or so, and a write to the API server costs more than all of it. So a start is
written to an object once, and again only when another one is news to its reader. What the object says is what counts: a
new leader reads there what an earlier one wrote, and when.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from heapq import nsmallest
from math import inf
from typing import Final, NamedTuple

from queues.workload import WorkloadKey

#: Workloads whose start is written: those that should start first.
MOST: Final = 300
#: Seconds between two writes of one object because of its expected start, at least.
BETWEEN: Final = 600
#: The same, of an object with an interval that has passed.
BETWEEN_PASSED: Final = 180
#: Seconds from now within which a start is not worth a write, if the object says nothing of it yet.
SOON: Final = 120

_MINUTE: Final = "%Y-%m-%dT%H:%MZ"
_AT: Final = r"(\d{4}-\d\d-\d\dT\d\d:\d\dZ)"
_SENTENCE: Final = re.compile(
    rf"(?:^|; )(?:expected to start (?:between {_AT} and {_AT} \(4 of 5 times\)|at {_AT} or later)"
    rf"|the expected start is unknown), as of {_AT}$"
)


class ExpectedStart(NamedTuple):
    """When a workload should start, in seconds since the epoch."""

    #: When that was worked out.
    as_of: int
    #: It starts at this time or later; None if nothing that is known lets it start.
    earliest: int | None
    #: It starts at this time or earlier, in four of five cases; None if not known.
    latest: int | None = None

    def by_minute(self) -> "ExpectedStart":
        """The same as an object shows it: the interval as wide or a little wider."""
        earliest, latest = self.earliest, self.latest
        return ExpectedStart(
            self.as_of // 60 * 60,
            None if earliest is None else earliest // 60 * 60,
            None if latest is None else -(-latest // 60) * 60,
        )

    def sentence(self) -> str:
        """The words for an object, with times in UTC by the minute."""
        if self.earliest is None:
            words = "the expected start is unknown"
        elif self.latest is None:
            words = f"expected to start at {_minute(self.earliest)} or later"
        else:
            words = f"expected to start between {_minute(self.earliest)} and {_minute(self.latest)} (4 of 5 times)"
        return f"{words}, as of {_minute(self.as_of)}"


def with_start(message: str, expected: ExpectedStart | None) -> str:
    """Why a workload waits, and when it should start."""
    return message if expected is None else f"{message}; {expected.sentence()}"


def start_in(message: str) -> ExpectedStart | None:
    """The expected start in the message of an object; None if it has none."""
    # Most messages have none, and each status is compared with the one before.
    found = _SENTENCE.search(message) if message.endswith("Z") else None
    if found is None:
        return None
    low, high, open_low, as_of = (None if each is None else _second(each) for each in found.groups())
    return ExpectedStart(as_of or 0, low if low is not None else open_low, high)


def tells_news(before: str, after: str) -> bool:
    """Whether the second message of an object has an expected start that is news to a reader of the first one."""
    wanted = start_in(after)
    return wanted is not None and is_news(start_in(before), wanted)


def is_news(told: ExpectedStart | None, wanted: ExpectedStart) -> bool:
    """Whether an object that says the one is to say the other. ``told`` is None if it says nothing yet.

    Never within ten minutes, nor as long as what the object says still holds. An unknown start is news only if the
    object says otherwise. An interval that has passed is put right soon.
    """
    if told is None:
        return wanted.earliest is not None and (wanted.latest is None or wanted.latest > wanted.as_of + SOON)
    if has_passed(told, wanted.as_of):
        return wanted.as_of >= told.as_of + BETWEEN_PASSED
    if wanted.as_of < told.as_of + BETWEEN:
        return False
    if wanted.earliest is None or told.earliest is None:
        return wanted.earliest != told.earliest
    if wanted.latest is None or told.latest is None:
        slack = max(BETWEEN, (told.earliest - told.as_of) // 4)
        return wanted.latest != told.latest or abs(wanted.earliest - told.earliest) > slack
    slack = max(BETWEEN, (told.latest - told.as_of) // 4)
    return (
        wanted.latest > told.latest + slack
        or wanted.earliest < told.earliest - slack
        or 2 * (wanted.latest - wanted.earliest) < told.latest - told.earliest - BETWEEN
    )


def has_passed(told: ExpectedStart, now: int) -> bool:
    """Whether the end of what an object says is over (``now``: seconds since the epoch)."""
    return told.latest is not None and told.latest < now


class ToldStarts:
    """Expected starts that objects show in one term; the writer asks for the next one as often as it may write."""

    def __init__(self) -> None:
        self._told: dict[WorkloadKey, ExpectedStart] = {}
        #: When it was written: seconds of the clock that ``next`` is given.
        self._told_at: dict[WorkloadKey, float] = {}
        #: What is to be written, the soonest first.
        self._news: dict[WorkloadKey, ExpectedStart] = {}

    def of(self, key: WorkloadKey) -> ExpectedStart | None:
        """What the object of a waiting workload is to say of its start; None for nothing."""
        return self._told.get(key)

    def forecast(self, starts: Mapping[WorkloadKey, ExpectedStart]) -> None:
        """A forecast of all waiting workloads was made; what was written for others counts no more."""
        self.forget([key for key in self._told if key not in starts])
        first = nsmallest(MOST, starts, key=lambda key: (_soonness(starts[key]), key))
        offered = {key: starts[key].by_minute() for key in dict.fromkeys((*first, *self._told))}
        self._news = {key: each for key, each in offered.items() if is_news(self._told.get(key), each)}

    def next(self, now: float) -> WorkloadKey | None:
        """The next workload whose object is to say something else of its start from now on; None if there is none.

        ``now``: seconds of a clock that only goes on.
        """
        due = (key for key in self._news if now >= self._told_at.get(key, -inf) + self._pause(key))
        key = next(due, None)
        if key is not None:
            self._told[key], self._told_at[key] = self._news.pop(key), now
        return key

    def _pause(self, key: WorkloadKey) -> int:
        """Seconds between two writes of what is news to the reader of an object."""
        told = self._told.get(key)
        return BETWEEN_PASSED if told is not None and has_passed(told, self._news[key].as_of) else BETWEEN

    def forget(self, keys: Iterable[WorkloadKey]) -> None:
        """These workloads wait no longer, or not as they did."""
        for key in keys:
            self._told.pop(key, None)
            self._told_at.pop(key, None)
            self._news.pop(key, None)


def _soonness(start: ExpectedStart) -> tuple[bool, int, bool, int]:
    return start.earliest is None, start.earliest or 0, start.latest is None, start.latest or 0


def _minute(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime(_MINUTE)


def _second(minute: str) -> int:
    return int(datetime.strptime(minute, _MINUTE).replace(tzinfo=UTC).timestamp())
