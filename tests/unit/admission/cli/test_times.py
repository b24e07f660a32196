"""Times on the command line."""

from datetime import UTC, datetime

import pytest

from admission.cli.times import as_text, future_time, past_time
from tests.tables import with_rows

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


@with_rows("text", "expected")
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


@with_rows("text", "expected")
def test_a_time_to_come_is_a_day_a_date_or_a_time(text: str, expected: str) -> None:
    found = future_time(text, SATURDAY)
    assert found is not None
    assert as_text(found) == expected


@pytest.mark.parametrize(
    "text", ["", "soon", "-2h", "today", "yesterday", "frid", "2026-13-01", "25:00", "99999999w"]
)
def test_what_is_no_time_to_come_is_none(text: str) -> None:
    assert future_time(text, SATURDAY) is None
