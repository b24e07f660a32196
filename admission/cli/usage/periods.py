"""Times and periods as people write them on a command line. All of them are in UTC."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import click

#: How times are written.
TIME: Final = "TIME"
_EXPECTED: Final = (
    "a time in UTC: 2026-11-01, 2026-11-01T08:30, 2026-11-01T08:30:00+01:00, today, yesterday, now, or "
    "so long ago: -12h, -7d, -4w"
)
_AGO: Final = re.compile(r"-(\d{1,6})([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MONTH: Final = re.compile(r"(\d{4})-(\d{2})")


def moment(option: str, text: str, now: datetime) -> datetime:
    """A time, cut to whole seconds. ``now``: in UTC. Raises UsageError."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    named = {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}
    try:
        if text in named:
            found = named[text]
        elif (ago := _AGO.fullmatch(text)) is not None:
            found = now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            read = datetime.fromisoformat(text)
            found = read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
        if found.year < 1970:
            raise ValueError(text)
    except (ValueError, OverflowError):
        raise click.UsageError(f"{option}: found {text!r}, expected {_EXPECTED}.") from None
    return found.replace(microsecond=0)


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


def written(time: datetime) -> str:
    """A time as the read API takes it."""
    return time.isoformat().replace("+00:00", "Z")
