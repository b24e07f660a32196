"""When a workload should start, in a table and in a sentence."""

from typing import Final

from admission.cli.rendering.terminal import NONE, moment, seconds_between
from queues.read_api.bodies import ExpectedStartBody
from queues.text_format import counted, short_duration

#: Seconds, letter and the number of seconds from which on an end counts in it, the largest first.
_UNITS: Final = ((86_400, "d", 2 * 86_400), (3600, "h", 2 * 3600), (60, "m", 120), (1, "s", 0))

UNKNOWN: Final = "unknown"

#: Where an assumed run time comes from, by ``basis``, if it is not from work that is like it.
_SOURCES: Final = {
    "declared": "as it states",
    "everything": "as all ended work",
    "prior": "as too little like it has ended",
}


def expected_cell(expected: ExpectedStartBody | None, now: str) -> str:
    """``in 10-40m``; ``within 40m``; ``in >6h``: later than that; ``overdue 3m``: it should have started;
    ``unknown``; ``-``: not forecast yet."""
    if expected is None:
        return NONE
    if expected.never or expected.not_yet:
        return UNKNOWN
    if (since := _overdue_since(expected, now)) is not None:
        return f"overdue {short_duration(seconds_between(since, now))}"
    low = seconds_between(now, expected.earliest)
    if expected.latest is None:
        return f"in >{short_duration(low)}" if low >= 60 else UNKNOWN
    return _interval(low, max(low, seconds_between(now, expected.latest)))


def _interval(low: int, high: int) -> str:
    """Both ends in the unit of the second, which is rounded up; the first is rounded down."""
    size, letter, _ = next(unit for unit in _UNITS if high >= unit[2])
    first, last = low // size, -(-high // size)
    if low == 0:
        return f"within {last}{letter}"
    if first == 0 and low >= 60 and size > 60:
        return f"in {short_duration(low // 60 * 60)}-{last}{letter}"
    return f"in {first}-{last}{letter}" if first != last else f"in {last}{letter}"


def expected_sentence(expected: ExpectedStartBody, now: str) -> str:
    """The same with the times, what it goes by, and how old it is."""
    earliest, latest = expected.earliest, expected.latest
    if expected.never:
        text = "unknown: it does not start even when all that runs has ended"
    elif expected.not_yet:
        return f"{_not_yet(expected)}{_old(expected.computed, now)}{_run_time(expected)}"
    elif (since := _overdue_since(expected, now)) is not None:
        text = f"any moment: it should have been by {_clock(since, now)} UTC (4 of 5 times)"
    elif latest is None:
        text = f"{_clock(earliest, now)} UTC or later; by when is not known"
    else:
        # A forecast is minutes old at times: what has passed of its interval is not shown.
        begin = f"between {_clock(earliest, now)} and" if moment(earliest) > moment(now) else "by"
        text = f"{begin} {_clock(latest, now)} UTC (4 of 5 times)"
    return f"{text}, {_basis(expected)}{_old(expected.computed, now)}{_run_time(expected)}"


def _overdue_since(expected: ExpectedStartBody, now: str) -> str | None:
    """By when it should have started. None if that is still to come, or not known."""
    # It may have been still to come when the server worked it out.
    latest = expected.overdue_since or expected.latest
    return latest if latest is not None and moment(latest) < moment(now) else None


def _not_yet(expected: ExpectedStartBody) -> str:
    """``not known yet: 13 runs of the same user and shape have ended so far``."""
    runs = expected.class_runs
    of_class = "" if expected.basis in _SOURCES else f" of the same {expected.basis}"
    return f"not known yet: {counted(runs, 'run')}{of_class} {'has' if runs == 1 else 'have'} ended so far"


def _basis(expected: ExpectedStartBody) -> str:
    return f"from {counted(expected.runs, 'ended run')}" if expected.runs else "with no ended runs to go by"


def _run_time(expected: ExpectedStartBody) -> str:
    """How long it is assumed to run itself, and where that comes from; "": the server does not say."""
    if (seconds := expected.run_time) is None:
        return ""
    basis = expected.basis
    least, source = "", _SOURCES.get(basis, f"as ended work of the same {basis}")
    if expected.at_least:
        least, source = "at least ", "as work of the same user and shape has run so far"
    return f"; its own run time is assumed to be {least}{short_duration(seconds)}, {source}"


def _old(computed: str, now: str) -> str:
    seconds = seconds_between(computed, now)
    return f", worked out {short_duration(seconds)} ago" if seconds >= 120 else ""


def _clock(at: str, now: str) -> str:
    """The time of day, with the date unless it is today's; both in UTC, as all times here."""
    then, today = moment(at), moment(now)
    return f"{then:%H:%M}" if then.date() == today.date() else f"{then:%Y-%m-%d %H:%M}"
