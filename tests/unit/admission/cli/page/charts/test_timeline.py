"""The story of a workload as periods in time, without gaps."""

from typing import Any

from msgspec import structs

from admission.cli.page.charts.timeline import periods, timeline
from admission.read_api.bodies import AdmissionBody, ExplanationBody, ReasonBody
from tests.fakes.fake_reader import STORY


def admission(number: int, opened: str, closed: str | None = None, **more: Any) -> AdmissionBody:
    known = AdmissionBody(
        id=number,
        queue="dev",
        state="closed" if closed else "open",
        opened=at(opened),
        closed=closed and at(closed),
        adopted=False,
        eviction=None,
        seats=(),
        ended=0,
    )
    return structs.replace(known, **more)


def at(clock: str) -> str:
    return f"2026-11-21T{clock}:00Z"


def workload(*admissions: AdmissionBody, state: str = "admitted", **more: Any) -> ExplanationBody:
    known = {"name": "bert", "created": at("08:00"), "now": at("10:00"), "ended": None, "result": ""}
    return structs.replace(STORY, state=state, admissions=admissions, **{**known, **more})


def told(one: ExplanationBody) -> list[tuple[str, str, str]]:
    return [(each.what, each.begins[11:16], each.ends[11:16]) for each in periods(one)]


def evicted(clock: str) -> ReasonBody:
    return ReasonBody(code="Preempted", message="", since=at(clock))


def test_what_waits_waits_until_now() -> None:
    assert told(workload(state="pending")) == [("waiting", "08:00", "10:00")]


def test_what_was_taken_back_waited_again() -> None:
    one = workload(
        admission(12, "09:30"), admission(9, "08:10", "09:05", eviction=evicted("09:00")), state="admitted"
    )
    assert told(one) == [
        ("waiting", "08:00", "08:10"),
        ("running", "08:10", "09:00"),
        ("evicting", "09:00", "09:05"),
        ("waiting", "09:05", "09:30"),
        ("running", "09:30", "10:00"),
    ]
    html = str(timeline(one))
    assert "bert: waited for 35m, held seats for 80m, was being evicted for 5m" in html
    assert html.count("<rect") == html.count("<li>") == 5
    assert "evicted: Preempted" in html


def test_what_has_ended_ends() -> None:
    one = workload(admission(7, "08:30", "09:30"), state="finished", ended=at("09:30"), result="failed")
    assert told(one) == [("waiting", "08:00", "08:30"), ("running", "08:30", "09:30")]
    assert "failed, 90m after its creation" in str(timeline(one))


def test_what_grows_has_seats_from_its_first_admission_on() -> None:
    one = workload(admission(7, "08:30"), admission(8, "09:00", "09:10"))
    assert told(one)[:2] == [("waiting", "08:00", "08:30"), ("running", "08:30", "10:00")]


def test_pods_that_ran_before_it_was_created_make_no_time_run_backwards() -> None:
    one = workload(admission(7, "07:00"))
    assert told(one) == [("running", "08:00", "10:00")]


def test_without_a_time_of_creation_there_is_none() -> None:
    assert str(timeline(workload(created=None))) == ""
