"""Times as people write them on a command line: a date, a time, how long ago, or for how long."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from queues.text_format import rfc3339

#: How times are written, for people.
EXPECTED: Final = (
    "how long ago (90m, 12h, 1h30m, 30d, 2w), now, today, yesterday, a date (2026-11-20) or a time (2026-11-20T14:00, "
    "in UTC, or with a zone: 2026-11-20T14:00:00+01:00)"
)
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
#: With or without the sign. More digits are no time that anything was recorded at.
_AGO: Final = re.compile(r"-?((?:[0-9]{1,9}[smhdw]){1,5})")
_PART: Final = re.compile(r"([0-9]+)([smhdw])")
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
#: How times to come are written, for people. A day begins at midnight in UTC.
TO_COME: Final = (
    "how far ahead (90m, 12h, 1h30m, 2d), tomorrow, a time today (14:00), a day of the week (friday: the next one, "
    "from 00:00 UTC), a date (2026-11-27) or a time "
    "(2026-11-27T18:00, in UTC, or with a zone: 2026-11-27T18:00:00+01:00)"
)
_CLOCK: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
#: What lasts longer was not meant to end.
LONGEST: Final = timedelta(days=3660)


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


class PastTime(click.ParamType[datetime]):
    """A time up to now; the command gets it in UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The time. Raises BadParameter: found, and expected."""
        if isinstance(value, datetime):
            return value
        now = _now()
        found = past_time(value, now)
        if found is None:
            self.fail(f"found {value[:60]!r}, expected {EXPECTED}.", param, ctx)
        if found > now:
            self.fail(f"found {value[:60]!r}, which is not past yet.", param, ctx)
        return found


def past_time(text: str, now: datetime) -> datetime | None:
    """The time that a text means, in UTC and whole seconds, from 1970 on. None if it means none."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    named = {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}
    try:
        if (found := named.get(text)) is None:
            if is_duration(text):
                found = now - timedelta(seconds=_seconds(text))
            else:
                read = datetime.fromisoformat(text)
                found = read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return found.replace(microsecond=0) if found.year >= 1970 else None


def is_duration(text: str) -> bool:
    """Whether a text says how long ago, not when."""
    return _AGO.fullmatch(text) is not None


def since_text(since: str | None) -> str | None:
    """The time of an option ``--since`` as the read API takes it. Raises UsageError."""
    if since is None:
        return None
    now = _now()
    found = past_time(since, now)
    if found is None:
        raise click.UsageError(f"--since: found {since[:60]!r}, expected {EXPECTED}.")
    if found > now:
        raise click.UsageError(f"--since: found {since[:60]!r}, which is not past yet.")
    return as_text(found)


def as_text(moment: datetime) -> str:
    """The time as the read API takes it."""
    return rfc3339(moment.timestamp())


# ── times to come ─────────────────────────────────────────────────────────────────────────────────────────────


def _seconds(duration: str) -> int:
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(duration))


class FutureTime(click.ParamType[datetime]):
    """A time after now; the command gets it in UTC."""

    name = "time"

    def __init__(self, *, or_now: bool = False) -> None:
        """``or_now``: now is taken as well, and the minute before it."""
        self._or_now = or_now

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The time. Raises BadParameter: found, and expected."""
        if isinstance(value, datetime):
            return value
        now = _now()
        found = future_time(value, now)
        if found is None:
            self.fail(f"found {value[:60]!r}, expected {TO_COME}.", param, ctx)
        if found < now - timedelta(minutes=1) if self._or_now else found <= now:
            self.fail(f"found {value[:60]!r}, which is past.", param, ctx)
        if found - now > LONGEST:
            self.fail(f"found {value[:60]!r}, expected a time within ten years.", param, ctx)
        return found


def future_time(text: str, now: datetime) -> datetime | None:
    """The time that a text means, in UTC and whole seconds, perhaps past. None if it means none."""
    word = text.lower()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if word == "tomorrow":
        return midnight + timedelta(days=1)
    day = next((number for number, name in enumerate(_DAYS) if word in (name, name[:3])), None)
    if day is not None:
        return midnight + timedelta(days=(day - now.weekday() - 1) % 7 + 1)
    if (clock := _CLOCK.fullmatch(text)) is not None:
        return midnight + timedelta(hours=int(clock[1]), minutes=int(clock[2]))
    if is_duration(text):
        seconds = _seconds(text)
        ahead = not text.startswith("-") and seconds <= LONGEST.total_seconds()
        return (now + timedelta(seconds=seconds)).replace(microsecond=0) if ahead else None
    return None if word in ("today", "yesterday") else past_time(text, now)


class LastingTime(click.ParamType[str]):
    """How long something lasts; the command gets it as Kubernetes writes it, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The duration. Raises BadParameter: found, and expected."""
        if not is_duration(value) or value.startswith("-") or not _seconds(value):
            self.fail(f"found {value[:60]!r}, expected a duration such as 90m, 4h, 1h30m or 2d.", param, ctx)
        if _seconds(value) > LONGEST.total_seconds():
            self.fail(f"found {value[:60]!r}, expected ten years at most.", param, ctx)
        return f"{_seconds(value)}s"
