"""How an expected start reads, in a table and in a sentence."""

import pytest
from msgspec import structs

from admission.cli.rendering.expected import expected_cell, expected_sentence
from admission.read_api.bodies import ExpectedStartBody

NOW = "2026-11-21T10:00:00Z"


def expected(earliest: str, latest: str | None, *, never: bool = False, runs: int = 30) -> ExpectedStartBody:
    def time(text: str) -> str:
        return text if "T" in text else f"2026-11-21T{text}Z"

    return ExpectedStartBody(
        computed=NOW,
        earliest=time(earliest),
        latest=None if latest is None else time(latest),
        never=never,
        basis="user",
        runs=runs,
    )


@pytest.mark.parametrize(
    ("earliest", "latest", "text"),
    [
        ("10:00:00", "10:00:00", "in 0s"),
        ("10:00:10", "10:01:59", "in 10-119s"),
        ("10:10:00", "10:40:00", "in 10-40m"),
        ("10:00:00", "10:02:01", "in 0-3m"),
        ("10:30:00", "10:30:30", "in 30-31m"),
        ("12:00:00", "19:00:00", "in 2-9h"),
        ("10:10:00", "14:00:00", "in 10m-4h"),
        ("13:00:00", "13:00:00", "in 3h"),
        ("22:00:00", "2026-11-25T10:00:00Z", "in 12h-4d"),
        ("09:00:00", "10:05:00", "in 0-5m"),
        ("16:00:00", None, "in >6h"),
        ("10:00:30", None, "unknown"),
        ("09:00:00", "09:57:00", "overdue 3m"),
    ],
)
def test_a_cell_has_both_ends_in_the_unit_of_the_second(earliest: str, latest: str | None, text: str) -> None:
    assert expected_cell(expected(earliest, latest), NOW) == text


def test_what_is_not_forecast_is_told_from_what_nobody_knows() -> None:
    assert expected_cell(None, NOW) == "-"
    assert expected_cell(expected("10:00:00", None, never=True), NOW) == "unknown"


def test_what_has_passed_of_an_interval_is_not_told() -> None:
    begun, passed = expected("09:50:00", "10:05:00"), expected("09:50:00", "09:57:00")
    assert expected_sentence(begun, NOW).startswith("by 10:05 UTC (4 of 5 times)")
    told = "any moment: it should have been by 09:57 UTC (4 of 5 times)"
    assert expected_sentence(passed, NOW).startswith(told)
    by_server = structs.replace(passed, earliest=NOW, latest=None, overdue_since=passed.latest)
    assert expected_sentence(by_server, NOW).startswith(told)
    assert expected_cell(by_server, NOW) == "overdue 3m"


def test_a_sentence_has_times_what_it_goes_by_and_its_age() -> None:
    assert (
        expected_sentence(expected("14:10:00", "15:30:00"), NOW)
        == "between 14:10 and 15:30 UTC (4 of 5 times), from 30 ended runs"
    )
    assert (
        expected_sentence(expected("14:10:00", "2026-11-22T03:00:00Z", runs=1), "2026-11-21T10:05:00Z")
        == "between 14:10 and 2026-11-22 03:00 UTC (4 of 5 times), from 1 ended run, worked out 5m ago"
    )
    assert (
        expected_sentence(expected("14:10:00", None, runs=0), NOW)
        == "14:10 UTC or later; by when is not known, with no ended runs to go by"
    )
    assert expected_sentence(expected("10:00:00", None, never=True), NOW).startswith("unknown: ")


@pytest.mark.parametrize(
    ("basis", "source"),
    [
        ("declared", "as it states"),
        ("user and shape", "as ended work of the same user and shape"),
        ("everything", "as all ended work"),
        ("prior", "as too little like it has ended"),
    ],
)
def test_the_run_time_that_is_assumed_is_told_with_its_source(basis: str, source: str) -> None:
    foreseen = structs.replace(expected("10:10:00", "10:40:00"), basis=basis)
    assert "assumed" not in expected_sentence(foreseen, NOW)
    told = expected_sentence(structs.replace(foreseen, run_time=25), NOW)
    assert told.endswith(f"; its own run time is assumed to be 25s, {source}")
