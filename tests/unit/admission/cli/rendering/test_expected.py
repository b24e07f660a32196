"""How an expected start reads, in a table and in a sentence."""

from typing import Any

from msgspec import structs

from admission.cli.rendering.expected import expected_cell, expected_sentence
from queues.read_api.bodies import ExpectedStartBody
from tests.tables import with_rows

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


@with_rows("earliest", "latest", "text")
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


def test_a_sentence_has_times_what_it_goes_by_and_its_age(golden: Any) -> None:
    assert expected_sentence(expected("14:10:00", "15:30:00"), NOW) == golden["first"]
    assert (
        expected_sentence(expected("14:10:00", "2026-11-22T03:00:00Z", runs=1), "2026-11-21T10:05:00Z")
        == golden["second"]
    )
    assert expected_sentence(expected("14:10:00", None, runs=0), NOW) == golden["third"]
    assert expected_sentence(expected("10:00:00", None, never=True), NOW).startswith("unknown: ")


@with_rows("basis", "runs", "text")
def test_what_is_not_known_yet_says_how_many_runs_of_its_class_have_ended(
    basis: str, runs: int, text: str
) -> None:
    foreseen = structs.replace(
        expected("10:00:00", None), basis=basis, class_runs=runs, not_yet=True, run_time=60
    )
    assert expected_cell(foreseen, NOW) == "unknown"
    told, _, source = expected_sentence(foreseen, NOW).partition("; ")
    assert told == text
    assert source.startswith("its own run time is assumed to be 60s, ")


@with_rows("basis", "source")
def test_the_run_time_that_is_assumed_is_told_with_its_source(basis: str, source: str) -> None:
    foreseen = structs.replace(expected("10:10:00", "10:40:00"), basis=basis)
    assert "assumed" not in expected_sentence(foreseen, NOW)
    least = expected_sentence(structs.replace(foreseen, run_time=25, at_least=True), NOW)
    assert least.endswith("to be at least 25s, as work of the same user and shape has run so far")
    told = expected_sentence(structs.replace(foreseen, run_time=25), NOW)
    assert told.endswith(f"; its own run time is assumed to be 25s, {source}")
