"""Cron schedules as Kubernetes reads them: five fields, names such as @daily, ``@every 6h``; times in a time zone.

A time is scheduled when the clock on the wall of the time zone shows it. So a time that is left out when clocks go
forward is not scheduled that day, and one that comes twice when they go back is scheduled twice, as in Kubernetes.
Times are seconds since the epoch, on whole minutes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from queues.errors import MusterError
from queues.text_format import counted, excerpt, seconds_of

#: Characters of a schedule; a longer text is none.
LONGEST_SCHEDULE: Final = 256
#: Seconds between two times at least: Jobs are named after their minute.
SHORTEST_INTERVAL: Final = 60
#: Scheduled times that were missed, above which they are not counted further.
MOST_MISSED: Final = 100
#: Days in which a schedule has to come up: the 29th of February skips eight years at a turn of a century.
_DAYS: Final = 8 * 366 + 2

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMED: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class InvalidSchedule(MusterError):
    """Found schedule {found}: {why}. Expected minute, hour, day of month, month and day of week, such as
    "30 2 * * 1-5"; or @hourly, @daily, @weekly, @monthly, @yearly, or "@every 6h".
    """


class UnknownTimeZone(MusterError):
    """Found time zone {found}, expected a name of the IANA database, such as Europe/Berlin."""


@dataclass(frozen=True, slots=True)
class _Field:
    """What one of the five fields may say."""

    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()

    def number(self, text: str) -> int:
        """The number of a digit or word. Raises ValueError, with a sentence."""
        if text.lower() in self.words:
            return self.words.index(text.lower()) + self.least
        if not (text.isascii() and text.isdecimal() and len(text) <= 4):
            raise ValueError(f"{self.name} {excerpt(text)} is not a number")
        found = int(text)
        if not self.least <= found <= self.most:
            raise ValueError(f"{self.name} {found} is not between {self.least} and {self.most}")
        return found


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, _WEEKDAYS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When something is due: at times of the day on certain days, or every so many seconds."""

    #: Minutes since midnight, ascending.
    minutes: tuple[int, ...] = ()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    #: 0 is Sunday.
    weekdays: frozenset[int] = frozenset()
    #: True: one of days and weekdays has to match, for both are restricted. False: both have to.
    either_day: bool = False
    #: Seconds since the last time; 0: it goes by the clock.
    every: int = 0

    def next_after(self, after: int, zone: tzinfo) -> int | None:
        """The first scheduled time after a time; None if there is none in eight years."""
        if self.every:
            return after + self.every
        first = datetime.fromtimestamp(after, zone).toordinal() - 1
        for day in range(first, first + _DAYS):
            # Where clocks go back over midnight, times of a day may lie behind the first ones of the next.
            found = [time for time in (*self._on(day, zone), *self._on(day + 1, zone)) if time > after]
            if found:
                return min(found)
        return None

    def last_until(self, until: int, zone: tzinfo, *, after: int) -> int | None:
        """The last scheduled time up to and including a time; None if there is none later than ``after``."""
        if self.every:
            return after + (until - after) // self.every * self.every if until - after >= self.every else None
        last = datetime.fromtimestamp(until, zone).toordinal() + 1
        least = datetime.fromtimestamp(after, zone).toordinal() - 1
        for day in range(last, max(least, last - _DAYS) - 1, -1):
            found = [time for time in (*self._on(day - 1, zone), *self._on(day, zone)) if time <= until]
            if found:
                return latest if (latest := max(found)) > after else None
        return None

    def missed(self, after: int, until: int, zone: tzinfo) -> int:
        """Scheduled times after one time, up to and including another; at most ``MOST_MISSED`` + 1."""
        count, time = 0, self.next_after(after, zone)
        while time is not None and time <= until and count <= MOST_MISSED:
            count, time = count + 1, self.next_after(time, zone)
        return count

    def _on(self, day: int, zone: tzinfo) -> Iterator[int]:
        """Scheduled times on a day (proleptic ordinal) of the time zone."""
        if not self._is_due(date.fromordinal(day)):
            return iter(())
        return iter(_times(self.minutes, day, zone))

    def _is_due(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (of_month or of_week) if self.either_day else (of_month and of_week)


@lru_cache(maxsize=1024)
def _times(minutes: tuple[int, ...], day: int, zone: tzinfo) -> tuple[int, ...]:
    """Minutes of a day as times."""
    begin, end = _at(day, 0, 0, zone), _at(day + 1, 0, 1, zone)
    if begin.utcoffset() == end.utcoffset():
        midnight = int(begin.timestamp())
        return tuple(midnight + 60 * minute for minute in minutes)
    # Clocks are changed: minutes that come twice, and minutes that do not come.
    both = [_at(day, minute, fold, zone) for minute in minutes for fold in (0, 1)]
    return tuple(sorted({int(time.timestamp()) for time in both if _is_shown(time, zone)}))


def _at(day: int, minute: int, fold: int, zone: tzinfo) -> datetime:
    on = date.fromordinal(day)
    return datetime(on.year, on.month, on.day, minute // 60, minute % 60, tzinfo=zone, fold=fold)


def _is_shown(time: datetime, zone: tzinfo) -> bool:
    """Whether the clock on the wall shows a time at all."""
    shown = time.astimezone(UTC).astimezone(zone)
    return (shown.hour, shown.minute, shown.toordinal()) == (time.hour, time.minute, time.toordinal())


@lru_cache(maxsize=1024)
def schedule_of(text: str) -> Schedule:
    """The schedule that a text says. Raises InvalidSchedule."""
    found = excerpt(text)
    if len(text) > LONGEST_SCHEDULE:
        raise InvalidSchedule(found=found, why=f"it has more than {LONGEST_SCHEDULE} characters")
    written = text.strip()
    if written.startswith("@every "):
        return _every(written.removeprefix("@every ").strip(), found)
    if written.startswith("@"):
        if written not in _NAMED:
            raise InvalidSchedule(found=found, why="it is no name of a schedule")
        written = _NAMED[written]
    parts = written.split()
    if len(parts) != len(_FIELDS):
        raise InvalidSchedule(found=found, why=f"it has {counted(len(parts), 'field')}, not five")
    try:
        values = [_values(part, field) for part, field in zip(parts, _FIELDS, strict=True)]
    except ValueError as error:
        raise InvalidSchedule(found=found, why=str(error)) from error
    minutes, hours, days, months, weekdays = values
    return Schedule(
        minutes=tuple(60 * hour + minute for hour in sorted(hours) for minute in sorted(minutes)),
        days=days,
        months=months,
        weekdays=weekdays,
        either_day=not (_is_any(parts[2]) or _is_any(parts[4])),
    )


def _every(text: str, found: str) -> Schedule:
    seconds = seconds_of(text)
    if seconds is None:
        raise InvalidSchedule(found=found, why=f"{excerpt(text)} is no duration")
    return Schedule(every=max(SHORTEST_INTERVAL, int(seconds)))


def _is_any(text: str) -> bool:
    """Whether a field of days leaves all of them. A step above 1 restricts them."""
    return any(part in ("*", "?", "*/1", "?/1") for part in text.split(","))


def _values(text: str, field: _Field) -> frozenset[int]:
    """The numbers that a field names. Raises ValueError, with a sentence."""
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        low, dash, high = span.partition("-")
        if low in ("*", "?") and not dash:
            first, last = field.least, field.most
        else:
            first = field.number(low)
            last = field.number(high) if dash else field.most if slash else first
        if first > last:
            raise ValueError(f"{field.name} {excerpt(span)} ends before it begins")
        if slash and not (re.fullmatch("[0-9]{1,4}", step) and int(step)):
            raise ValueError(f"{field.name} {excerpt(part)} has no step of 1 or more")
        found.update(range(first, last + 1, int(step) if slash else 1))
    return frozenset(found)


#: What a part of a time zone's name looks like.
_ZONE: Final = re.compile(r"[A-Za-z._0-9+][A-Za-z.\-_0-9+]{0,13}")


@lru_cache(maxsize=1024)
def zone_of(name: str | None) -> tzinfo:
    """The time zone of that name; UTC for None. Raises UnknownTimeZone."""
    if name is None:
        return UTC
    parts = name[:100].split("/")
    if name.lower() == "local" or any(_ZONE.fullmatch(part) is None or part in (".", "..") for part in parts):
        raise UnknownTimeZone(found=excerpt(name))
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise UnknownTimeZone(found=excerpt(name)) from error
