"""One workload as text: times and amounts as people read them, and the run of an elastic gang as a whole."""

import msgspec

from admission.cli.output import Output
from admission.cli.rendering.explanation import (
    facts_of,
    story_of,
    with_their_parts,
    workload_text,
)
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
    stopped = msgspec.structs.replace(ENDED, state="suspended", result="", gone=False, ended=None)
    again = f"`kubectl muster resume {stopped.kind}/{stopped.name} -n {stopped.namespace}` has it wait again"
    assert f"State     suspended; {again}\n" in workload_text(stopped, Output())
    assert not {"Ended", "Ran"} & {title for title, _ in facts_of(stopped)}
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
    failed = replace(stopped, state="finished", result="failed", history=(event,))
    assert "failed: 1 seat" in workload_text(failed, Output())
    was_stopped = replace(event, code="suspended")
    waits = replace(stopped, state="pending", history=(was_stopped,))
    assert "suspended: 1 seat" in workload_text(waits, Output()), "also after it was resumed"
    assert "given back: 1 seat" in workload_text(replace(waits, history=(event,)), Output())


def test_a_gang_and_its_elastic_parts_on_one_node_are_one_line_with_what_all_of_them_hold() -> None:
    def held(number: int, seats: str, gpus: str) -> bodies.AdmissionBody:
        of_node = bodies.SeatsBody(
            pod_set="main",
            node="n1",
            flavor="",
            ordinals=seats,
            count=len(seats.split(",")),
            takes={"nvidia.com/gpu": gpus},
        )
        return msgspec.structs.replace(
            admission(number, "08:10", "08:20", 1), state="open", closed=None, seats=(of_node,)
        )

    (gang,) = with_their_parts([held(3, "4,5", "2"), held(2, "1", "1"), held(1, "0", "1")])
    (line,) = gang.seats
    assert (line.ordinals, line.count, line.takes) == ("0,1,4,5", 4, {"nvidia.com/gpu": "4"})


def event(what: str, minute: str, admission: int, message: str = "", **numbers: int) -> bodies.EventBody:
    return bodies.EventBody(
        at=f"2026-11-21T{minute}:00Z",
        what=what,
        code="ended" if what == "free" else "",
        message=message,
        admission=admission,
        beneficiary=None,
        numbers=numbers,
    )


def test_what_an_admission_gave_back_is_told_in_the_words_of_events() -> None:
    evicted = bodies.ReasonBody(code="Preempted", message="for others")
    first = msgspec.structs.replace(admission(10, "08:10", "08:20", 1), eviction=evicted)
    history = event("free", "08:20", 10, seats=1), event("free", "08:50", 11, seats=1)
    admissions = admission(11, "08:30", "08:50", 1), first
    story = msgspec.structs.replace(ENDED, admissions=admissions, history=history, stages=())
    assert [line.why for line in story_of(story)] == [
        "evicted: 1 seat on node-00002",
        "failed: 1 seat on node-00002",
    ]


def test_a_stage_and_the_decision_that_it_was_are_one_line_of_the_story() -> None:
    history = (
        event("refuse", "08:05", 11, "no room"),
        event("admit", "08:10", 11, "it fits"),
        event("free", "09:10", 11, seats=4),
    )
    lines = story_of(msgspec.structs.replace(ENDED, history=history))
    assert [(line.what, line.admission, line.took, line.why) for line in lines if line.why] == [
        ("refuse", 11, None, "no room"),
        ("admitted", 11, "waited 10m", "it fits"),
        ("closed", 11, "+59m", "failed: 4 seats on node-00002"),
    ]
    assert [line.what for line in lines][:3] == ["created", "seen", "refuse"]


def test_of_a_long_story_the_newest_lines_are_shown_and_all_where_there_is_room() -> None:
    history = tuple(
        event("evict", f"08:{minute}", 11, "busy", lostDeviceSeconds=7200) for minute in range(10, 40)
    )
    story = msgspec.structs.replace(ENDED, history=history)
    assert "22 earlier: -o wide shows them" in workload_text(story, Output())
    whole = workload_text(story, Output(form="wide"))
    assert "2026-11-21T08:10:00Z" in whole
    assert "earlier" not in whole
    assert "busy; 2.00 device-hours of work were lost" in whole
