"""Times and periods as people write them on a command line. All of them are in UTC."""

import re
from datetime import UTC, datetime
from typing import Final

import click

from admission.cli.times import EXPECTED, past_time

#: How times are written.
TIME: Final = "TIME"
_MONTH: Final = re.compile(r"(\d{4})-(\d{2})")


def moment(option: str, text: str, now: datetime) -> datetime:
    """A time, cut to whole seconds. ``now``: in UTC. Raises UsageError."""
    found = past_time(text, now)
    if found is None:
        raise click.UsageError(f"{option}: found {text[:60]!r}, expected {EXPECTED}.")
    return found


def month(option: str, text: str, now: datetime) -> tuple[datetime, datetime]:
    """Beginning and end of a month: ``2026-11``, ``this``, ``last``. Raises UsageError."""
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if text == "last":
        return _first_of(first.year, first.month - 1), first
    if text != "this":
        parts = _MONTH.fullmatch(text)
        if parts is None or not (1970 <= int(parts[1]) < 9999 and 1 <= int(parts[2]) <= 12):
            raise click.UsageError(f"{option}: found {text!r}, expected a month: 2026-11, this or last.")
        first = _first_of(int(parts[1]), int(parts[2]))
    return first, _first_of(first.year, first.month + 1)


def _first_of(year: int, number: int) -> datetime:
    """The first day of a month; 0 is the December before, 13 the January after."""
    more, index = divmod(number - 1, 12)
    return datetime(year + more, index + 1, 1, tzinfo=UTC)
