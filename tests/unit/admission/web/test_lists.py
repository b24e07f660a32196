"""Lines of workloads and users become what people read."""

import pytest
from msgspec import structs

from admission.read_api import bodies
from admission.web.lists.lines import (
    continued,
    hours,
    listed_body,
    place_of,
    share_of,
    user_bodies,
    with_meant_queue,
)
from queues.reason_codes import ReasonCode
from queues.sql.read.listed import ListPlace
from queues.sql.read.rows import ListedLine, PendingLine, SeatTotals, StoredReason, UserLine
from queues.workload import QueueName, Result, WorkloadKey, WorkloadKind
from tests.fakes.fake_reader import account, queue, waiting

GPU = "nvidia.com/gpu"
ROOT = queue("root", None, account("8", None, "64"), account("8", None, "32", flavor="h100"))
TEAM = queue("team", "root", account("8", "16", "64"), account("8", "10", None, resource="cpu"))


def used(user: str, gpus: int, *, cpus: int = 0, pending: int = 0) -> UserLine:
    return UserLine(user=user, used={GPU: gpus * 1000, "cpu": cpus * 1000}, pending=pending, admitted=1)


def line(**more: object) -> ListedLine:
    workload = PendingLine(
        key=WorkloadKey(WorkloadKind.JOB, "u"),
        namespace="ns",
        name="train",
        queue=QueueName("team"),
        priority=0,
        arrival=1,
        created=1_795_000_000,
        minimum=1,
        pods=0,
        asks={},
        reason=StoredReason(code="NoFit", message="no node", since=1_795_000_060),
    )
    return ListedLine(workload=workload, **more)  # type: ignore[arg-type]


def test_what_has_ended_is_told_by_the_seats_that_it_had_last() -> None:
    nodes = frozenset(f"n{number:02}" for number in range(30))
    seats = SeatTotals(opened=1_795_000_100, seats=31, takes={GPU: 31_000, f"{GPU}#n1/0": 1}, nodes=nodes)

    body = listed_body(line(state="finished", result=Result.FAILED, ended=1_795_000_200, seats=seats))

    assert (body.pods, body.held, body.node_count, len(body.nodes)) == (31, {GPU: "31"}, 30, 20)
    assert (body.result, body.ended, body.reason) == ("failed", "2026-11-18T11:10:00Z", None)
    waits = listed_body(line(state="pending"))
    assert (waits.pods, waits.held, waits.admitted, waits.ended) == (0, {}, None, None)
    assert waits.reason is not None


def test_a_place_in_a_list_comes_back_from_its_text() -> None:
    place = ListPlace("ns", "träin", "job", "u/1", 7)

    assert place_of(continued(place)) == place


@pytest.mark.parametrize("text", ["x", "e30", "W10", "WzEsMiwzLDQsNV0", "WyJhIl0", "é", "[" * 3000, "bnVsbA"])
def test_another_text_is_no_place(text: str) -> None:
    assert place_of(text) is None


def test_a_place_with_what_no_name_can_have_is_none() -> None:
    assert place_of(continued(ListPlace("ns\0", "a", "job", "u", 0))) is None
    assert place_of(continued(ListPlace("ns", "a", "job", "u", -1))) is None
    assert place_of(continued(ListPlace("ns", "a", "job", "u", 2**70))) is None
    assert place_of(continued(ListPlace("ns", "a", "job", "u", True))) is None


def test_shares_are_of_what_a_queue_deserves_or_else_may_use() -> None:
    assert [share_of(each) for each in (ROOT, TEAM, queue("none", "root"))] == ["capability", "deserved", ""]
    lines = [used("ann", 4), used("bob", 2, cpus=9), used("cat", 8)]

    told = user_bodies(lines, None, TEAM, you="bob", whole=True)

    assert [(each.user, each.share, each.rank, each.you) for each in told] == [
        ("bob", 0.9, 1, True),
        ("cat", 0.5, 2, False),
        ("ann", 0.25, 3, False),
    ]
    assert told[0].used == {"cpu": "9", GPU: "2"}


def test_the_user_who_asks_is_always_told_and_without_all_work_nobody_is_ranked() -> None:
    told = user_bodies([used("ann", 4)], {"bob": {GPU: 7_200_000}}, None, you="bob", whole=False)

    assert [(each.user, each.share, each.rank, each.past_hours) for each in told] == [
        ("ann", None, None, None),
        ("bob", None, None, {GPU: 2.0}),
    ]
    assert isinstance(told[1], bodies.UserBody)


def test_single_devices_are_no_hours() -> None:
    assert hours({GPU: 3_600_000, f"{GPU}#n1/0": 3_600_000, "rdma/hca": 0}) == {GPU: 1.0}


def test_a_queue_that_does_not_exist_is_said_with_the_one_that_was_meant() -> None:
    told = "queue trian does not exist; create it or name another one"
    reason = bodies.ReasonBody(code=ReasonCode.UNKNOWN_QUEUE, message=told)
    lost = structs.replace(waiting("a", 1), queue="trian", reason=reason)
    meant = with_meant_queue(lost, ["train", "dev"]).reason
    assert meant is not None
    assert meant.message == f"{told}. Did you mean train?"
    # One that the user may not see is not named, and other reasons stay as they are.
    assert with_meant_queue(lost, ["dev"]) == lost
    assert with_meant_queue(waiting("a", 1), ["train"]) == waiting("a", 1)
