"""Which requests for nodes are made, renewed and deleted, and what the users of the gangs are told."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.provisioning.found_requests import FoundRequest, RequestPhase, found_request, is_made_by_muster
from admission.provisioning.plan import (
    MOST_BEYOND,
    MOST_CREATIONS,
    MOST_DELETIONS,
    MOST_REFUSALS,
    MOST_REQUESTS,
    CreateRequest,
    DeleteRequest,
    Effect,
    NotAsked,
    WhyNot,
    is_refused_for_good,
    pause_after,
    plan,
)
from admission.provisioning.wishes import NodeWish, PodWish, request_document
from queues import kind_names
from queues.api.api_resources import JOBS, ObjectRef
from queues.quota.queue import ProvisioningRules
from queues.resources import Resources
from queues.workload import EVERYWHERE, QueueName, WorkloadKey
from tests.tables import with_rows

NOW = 1_795_000_000
TIMEOUT = 900


def wish(
    number: int = 1,
    queue: str = "q",
    gpus: int = 8,
    most: int = 10,
    *,
    namespace: str = "ml",
    above: tuple[str, ...] = (),
) -> NodeWish:
    key = WorkloadKey(kind_names.JOB, f"uid-{number}")
    return NodeWish(
        key=key,
        ref=ObjectRef(resource=JOBS, namespace=namespace, name=f"train-{number}", uid=key.uid),
        queue=QueueName(queue),
        arrival=number,
        rules=ProvisioningRules(class_name="check-capacity", timeout=TIMEOUT, max_open=most),
        pods=(PodWish(count=2, takes=Resources({"nvidia.com/gpu": gpus * 1000}), nodes=EVERYWHERE),),
        above=tuple(QueueName(each) for each in above),
    )


def request(
    of: NodeWish, phase: RequestPhase = RequestPhase.OPEN, *, ago: int = 0, attempt: int = 1, **rest: Any
) -> FoundRequest:
    fields = {"namespace": of.ref.namespace, "name": of.name(attempt), "uid": f"request-{of.owner}-{attempt}"}
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


def unasked(effects: list[Effect]) -> dict[str, WhyNot]:
    """Gangs that are told that nobody asks for them."""
    return {each.wish.owner: each.why for each in effects if isinstance(each, NotAsked)}


def created(effects: list[Effect]) -> list[str]:
    return [each.wish.owner for each in effects if isinstance(each, CreateRequest)]


def test_a_gang_that_waits_for_nodes_gets_one_request() -> None:
    one = wish()
    assert writes(plan([one], (), [], NOW)) == [("create", one.name(1))]
    assert writes(plan([one], (), [request(one)], NOW)) == []


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
    assert writes(early) == []
    late = plan([one], (), [request(one, phase, ago=60)], NOW)
    assert writes(late) == [("delete", one.name(1)), ("create", one.name(2))]
    assert writes(plan([one], (), [request(one, phase, ago=119, attempt=2)], NOW)) == []


def test_the_pauses_double_up_to_half_an_hour() -> None:
    assert [pause_after(attempt) for attempt in (1, 2, 3, 6, 40)] == [60, 120, 240, 1800, 1800]


@pytest.mark.parametrize("phase", [RequestPhase.OPEN, RequestPhase.PROVISIONED])
def test_no_answer_and_room_that_is_not_used_end_with_the_time_out(phase: RequestPhase) -> None:
    one = wish()
    assert writes(plan([one], (), [request(one, phase, ago=TIMEOUT)], NOW)) == []
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
    assert len(writes(plan(gangs, (), [], NOW))) == MOST_CREATIONS
    there = [request(each, RequestPhase.FAILED, ago=1) for each in gangs[:MOST_REQUESTS]]
    assert writes(plan(gangs, (), there, NOW)) == []


def failed(gangs: list[NodeWish], ago: int = 1) -> list[FoundRequest]:
    return [request(each, RequestPhase.FAILED, ago=ago) for each in gangs]


@pytest.mark.parametrize("ago", [1, 10_000])
@with_rows("other")
def test_failures_of_one_queue_or_namespace_leave_others_their_share(ago: int, other: Any) -> None:
    mine = [wish(number, above=("root",)) for number in range(MOST_REQUESTS + 5)]
    late = wish(9999, **{"above": ("root",), **other})
    effects = plan([*mine, late], (), failed(mine[:MOST_REQUESTS], ago), NOW)
    assert late.owner in created(effects)
    assert len(unasked(effects)) == 5, "of the gangs whose share is used up"
    assert set(unasked(effects).values()) <= {WhyNot.SHARE, WhyNot.MAX_OPEN}
    # What made room is the request in its pause of the gang that came last.
    last = mine[MOST_REQUESTS - 1]
    assert ("delete", last.name(1)) in writes(effects)
    made = created(effects)
    gone = [name for what, name in writes(effects) if what == "delete"]
    assert MOST_REQUESTS - len(gone) + len(made) <= MOST_REQUESTS


def test_no_tenant_gains_by_splitting_its_gangs_into_many_queues() -> None:
    mine = [wish(number, queue=f"a{number}", above=("root", "a")) for number in range(MOST_REQUESTS + 50)]
    theirs = [wish(1000 + number, queue="b", above=("root",)) for number in range(10)]
    effects = plan([*mine, *theirs], (), failed(mine[:MOST_REQUESTS]), NOW)
    assert {each.owner for each in theirs} <= set(created(effects))


def test_what_is_open_is_waited_for_even_beyond_a_share_and_then_not_asked_for_again() -> None:
    mine = [wish(number, most=MOST_REQUESTS) for number in range(MOST_REQUESTS)]
    late = [wish(9000 + number, queue="other") for number in range(3)]
    there = [request(each, ago=10) for each in mine]
    effects = plan([*mine, *late], (), there, NOW)
    assert writes(effects) == []
    assert unasked(effects) == {each.owner: WhyNot.SHARE for each in late}
    # But not for as long as its queue likes.
    long_ago = [request(each, ago=MOST_BEYOND - (number < 197)) for number, each in enumerate(mine)]
    assert set(created(plan([*mine, *late], (), long_ago, NOW))) == {each.owner for each in late}
    assert writes(plan(mine, (), long_ago, NOW)) == [], "nobody needs their places"
    # One that came to nothing is over, and gives its place up though its pause is over too.
    there[-1] = request(mine[-1], RequestPhase.FAILED, ago=10_000)
    effects = plan([*mine, *late], (), there, NOW)
    assert writes(effects) == [("delete", mine[-1].name(1)), ("create", late[0].name(1))]


def test_a_gang_whose_queue_has_enough_open_requests_is_told_so() -> None:
    gangs = [wish(number, most=1) for number in (1, 2, 3)]
    effects = plan(gangs, (), [request(gangs[0])], NOW)
    assert unasked(effects) == {each.owner: WhyNot.MAX_OPEN for each in gangs[1:]}
    assert unasked(plan(gangs[:1], (), [request(gangs[0])], NOW)) == {}


def test_new_requests_do_not_wait_behind_those_that_have_to_go() -> None:
    gone = [request(wish(number)) for number in range(300)]
    effects = plan([wish(9999)], (), gone, NOW)
    assert created(effects) == [wish(9999).owner]
    assert len(writes(effects)) == MOST_DELETIONS + 1


def test_namespaces_take_turns_when_requests_have_to_go() -> None:
    many = [request(wish(number), ago=1000) for number in range(300)]
    one = request(wish(9999, namespace="other"))
    assert ("delete", one.name) in writes(plan([], (), [*many, one], NOW))


def test_what_could_not_be_made_just_now_keeps_nobody_else_from_asking() -> None:
    gangs = [wish(number, most=1) for number in (1, 2)]
    assert created(plan(gangs, (), [], NOW, {gangs[0].owner})) == [gangs[1].owner]
    # And a further attempt does not lose the request that counts its attempts.
    over = request(gangs[0], RequestPhase.FAILED, ago=1000)
    assert writes(plan(gangs[:1], (), [over], NOW, {gangs[0].owner})) == []


def test_a_request_of_another_name_or_namespace_is_no_request_of_the_gang() -> None:
    one = wish()
    copies = [request(one, name=wish(2).name(1)), request(one, namespace="other", uid="u2")]
    effects = plan([one], (), copies, NOW)
    assert sum(what == "delete" for what, _ in writes(effects)) == 2
    assert ("create", one.name(1)) in writes(effects)


def _changed(**metadata: Any) -> Mapping[str, Any]:
    document = request_document(wish(), 2)
    document["metadata"].update(metadata)
    return document


def test_requests_are_musters_when_name_digest_attempt_owner_and_templates_say_so() -> None:
    assert is_made_by_muster(_changed())
    [owner] = _changed()["metadata"]["ownerReferences"]
    forged = [
        _changed(name="nightly"),
        _changed(name="muster"),
        _changed(name=wish().name(3)),
        _changed(annotations=None),
        _changed(labels={"muster.dev/provisioning-for": "job.x"}),
        _changed(labels=None),
        _changed(ownerReferences=None),
        _changed(ownerReferences=[owner, owner]),
        _changed() | {"spec": {"podSets": [{"count": 1, "podTemplateRef": {"name": "nightly-base"}}]}},
        _changed() | {"spec": {"podSets": [{"count": 1}]}},
    ]
    assert [is_made_by_muster(each) for each in forged] == [False] * len(forged)


def test_conditions_are_read_as_the_autoscaler_writes_them() -> None:
    def read(*conditions: tuple[str, str], reason: str = "Other") -> FoundRequest:
        document = request_document(wish(), 2)
        document["metadata"] |= {"uid": "u", "creationTimestamp": "2026-11-21T10:00:00Z"}
        document["status"] = {
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
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
    assert [each.not_found for each in (accepted, there)] == [False, False]
    searched = read(("Accepted", "True"), ("Provisioned", "False"), reason="CapacityIsNotFound")
    assert (searched.phase, searched.message, searched.not_found) == (RequestPhase.OPEN, "a b", True)


@pytest.mark.parametrize(
    ("phase", "ago", "not_found", "ends"),
    [
        (RequestPhase.FAILED, 1, False, True),
        (RequestPhase.OPEN, TIMEOUT, True, True),
        # Nobody has refused anything: no answer, not yet, room that did not help or went away again.
        (RequestPhase.OPEN, TIMEOUT, False, False),
        (RequestPhase.OPEN, 1, True, False),
        (RequestPhase.PROVISIONED, TIMEOUT, False, False),
        (RequestPhase.BOOKING_EXPIRED, 1, False, False),
        (RequestPhase.CAPACITY_REVOKED, 1, False, False),
    ],
)
def test_nodes_are_refused_for_good_after_some_attempts_and_only_in_words(
    phase: RequestPhase, ago: int, not_found: bool, ends: bool
) -> None:
    for attempt in range(1, 8):
        found = request(wish(), phase, ago=ago, attempt=attempt, not_found=not_found)
        assert is_refused_for_good(found, wish(), NOW) == (ends and attempt >= MOST_REFUSALS)
        # It goes on asking all the same.
        again = pause_after(attempt) + TIMEOUT
        assert CreateRequest(wish=wish(), attempt=attempt + 1) in plan([wish()], [], [found], NOW + again)


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
