"""Times as people write them on a command line: a date, a time, or how long ago."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from queues.text_format import rfc3339

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_EXPECTED: Final = (
    "how long ago (90m, 12h, 30d, 2w), a date (2026-11-20) or a time (2026-11-20T14:00, in UTC, or with a zone: "
    "2026-11-20T14:00:00+01:00)"
)
#: Digits of a duration: more are no time that anything was recorded at.
_LONGEST: Final = 9


class PastTime(click.ParamType[datetime]):
    """A time up to now; the command gets it in UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The time. Raises BadParameter: found, and expected."""
        if isinstance(value, datetime):
            return value
        now = datetime.fromtimestamp(time.time(), UTC)
        found = past_time(value, now)
        if found is None:
            self.fail(f"found {value[:60]!r}, expected {_EXPECTED}.", param, ctx)
        if found > now:
            self.fail(f"found {value[:60]!r}, which is not past yet.", param, ctx)
        return found


def past_time(text: str, now: datetime) -> datetime | None:
    """The time that a text means, in UTC; None: it means none."""
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS and number.isascii() and number.isdecimal() and len(number) <= _LONGEST:
        try:
            return now - timedelta(seconds=int(number) * _UNITS[unit])
        except OverflowError:
            return None
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def as_text(moment: datetime) -> str:
    """The time as the read API takes it."""
    return rfc3339(moment.timestamp())
