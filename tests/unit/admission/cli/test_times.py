"""Times on the command line."""

from datetime import UTC, datetime

import pytest

from admission.cli.times import as_text, future_time, past_time

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", "2026-11-21T09:58:30Z"),
        ("90m", "2026-11-21T08:30:00Z"),
        ("12h", "2026-11-20T22:00:00Z"),
        ("30d", "2026-10-22T10:00:00Z"),
        ("2w", "2026-11-07T10:00:00Z"),
        ("1h30m", "2026-11-21T08:30:00Z"),
        ("-12h", "2026-11-20T22:00:00Z"),
        ("now", "2026-11-21T10:00:00Z"),
        ("today", "2026-11-21T00:00:00Z"),
        ("yesterday", "2026-11-20T00:00:00Z"),
        ("2026-11-20", "2026-11-20T00:00:00Z"),
        ("2026-11-20T14:00", "2026-11-20T14:00:00Z"),
        ("2026-11-20T14:00:00+01:00", "2026-11-20T13:00:00Z"),
        ("2026-11-20T14:00:00Z", "2026-11-20T14:00:00Z"),
    ],
)
def test_a_time_is_a_date_or_how_long_ago(text: str, expected: str) -> None:
    found = past_time(text, NOW)
    assert found is not None
    assert as_text(found) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "d",
        "30",
        "2 h",
        "2h3",
        "tomorrow",
        "²d",
        "999999999w",
        "1" * 5000 + "d",
        "20:00",
        "9999-99-99",
        "1969-12-31",
    ],
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert past_time(text, NOW) is None


SATURDAY = NOW


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tomorrow", "2026-11-22T00:00:00Z"),
        ("sunday", "2026-11-22T00:00:00Z"),
        ("friday", "2026-11-27T00:00:00Z"),
        ("Fri", "2026-11-27T00:00:00Z"),
        ("saturday", "2026-11-28T00:00:00Z"),
        ("now", "2026-11-21T10:00:00Z"),
        ("90m", "2026-11-21T11:30:00Z"),
        ("18:00", "2026-11-21T18:00:00Z"),
        ("2026-11-27", "2026-11-27T00:00:00Z"),
        ("2026-11-27T18:00", "2026-11-27T18:00:00Z"),
        ("2026-11-27T18:00:00+01:00", "2026-11-27T17:00:00Z"),
    ],
)
def test_a_time_to_come_is_a_day_a_date_or_a_time(text: str, expected: str) -> None:
    found = future_time(text, SATURDAY)
    assert found is not None
    assert as_text(found) == expected


@pytest.mark.parametrize(
    "text", ["", "soon", "-2h", "today", "yesterday", "frid", "2026-13-01", "25:00", "99999999w"]
)
def test_what_is_no_time_to_come_is_none(text: str) -> None:
    assert future_time(text, SATURDAY) is None
