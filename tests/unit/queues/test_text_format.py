"""How counts, lists of names, durations and times are written."""

import pytest

from queues.text_format import counted, duration, go_duration, listed, rfc3339, second_at
from tests.tables import with_rows


@pytest.mark.parametrize(("count", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_a_noun_is_in_the_plural_unless_there_is_one(count: int, text: str) -> None:
    assert counted(count, "pod") == text


@pytest.mark.parametrize(
    ("names", "text"),
    [("a", "a"), ("ab", "a and b"), ("abc", "a, b and c"), ("abcde", "a, b, c and 2 more"), ("", "")],
)
def test_the_first_names_are_listed_and_the_others_counted(names: str, text: str) -> None:
    assert listed(list(names)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (59, "59s"),
        (60, "60s"),
        (125, "2m5s"),
        (601, "11m"),
        (3_600, "60m"),
        (3 * 3_600 + 5 * 60 - 1, "3h5m"),
        (9 * 3_600 + 1, "10h"),
        (86_400 + 60, "25h"),
        (273_601, "3d5h"),
        (9 * 86_400 + 1, "10d"),
    ],
)
def test_a_duration_is_written_as_in_tables_and_rounded_up(seconds: int, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(5, "5s"), (65, "1m5s"), (3_605, "1h0m5s")])
def test_a_duration_in_a_status_is_written_as_go_does(seconds: int, text: str) -> None:
    assert go_duration(seconds) == text


def test_a_time_is_cut_off_and_not_rounded() -> None:
    assert rfc3339(1_795_255_199.9996) == "2026-11-21T09:59:59Z"
    assert rfc3339(1_795_255_199.5, "milliseconds") == "2026-11-21T09:59:59.500Z"


def test_a_time_that_no_year_has_is_written_all_the_same() -> None:
    assert rfc3339(-(10**15)) == "0001-01-01T00:00:00Z"
    assert rfc3339(10**15, "milliseconds") == "9999-12-31T23:59:59.000Z"


@with_rows("text", "seconds")
def test_times_are_read_that_can_be_reckoned_with(text: str, seconds: int | None) -> None:
    assert second_at(text) == seconds
