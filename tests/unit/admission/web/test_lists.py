"""Lines of workloads and users become what people read."""

import pytest
from msgspec import structs

from admission.cli.rendering.explanation import sentence_of
from admission.web.http import BadQuery, place_in, text_of_place
from admission.web.lists.users import share_of, user_bodies
from admission.web.overview import Overview, policies, with_meant_queue, with_rules_against
from queues.quota.queue import Queue, QueuePolicy
from queues.read_api import bodies
from queues.read_api.quantities import hours
from queues.reason_codes import ReasonCode
from queues.sql.read.listed import ListPlace
from queues.sql.read.rows import AccountLine, QueueLine, UserLine
from queues.workload import QueueName
from tests.fakes.fake_reader import account, queue, waiting

GPU = "nvidia.com/gpu"
ROOT = queue("root", None, account("8", None, "64"), account("8", None, "32", flavor="h100"))
TEAM = queue("team", "root", account("8", "16", "64"), account("8", "10", None, resource="cpu"))


def used(user: str, gpus: int, *, cpus: int = 0, pending: int = 0) -> UserLine:
    return UserLine(user=user, used={GPU: gpus * 1000, "cpu": cpus * 1000}, pending=pending, admitted=1)


def test_a_place_in_a_list_comes_back_from_its_text() -> None:
    place = ListPlace("ns", "träin", "job", "u/1", 7)

    assert place_in(text_of_place(place), ListPlace) == place


@pytest.mark.parametrize(
    "text",
    [
        *("x", "e30", "W10", "WzEsMiwzLDQsNV0", "WyJhIl0", "é", "[" * 3000, "bnVsbA"),
        *(text_of_place(("ns", "a", "job", "u", gone)) for gone in (-1, 2**70, True, None)),
        text_of_place(("ns\0", "a", "job", "u", 0)),
    ],
)
def test_another_text_is_no_place(text: str) -> None:
    with pytest.raises(BadQuery):
        place_in(text, ListPlace)


def test_shares_are_of_what_a_queue_deserves_or_else_may_use() -> None:
    assert [share_of(each) for each in (ROOT, TEAM, queue("none", "root"))] == ["capability", "deserved", ""]
    lines = [used("ann", 4), used("bob", 2, cpus=9), used("cat", 8)]

    told = user_bodies(lines, TEAM, you="bob", whole=True)

    assert [(each.user, each.share, each.rank, each.you) for each in told] == [
        ("bob", 0.9, 1, True),
        ("cat", 0.5, 2, False),
        ("ann", 0.25, 3, False),
    ]
    assert told[0].used == {"cpu": "9", GPU: "2"}


def test_the_user_who_asks_is_always_told_and_without_all_work_nobody_is_ranked() -> None:
    told = user_bodies([used("ann", 4)], None, you="bob", whole=False)

    assert [(each.user, each.share, each.rank) for each in told] == [("ann", None, None), ("bob", None, None)]
    assert isinstance(told[1], bodies.UserBody)


def test_single_devices_are_no_hours() -> None:
    assert hours({GPU: 3_600_000, f"{GPU}#n1/0": 3_600_000, "rdma/hca": 0}) == {GPU: 1.0}


def test_a_queue_that_does_not_exist_is_said_with_the_one_that_was_meant() -> None:
    told = "queue trian does not exist"
    reason = bodies.ReasonBody(code=ReasonCode.UNKNOWN_QUEUE, message=told)
    lost = structs.replace(waiting("a", 1), queue="trian", reason=reason)
    meant = with_meant_queue(lost, ["train", "dev"]).reason
    assert meant is not None
    assert sentence_of(meant) == f"{told}. Did you mean train?"
    # One that the user may not see is not named, and other reasons stay as they are.
    assert with_meant_queue(lost, ["dev"]) == lost
    assert with_meant_queue(waiting("a", 1), ["train"]) == waiting("a", 1)


def test_work_within_its_queues_share_is_said_to_wait_for_what_the_queue_does_not_take_back() -> None:
    name = QueueName("train")
    line = QueueLine(
        name=name,
        parent=None,
        paused=False,
        closed=False,
        broken=False,
        changed_by="",
        served=Queue(name=name, parent=None, policy=QueuePolicy(reclaim="never")),
        accounts=(AccountLine(flavor="", resource=GPU, deserved=32_000, used=8_000),),
    )
    overview = Overview((line,), policies([line]), 0)
    lacks = waiting("a", 1, reason=bodies.ReasonBody(code=ReasonCode.NO_FIT, message="no room"))
    for gpus, says in ((24, True), (25, False)):
        reason = with_rules_against(structs.replace(lacks, asks={GPU: str(gpus)}), overview).reason
        assert reason is not None
        assert ("takes back nothing that others borrow" in reason.message) == says
    cut = with_rules_against(structs.replace(lacks, priority=2_000_000_000), overview).reason
    assert cut is not None
    assert cut.message == "no room; priority 2000000000 counts as 1000000000 (that of system classes is cut)"
