"""Cron schedules: what they say, and at which times they are due."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.api.schedules.cron import InvalidSchedule, UnknownTimeZone, schedule_of, zone_of
from tests.laws.worlds.settings import in_worlds
from tests.tables import with_rows

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
#: Clocks are changed by half an hour, over midnight, and by a day that is left out.
ZONES = [UTC, BERLIN, NEW_YORK, *map(ZoneInfo, ("Australia/Lord_Howe", "America/Havana", "Asia/Gaza"))]


def at(text: str, zone: Any = UTC) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp())


def shown(time: int | None, zone: Any = UTC) -> str:
    return "" if time is None else datetime.fromtimestamp(time, zone).isoformat(timespec="minutes")[:22]


@with_rows("text", "after", "due")
def test_a_schedule_is_due_when_it_says(text: str, after: str, due: str) -> None:
    assert due == shown(schedule_of(text).next_after(at(after), UTC))[:16]


@with_rows("text", "why")
def test_what_is_no_schedule_is_told(text: str, why: str) -> None:
    with pytest.raises(InvalidSchedule) as error:
        schedule_of(text)
    assert why == error.value.facts["why"]


@pytest.mark.parametrize(
    "name", ["", "Local", "local", "Mars/City", "America", "/etc/passwd", "../UTC", "-a/b"]
)
def test_what_is_no_time_zone_is_told(name: str) -> None:
    with pytest.raises(UnknownTimeZone):
        zone_of(name)


def test_a_time_that_is_left_out_in_spring_is_not_due_that_day() -> None:
    due = schedule_of("30 2 * * *").next_after(at("2026-03-28 02:30", BERLIN), BERLIN)
    assert shown(due, BERLIN) == "2026-03-30T02:30+02:00"


def test_a_time_that_comes_twice_in_autumn_is_due_twice() -> None:
    schedule = schedule_of("30 2 * * *")
    first = schedule.next_after(at("2026-10-25 00:00", BERLIN), BERLIN)
    assert first is not None
    assert shown(first, BERLIN) == "2026-10-25T02:30+02:00"
    assert shown(schedule.next_after(first, BERLIN), BERLIN) == "2026-10-25T02:30+01:00"


def test_a_day_that_goes_on_after_the_next_has_begun_is_not_forgotten() -> None:
    # A minute after midnight, clocks there went back to 23:01 of the day before.
    zone = ZoneInfo("America/St_Johns")
    due = schedule_of("30 23 * * *").next_after(at("2010-11-07 00:00", zone), zone)
    assert shown(due, zone) == "2010-11-06T23:30-03:30"
    last = schedule_of("0 0 * * *").last_until(due or 0, zone, after=0)
    assert shown(last, zone) == "2010-11-07T00:00-02:30"


def test_hours_go_on_where_clocks_are_changed() -> None:
    schedule, times = schedule_of("@hourly"), []
    time = at("2026-03-29 00:30", BERLIN)
    for _ in range(3):
        time = schedule.next_after(time, BERLIN) or 0
        times.append(shown(time, BERLIN)[11:16])
    assert times == ["01:00", "03:00", "04:00"]


FIELD = {
    "minute": st.sampled_from(["*", "0", "30", "*/20", "5,35", "59"]),
    "hour": st.sampled_from(["*", "0", "1", "2", "23", "1-3", "*/6", "0,2"]),
    "day": st.sampled_from(["*", "1", "28-31", "*/7", "15"]),
    "month": st.sampled_from(["*", "3", "10-11", "apr,oct"]),
    "weekday": st.sampled_from(["*", "0", "sun", "1-5"]),
}
SCHEDULES = st.builds(lambda *parts: " ".join(parts), *FIELD.values())
#: About two days around each change of clocks in these zones, and other times.
TIMES = st.one_of(
    st.integers(at("2026-03-07 00:00"), at("2026-04-10 00:00")),
    st.integers(at("2026-10-20 00:00"), at("2026-11-10 00:00")),
)


def is_due(text: str, time: int, zone: Any) -> bool:
    """What a schedule means, in the simplest words: the clock on the wall shows it."""
    minute, hour, day, month, weekday = schedule_fields(text)
    wall = datetime.fromtimestamp(time, zone)
    of_month, of_week = wall.day in day, wall.isoweekday() % 7 in weekday
    parts = text.split()
    either = parts[2] != "*" and parts[4] != "*"
    return (
        wall.minute in minute
        and wall.hour in hour
        and wall.month in month
        and ((of_month or of_week) if either else (of_month and of_week))
    )


@cache
def schedule_fields(text: str) -> list[set[int]]:
    words = {"apr": 4, "oct": 10, "sun": 0}
    bounds = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]
    fields = []
    for part, (least, most) in zip(text.split(), bounds, strict=True):
        found: set[int] = set()
        for each in part.split(","):
            span, _, step = each.partition("/")
            low, _, high = span.partition("-")
            if low == "*":
                first, last = least, most
            else:
                first = words[low] if low in words else int(low)
                last = int(high) if high else first
            found |= set(range(first, last + 1, int(step or 1)))
        fields.append(found)
    return fields


@given(text=SCHEDULES, time=TIMES, zone=st.sampled_from(ZONES))
@in_worlds(150)
def test_the_next_and_the_last_time_are_those_that_the_clock_shows(text: str, time: int, zone: Any) -> None:
    schedule, span = schedule_of(text), 3 * 1440
    minute = time // 60 * 60
    ahead = (minute + 60 * index for index in range(1, span))
    expected = next((each for each in ahead if is_due(text, each, zone)), None)
    found = schedule.next_after(time, zone)
    if expected is None:
        assert found is None or found >= minute + 60 * span
    else:
        assert expected == found
    behind = (minute - 60 * index for index in range(span))
    last = next((each for each in behind if is_due(text, each, zone)), None)
    assert last == schedule.last_until(time, zone, after=minute - 60 * span)


@given(text=SCHEDULES, time=TIMES, hours=st.integers(0, 72), zone=st.sampled_from(ZONES))
@in_worlds(60)
def test_missed_times_are_counted_up_to_a_hundred_and_one(
    text: str, time: int, hours: int, zone: Any
) -> None:
    until = time + 3600 * hours
    minutes = range(time // 60 + 1, until // 60 + 1)
    expected = sum(is_due(text, 60 * minute, zone) for minute in minutes)
    assert min(101, expected) == schedule_of(text).missed(time, until, zone)


def test_an_interval_goes_from_the_last_time() -> None:
    schedule, start = schedule_of("@every 90m"), at("2026-03-01 00:10")
    until = start + int(timedelta(hours=10).total_seconds())
    assert shown(schedule.last_until(until, UTC, after=start))[:16] == "2026-03-01T09:10"
    assert schedule.last_until(start + 60, UTC, after=start) is None
    assert schedule.missed(start, until, UTC) == 6
