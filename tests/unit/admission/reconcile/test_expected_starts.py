"""What objects are told of expected starts, and how seldom."""

import random
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from admission.reconcile import expected_starts
from admission.reconcile.expected_starts import (
    BETWEEN,
    BETWEEN_PASSED,
    MOST,
    ExpectedStart,
    ToldStarts,
    is_news,
    start_in,
    tells_news,
    with_start,
)
from queues import kind_names
from queues.workload import WorkloadKey

NOON = 1_800_014_400
HOUR, MINUTE = 3600, 60


def start(low: int | None, high: int | None, after: int = 0) -> ExpectedStart:
    """An interval in minutes after noon, as of so many minutes after it."""
    seconds = (None if end is None else NOON + end * MINUTE for end in (low, high))
    return ExpectedStart(NOON + after * MINUTE, *seconds)


def key(number: int) -> WorkloadKey:
    return WorkloadKey(kind_names.POD_GROUP, f"uid-{number:05}")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            start(20, 90),
            "expected to start between 2027-01-15T12:20Z and 2027-01-15T13:30Z (4 of 5 times), "
            "as of 2027-01-15T12:00Z",
        ),
        (start(360, None), "expected to start at 2027-01-15T18:00Z or later, as of 2027-01-15T12:00Z"),
        (start(None, None), "the expected start is unknown, as of 2027-01-15T12:00Z"),
    ],
)
def test_what_an_object_says_can_be_read_again(told: ExpectedStart, words: str) -> None:
    assert told.sentence() == words
    assert start_in(with_start("needs 8 nvidia.com/gpu, 4 are free", told)) == told
    assert start_in("needs 8 nvidia.com/gpu, 4 are free") is None
    assert start_in(f"{words}; and more") is None


def test_an_interval_becomes_no_narrower_by_minutes() -> None:
    assert ExpectedStart(NOON + 59, NOON + 119, NOON + 121).by_minute() == start(1, 3)


@pytest.mark.parametrize(
    ("told", "wanted", "news"),
    [
        (None, start(20, 90), True),
        (None, start(20, None), True),
        # It starts before anybody reads it, or nothing is known.
        (None, start(0, 2), False),
        (None, start(None, None), False),
        (start(60, 120), start(60, 120, 30), False),
        (start(60, 120), start(70, 140, 30), False),
        # Later or earlier than was told, by more than a quarter of the time until the end of what was told.
        (start(60, 120), start(100, 151, 30), True),
        (start(60, 120), start(29, 100, 20), True),
        (start(60, 120), start(31, 100, 20), False),
        # But not within ten minutes.
        (start(60, 120), start(100, 500, 9), False),
        (start(60, 120), start(100, 500, 10), True),
        # Much better known.
        (start(60, 120), start(95, 100, 30), True),
        (start(60, 120), start(None, None, 30), True),
        (start(None, None), start(None, None, 30), False),
        (start(None, None), start(60, 120, 30), True),
        (start(60, 120), start(60, None, 30), True),
        (start(60, None), start(70, None, 30), False),
        # The interval that it tells has passed.
        (start(5, 10), start(11, 12, 11), True),
        (start(0, 1), start(2, 5, 2), False),
        (start(0, 1), start(2, 5, 3), True),
        (start(60, None), start(90, None, 30), True),
    ],
)
def test_another_start_is_told_if_it_is_news(
    told: ExpectedStart | None, wanted: ExpectedStart, news: bool
) -> None:
    assert is_news(told, wanted) is news
    before = with_start("no room", told)
    assert tells_news(before, with_start("other numbers", wanted)) is news
    assert not tells_news(before, "other numbers"), "a leader that has no forecast yet leaves it"


def test_few_are_told_of_many_and_each_seldom() -> None:
    """An hour of forecasts of 1,000 workloads, each half a minute and far from the last one."""
    told, chance = ToldStarts(), random.Random(7)
    at: defaultdict[WorkloadKey, list[int]] = defaultdict(list)
    by_minute: Counter[int] = Counter()
    for second in range(HOUR):
        if second % 30 == 0:
            low = {number: chance.randrange(HOUR, 40 * HOUR) for number in range(1000)}
            told.forecast(
                {
                    key(number): ExpectedStart(NOON + second, NOON + second + each, NOON + second + 2 * each)
                    for number, each in low.items()
                }
            )
        if (one := told.next(float(second))) is not None:
            at[one].append(second)
            by_minute[second // 60] += 1
    assert max(by_minute.values()) <= 60
    assert all(later - earlier >= BETWEEN for times in at.values() for earlier, later in pairwise(times))
    assert sum(map(len, at.values())) > 6 * MOST, "the bounds were reached"


def test_a_steady_forecast_is_told_once_to_those_who_are_first() -> None:
    told, written = ToldStarts(), []
    for minute in range(60):
        told.forecast({key(number): start(60 + number, 240 + number, minute) for number in range(1000)})
        written += [told.next(60.0 * minute + second) for second in range(60)]
    assert [each for each in written if each is not None] == [key(number) for number in range(MOST)]


def test_an_interval_that_has_passed_is_put_right_within_minutes() -> None:
    told = ToldStarts()
    told.forecast({key(1): start(3, 5)})
    assert told.next(0.0) == key(1)
    told.forecast({key(1): start(8, 20, 7)})
    assert [told.next(BETWEEN_PASSED - 1.0), told.next(float(BETWEEN_PASSED))] == [None, key(1)]


def test_who_waits_no_longer_is_told_nothing() -> None:
    told = ToldStarts()
    told.forecast({key(1): start(20, 90), key(2): start(30, 90)})
    assert (told.next(0.0), told.of(key(1)), told.of(key(2))) == (key(1), start(20, 90), None)
    told.forget([key(1), key(2)])
    assert (told.next(1.0), told.of(key(1))) == (None, None)
    told.forecast({key(1): start(20, 90)})
    assert told.next(2.0) == key(1)
    told.forecast({})
    assert told.of(key(1)) is None


def test_who_was_told_is_put_right_though_others_come_first_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected_starts, "MOST", 1)
    told = ToldStarts()
    told.forecast({key(1): start(20, 90)})
    assert told.next(0.0) == key(1)
    told.forecast({key(1): start(400, 900, 20), key(2): start(30, 90, 20)})
    assert [told.next(1200.0) for _ in range(3)] == [key(2), key(1), None]
