"""One workload as text: times and amounts as people read them, and the run of an elastic gang as a whole."""

import msgspec

from admission.cli.output import Output
from admission.cli.rendering.explanation import is_suspended, workload_text
from queues.read_api import bodies
from tests.fakes.read_api.fake_lists import ENDED


def admission(number: int, begins: str, ends: str, seats: int) -> bodies.AdmissionBody:
    return msgspec.structs.replace(
        ENDED.admissions[0],
        id=number,
        opened=f"2026-11-21T{begins}:00Z",
        closed=f"2026-11-21T{ends}:00Z",
        seat_count=seats,
    )


def facts(*admissions: bodies.AdmissionBody) -> dict[str, str]:
    told = workload_text(msgspec.structs.replace(ENDED, admissions=admissions), Output())
    lines = told.split("\n\n")[1].splitlines()
    return {line.split()[0]: " ".join(line.split()[1:]) for line in lines}


def test_admissions_beside_one_another_are_one_run() -> None:
    told = facts(
        admission(3, "08:40", "08:50", 1),
        admission(2, "08:20", "08:30", 4),
        admission(1, "08:10", "09:10", 2),
    )
    assert told["Ran"] == "60m"


def test_admissions_after_one_another_are_added_up() -> None:
    told = facts(admission(2, "08:50", "09:10", 4), admission(1, "08:10", "08:30", 4))
    assert told["Ran"] == "40m in 2 admissions"
    assert facts(admission(1, "08:10", "08:30", 4))["Ran"] == "20m"


def test_a_workload_that_was_stopped_and_may_go_on_is_suspended_not_finished() -> None:
    stopped = msgspec.structs.replace(ENDED, result="", gone=False)
    assert "State     suspended; it waits for its place again when it is resumed\n" in workload_text(
        stopped, Output()
    )
    event = bodies.EventBody(
        at="2026-11-21T09:10:00Z",
        what="free",
        admission=11,
        code="ended",
        message="",
        beneficiary=None,
        numbers={"seats": 1},
    )
    replace = msgspec.structs.replace
    assert "suspended: 1 seat" in workload_text(replace(stopped, history=(event,)), Output())
    assert "failed: 1 seat" in workload_text(replace(stopped, result="failed", history=(event,)), Output())
    assert is_suspended(stopped)
    assert is_suspended(replace(stopped, state="suspended"))
    assert not is_suspended(replace(stopped, gone=True))
    assert not is_suspended(replace(stopped, result="failed"))
    assert not is_suspended(replace(stopped, state="pending"))


def test_what_an_admission_gave_back_is_told_in_the_words_of_events() -> None:
    evicted = bodies.ReasonBody(code="Preempted", message="for others")
    first = msgspec.structs.replace(admission(10, "08:10", "08:20", 1), eviction=evicted)
    history = tuple(
        bodies.EventBody(
            at=f"2026-11-21T08:{minute}:00Z",
            what="free",
            code="ended",
            message="",
            admission=number,
            beneficiary=None,
            numbers={"seats": 1},
        )
        for number, minute in ((10, 20), (11, 50))
    )
    story = msgspec.structs.replace(
        ENDED, admissions=(admission(11, "08:30", "08:50", 1), first), history=history
    )
    told = workload_text(story, Output()).split("History\n")[1].splitlines()
    assert [line.split("   ")[-1] for line in told[1:]] == ["evicted: 1 seat", "failed: 1 seat"]
