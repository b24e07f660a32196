"""Which requests for nodes are made, renewed and deleted, and what the users of the gangs are told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.provisioning.found_requests import FoundRequest, RequestPhase, found_request
from admission.provisioning.plan import (
    MOST_EFFECTS,
    MOST_REQUESTS,
    CreateRequest,
    DeleteRequest,
    Effect,
    TellOwner,
    pause_after,
    plan,
)
from admission.provisioning.wishes import NodeWish, PodWish, request_document
from queues.api.api_resources import JOBS, ObjectRef
from queues.quota.queue import ProvisioningRules
from queues.resources import Resources
from queues.workload import EVERYWHERE, QueueName, WorkloadKey, WorkloadKind

NOW = 1_795_000_000
TIMEOUT = 900


def wish(number: int = 1, queue: str = "q", gpus: int = 8, most: int = 10) -> NodeWish:
    key = WorkloadKey(WorkloadKind.JOB, f"uid-{number}")
    return NodeWish(
        key=key,
        ref=ObjectRef(resource=JOBS, namespace="ml", name=f"train-{number}", uid=key.uid),
        queue=QueueName(queue),
        arrival=number,
        rules=ProvisioningRules(class_name="check-capacity", timeout=TIMEOUT, max_open=most),
        pods=(PodWish(count=2, takes=Resources({"nvidia.com/gpu": gpus * 1000}), nodes=EVERYWHERE),),
    )


def request(
    of: NodeWish, phase: RequestPhase = RequestPhase.OPEN, *, ago: int = 0, attempt: int = 1, **rest: Any
) -> FoundRequest:
    fields = {"namespace": "ml", "name": of.name(attempt), "uid": f"request-{of.owner}-{attempt}"}
    return FoundRequest(
        **{**fields, **rest}, owner=of.owner, attempt=attempt, created=NOW - ago, phase=phase, since=NOW - ago
    )


def writes(effects: list[Effect]) -> list[tuple[str, str]]:
    """Creations and deletions, by name."""
    named = []
    for each in effects:
        match each:
            case CreateRequest():
                named.append(("create", each.wish.name(each.attempt)))
            case DeleteRequest():
                named.append(("delete", each.request.name))
    return named


def told(effects: list[Effect]) -> list[str]:
    return [each.reason for each in effects if isinstance(each, TellOwner)]


def test_a_gang_that_waits_for_nodes_gets_one_request() -> None:
    one = wish()
    assert writes(plan([one], (), [], NOW)) == [("create", one.name(1))]
    effects = plan([one], (), [request(one)], NOW)
    assert (writes(effects), told(effects)) == ([], ["ProvisioningRequested"])


def test_a_request_goes_when_its_gang_waits_for_something_else() -> None:
    one = wish()
    assert writes(plan([], (), [request(one)], NOW)) == [("delete", one.name(1))]
    assert writes(plan([], {one.owner}, [request(one)], NOW)) == [], "that is about to be known"


def test_a_gang_that_changes_is_asked_for_anew() -> None:
    before, after = wish(gpus=8), wish(gpus=4)
    first = plan([after], (), [request(before)], NOW)
    assert writes(first) == [("delete", before.name(1)), ("create", after.name(1))]


@pytest.mark.parametrize(
    "phase", [RequestPhase.FAILED, RequestPhase.BOOKING_EXPIRED, RequestPhase.CAPACITY_REVOKED]
)
def test_what_came_to_nothing_is_asked_for_again_after_a_pause(phase: RequestPhase) -> None:
    one = wish()
    early = plan([one], (), [request(one, phase, ago=59)], NOW)
    assert (writes(early), told(early)) == ([], [f"Provisioning{phase}"])
    late = plan([one], (), [request(one, phase, ago=60)], NOW)
    assert writes(late) == [("delete", one.name(1)), ("create", one.name(2))]
    assert writes(plan([one], (), [request(one, phase, ago=119, attempt=2)], NOW)) == []


def test_the_pauses_double_up_to_half_an_hour() -> None:
    assert [pause_after(attempt) for attempt in (1, 2, 3, 6, 40)] == [60, 120, 240, 1800, 1800]


@pytest.mark.parametrize("phase", [RequestPhase.OPEN, RequestPhase.PROVISIONED])
def test_no_answer_and_room_that_is_not_used_end_with_the_time_out(phase: RequestPhase) -> None:
    one = wish()
    assert told(plan([one], (), [request(one, phase, ago=TIMEOUT - 1)], NOW)) in (
        ["ProvisioningRequested"],
        ["Provisioned"],
    )
    over = plan([one], (), [request(one, phase, ago=TIMEOUT)], NOW)
    assert (writes(over), told(over)) == ([], ["ProvisioningTimedOut"])
    again = plan([one], (), [request(one, phase, ago=TIMEOUT + 60)], NOW)
    assert writes(again) == [("delete", one.name(1)), ("create", one.name(2))]


def test_a_queue_has_so_many_open_requests_and_the_earliest_gangs_have_them() -> None:
    gangs = [wish(number, most=2) for number in (3, 1, 2)]
    assert writes(plan(gangs, (), [], NOW)) == [("create", wish(1).name(1)), ("create", wish(2).name(1))]
    other = wish(4, queue="other", most=2)
    there = [request(wish(1)), request(wish(2))]
    assert writes(plan([*gangs, other], (), there, NOW)) == [("create", other.name(1))]


def test_a_request_that_failed_leaves_its_turn_to_the_next_gang() -> None:
    first, second = wish(1, most=1), wish(2, most=1)
    failed = request(first, RequestPhase.FAILED, ago=10)
    assert writes(plan([first, second], (), [failed], NOW)) == [("create", second.name(1))]
    # And waits for it, though its pause is over.
    over = request(first, RequestPhase.FAILED, ago=1000)
    assert writes(plan([first, second], (), [over, request(second)], NOW)) == []


def test_all_requests_together_and_the_writes_of_a_look_are_bounded() -> None:
    gangs = [wish(number, queue=f"q{number}") for number in range(MOST_REQUESTS + 5)]
    assert len(writes(plan(gangs, (), [], NOW))) == MOST_EFFECTS
    there = [request(each, RequestPhase.FAILED, ago=1) for each in gangs[:MOST_REQUESTS]]
    assert writes(plan(gangs, (), there, NOW)) == []


def test_a_request_that_a_user_labelled_is_no_request_of_the_gang() -> None:
    one = wish()
    forged = [
        request(one, name="mine"),
        request(one, namespace="other", uid="u2"),
        request(one, uid="u3", attempt=0),
    ]
    effects = plan([one], (), forged, NOW)
    assert sum(what == "delete" for what, _ in writes(effects)) == 3
    assert ("create", one.name(1)) in writes(effects)


def test_conditions_are_read_as_the_autoscaler_writes_them() -> None:
    def read(*conditions: tuple[str, str]) -> FoundRequest:
        document = request_document(wish(), 2)
        document["metadata"] |= {"uid": "u", "creationTimestamp": "2026-11-21T10:00:00Z"}
        document["status"] = {
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "lastTransitionTime": "2026-11-21T10:05:00Z",
                    "message": "a\nb",
                }
                for kind, status in conditions
            ]
        }
        return found_request(document)

    assert (read().phase, read().attempt, read().owner) == (RequestPhase.OPEN, 2, "job.uid-1")
    accepted = read(("Accepted", "True"), ("Provisioned", "False"))
    assert (accepted.phase, accepted.since, accepted.message) == (RequestPhase.OPEN, accepted.created, "")
    there = read(("Accepted", "True"), ("Provisioned", "True"))
    assert (there.phase, there.since - there.created, there.message) == (RequestPhase.PROVISIONED, 300, "a b")
    assert read(("Provisioned", "True"), ("BookingExpired", "True")).phase is RequestPhase.BOOKING_EXPIRED
    assert read(("Provisioned", "True"), ("CapacityRevoked", "True")).phase is RequestPhase.CAPACITY_REVOKED
    assert read(("Failed", "True")).phase is RequestPhase.FAILED


@given(st.data())
def test_a_gang_has_a_request_if_and_only_if_it_waits_for_nodes(data: st.DataObject) -> None:
    """However gangs change and autoscalers answer, two looks later each waiting gang has one request, and no other."""
    there: dict[str, FoundRequest] = {}
    now = NOW
    gangs = [wish(number, gpus=data.draw(st.sampled_from([4, 8]))) for number in range(6)]
    for _ in range(data.draw(st.integers(1, 6))):
        waiting = [each for each in gangs if data.draw(st.booleans())]
        for name in list(there):
            answer = data.draw(st.sampled_from([None, *RequestPhase]))
            if answer is not None:
                known = there[name]
                there[name] = FoundRequest(
                    namespace="ml",
                    name=name,
                    uid=known.uid,
                    owner=known.owner,
                    attempt=known.attempt,
                    created=known.created,
                    phase=answer,
                    since=now,
                )
        now += data.draw(st.integers(1, 4000))
        for _ in range(2):
            effects = plan(waiting, (), list(there.values()), now)
            for each in effects:
                if isinstance(each, DeleteRequest):
                    there.pop(each.request.name, None)
                elif isinstance(each, CreateRequest):
                    made = request(each.wish, attempt=each.attempt, ago=NOW - now)
                    assert made.name not in there
                    there[made.name] = made
        assert sorted(each.owner for each in there.values()) == sorted(each.owner for each in waiting)
