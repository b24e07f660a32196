"""A PodGroup whose pods are not made yet is Inqueue once its queue has room for minResources."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.changes import Change, FactKind
from admission.facts.cluster import FlavorFact
from admission.facts.workloads import GroupRequest, WorkloadFact
from admission.reconcile.enqueued_groups import EnqueuedGroups
from admission.reconcile.world_status import QueueStatuses, WorldStatuses
from admission.world.world import World
from queues import kind_names
from queues.admissions import AdmissionState, Claim, Seat
from queues.plan import Reason
from queues.quota.queue import Limits, ProvisioningRules
from queues.reason_codes import ReasonCode
from queues.resources import GPU, Resources
from queues.workload import NodeName, Obstacle, QueueName, WorkloadKey
from tests.builders.facts import (
    GROUP,
    NOW,
    TEAM,
    admission,
    gated,
    gone,
    group,
    node,
    queue,
    see,
    seen,
    world,
)
from tests.tables import named_rows

OTHER = WorkloadKey(kind_names.POD_GROUP, "other")


def asking(gpus: int | None, **facts: Any) -> WorkloadFact:
    """A PodGroup of two with these minResources; None: it has none."""
    asked = None if gpus is None else Resources({GPU: gpus * 1000})
    return group(2, group=GroupRequest(min_resources=asked), **facts)


def shown(known: World, enqueued: EnqueuedGroups | None = None) -> tuple[str, str, str]:
    """Phase, and the reason and message of its condition Unschedulable."""
    lacks = Reason(code=ReasonCode.NOT_ENOUGH_PODS, message="0 of 2 pods exist")
    known.ledger.put_reasons({GROUP: lacks}, ())
    groups = enqueued or EnqueuedGroups()
    groups.note(known, list(known.states))
    [status] = WorldStatuses(known, None, {}, enqueued=groups).of(GROUP)  # type: ignore[arg-type]
    [told] = [each for each in status.conditions if each.type == "Unschedulable"] or [None]
    return status.fields["phase"], told.reason if told else "", told.message if told else ""


SIX = queue(TEAM, limits=Limits(capability=Resources({GPU: 6000})))


CLOSED = queue(TEAM, closed=True)


@named_rows(
    ("gpus", "team", "phase", "reason"),
    {
        "all of the cluster": (8, queue(TEAM), "Inqueue", "NotEnoughTasks"),
        "more than the cluster has": (9, queue(TEAM), "Pending", "NotEnoughResources"),
        "all that the queue may have": (6, SIX, "Inqueue", "NotEnoughTasks"),
        "more than the queue may have": (7, SIX, "Pending", "NotEnoughResources"),
        "nothing is said": (None, SIX, "Inqueue", "NotEnoughTasks"),
        "closed": (1, CLOSED, "Pending", "QueueClosed"),
        "closed, and nothing is said": (None, CLOSED, "Pending", "QueueClosed"),
        "no such queue": (1, queue(QueueName("another")), "Pending", "UnknownQueue"),
    },
)
def test_it_is_inqueue_if_its_queue_has_room(gpus: int | None, team: Any, phase: str, reason: str) -> None:
    found, word, message = shown(world([team, node("n1"), asking(gpus)], arrivals={GROUP: 1}))
    assert (found, word) == (phase, reason)
    assert "0 of 2 pods exist" in message


def test_what_is_in_the_way_is_told_with_its_numbers(golden: Any) -> None:
    held = admission(OTHER, "n1 n1", number=9, pod_set="pod", started=True)
    known = world([SIX, node("n1"), asking(5)], [held], arrivals={GROUP: 1})
    _, _, message = shown(known)
    assert message == golden


ROOM = QueueName("room")
ASKED = ProvisioningRules(class_name="check-capacity")
_FLAVORED = queue(TEAM, flavors={"h100": Limits(capability=Resources({GPU: 4000}))})


ABOVE = [queue(TEAM, parent=ROOM), queue(ROOM, limits=Limits(capability=Resources({GPU: 6000})))]
ONE_USER = queue(TEAM, max_per_user={GPU: 3000})


@named_rows(
    ("gpus", "queues", "code"),
    {
        "its queue": (7, [SIX], "NeverFits: 7 nvidia.com/gpu asked, queue team may use 6"),
        "all that its queue may have": (6, [SIX], "QueueLimit"),
        "a queue above": (7, ABOVE, "NeverFits: 7 nvidia.com/gpu asked, queue room may use 6"),
        "the cluster": (9, [queue(TEAM)], "NeverFits: 9 nvidia.com/gpu asked, all nodes together have 8"),
        "all of the cluster": (8, [queue(TEAM)], "QueueLimit"),
        "nodes may be added": (9, [queue(TEAM, provisioning=ASKED)], "QueueLimit"),
        "one user": (4, [ONE_USER], "NeverFits: 4 nvidia.com/gpu asked, one user may use 3 in queue team"),
        "the only flavor": (
            5,
            [_FLAVORED],
            "NeverFits: 5 nvidia.com/gpu of flavor h100 asked, queue team may use 4",
        ),
    },
)
@pytest.mark.parametrize("held", [False, True], ids=["", "quota is held"])
def test_what_never_fits_is_no_want_of_room(gpus: int, queues: list[Any], code: str, held: bool) -> None:
    """Another gang uses a GPU."""
    of_other = admission(OTHER, "n1", number=9, pod_set="pod", started=True)
    facts = [*queues, node("n1"), holding(gpus) if held else asking(gpus)]
    known = world(facts, [of_other], arrivals={GROUP: 1})
    phase, _, message = shown(known)
    assert phase == "Pending"
    assert message.startswith(f"2/2 tasks in gang unschedulable: {code}")


A100 = FlavorFact(name="a100", node_labels={"gpu": "a100"})
H100 = FlavorFact(name="h100", node_labels={"gpu": "h100"})


@named_rows(
    ("gpus", "most", "told", "told_of_held"),
    {
        "less than a flavor has": (4, {"a100": 4, "h100": 4}, "", ""),
        "more than one flavor has": (
            5,
            {"a100": 4, "h100": 4},
            "",
            "5 nvidia.com/gpu of flavor a100 asked, queue team may use 4",
        ),
        "more than the flavors have": (
            9,
            {"a100": 4, "h100": 4},
            "9 nvidia.com/gpu asked, queue team may use 8",
            "9 nvidia.com/gpu of flavor a100 asked, queue team may use 4",
        ),
        "more than their nodes have": (
            13,
            {"a100": 4, "h100": None},
            "13 nvidia.com/gpu asked, queue team may use 12",
            "13 nvidia.com/gpu of flavor a100 asked, queue team may use 4",
        ),
    },
)
@pytest.mark.parametrize("held", [False, True], ids=["", "quota is held"])
def test_several_flavors_are_summed_unless_quota_is_held_in_one_of_them(
    gpus: int, most: dict[str, int | None], told: str, told_of_held: str, held: bool
) -> None:
    limits = {
        name: Limits(capability={} if units is None else {GPU: units * 1000}) for name, units in most.items()
    }
    flavored = [Change(FactKind.FLAVOR, each.name, each) for each in (A100, H100)]
    nodes = [node(f"n{number}", labels=each.node_labels) for number, each in enumerate((A100, H100))]
    asks = holding(gpus) if held else asking(gpus)
    known = world([queue(TEAM, flavors=limits), *flavored, *nodes, node("other"), asks], arrivals={GROUP: 1})
    message = shown(known)[2]
    expected = told_of_held if held else told
    assert f"NeverFits: {expected};" in message if expected else "NeverFits" not in message


def test_a_larger_node_or_limit_makes_it_wait_for_room_again() -> None:
    known, groups = world([SIX, node("n1"), asking(9)], arrivals={GROUP: 1}), EnqueuedGroups()
    assert "queue team may use 6" in shown(known, groups)[2]
    see(known, queue(TEAM))
    groups.look_again(known)
    assert "all nodes together have 8" in shown(known, groups)[2]
    see(known, node("n2"))
    assert groups.look_again(known) == [GROUP]
    assert shown(known, groups)[0] == "Inqueue"


def full() -> World:
    """Another gang has 8 of 8 GPUs."""
    held = admission(OTHER, " ".join(["n1"] * 8), number=9, pod_set="pod", started=True)
    return world([queue(TEAM), node("n1"), asking(4)], [held], arrivals={GROUP: 1})


def freed(known: World) -> World:
    known.put_admissions([replace(next(iter(known.admissions.values())), state=AdmissionState.CLOSED)])
    known.refresh(NOW)
    return known


def test_it_waits_for_room_and_is_inqueue_when_there_is_some() -> None:
    known, groups = full(), EnqueuedGroups()
    assert shown(known, groups)[:2] == ("Pending", "NotEnoughResources")
    assert groups.look_again(known) == []
    assert groups.look_again(freed(known)) == [GROUP]
    assert shown(known, groups)[:2] == ("Inqueue", "NotEnoughTasks")
    assert groups.look_again(known) == []


def test_another_reason_is_told_and_other_numbers_are_not() -> None:
    known, groups = full(), EnqueuedGroups()
    shown(known, groups)
    see(known, CLOSED)
    assert groups.look_again(known) == [GROUP]
    assert shown(known, groups)[1] == "QueueClosed"


def test_it_stays_so_when_the_room_goes_and_when_another_leader_comes() -> None:
    known, groups = freed(full()), EnqueuedGroups()
    assert shown(known, groups)[0] == "Inqueue"
    see(known, CLOSED)
    assert groups.look_again(known) == []
    assert shown(known, groups)[:2] == ("Inqueue", "NotEnoughTasks")
    see(known, asking(4, phase="Inqueue"))
    assert shown(known, EnqueuedGroups())[0] == "Inqueue"


def test_once_its_pods_exist_it_waits_for_its_admission_like_others() -> None:
    known, groups = world([queue(TEAM), node("n1"), asking(8)], arrivals={GROUP: 1}), EnqueuedGroups()
    assert shown(known, groups)[0] == "Inqueue"
    see(known, gated("a", group="gang"))
    assert shown(known, groups)[0] == "Inqueue", "one of two"
    see(known, gated("b", group="gang"))
    assert shown(known, groups)[0] == "Pending"
    assert not groups.is_enqueued(GROUP)


def test_a_gang_that_lost_its_pods_asks_its_queue_again() -> None:
    known, groups = world([queue(TEAM), node("n1"), asking(8)], arrivals={GROUP: 1}), EnqueuedGroups()
    pods = [gated(name, group="gang") for name in "ab"]
    see(known, *pods)
    groups.note(known, [GROUP])
    gone_again = [gone(pod) for pod in pods]
    see(known, *gone_again, asking(8, phase="Inqueue"), CLOSED)
    assert shown(known, groups)[:2] == ("Pending", "QueueClosed")


def test_what_is_gone_is_forgotten() -> None:
    known, groups = full(), EnqueuedGroups()
    shown(known, groups)
    see(known, gone(asking(4)))
    groups.note(known, [GROUP])
    assert groups.refusal(GROUP) is None
    assert groups.look_again(freed(known)) == []


def test_its_queue_counts_it_as_inqueue_and_not_as_pending_until_its_pods_exist() -> None:
    known, groups = full(), EnqueuedGroups()

    def counts() -> tuple[int, int]:
        groups.note(known, [GROUP])
        [status] = QueueStatuses(known).changed(enqueued=groups.by_queue(known))
        return status.fields["pending"], status.fields["inqueue"]

    assert counts() == (1, 0)
    groups.look_again(freed(known))
    assert counts() == (0, 1)
    see(known, *(seen(gated(name, group="gang")) for name in "ab"))
    [status] = QueueStatuses(known).changed(enqueued=groups.by_queue(known))
    assert (status.fields["pending"], status.fields["inqueue"]) == (1, 0), "also before it is noted"


def test_another_obstacle_goes_first() -> None:
    wrong = Obstacle(ReasonCode.INVALID_SPEC, "spec.minMember: found -1, expected 0 or more")
    known = world([queue(TEAM), node("n1"), asking(1, obstacle=wrong)], arrivals={GROUP: 1})
    groups = EnqueuedGroups()
    groups.note(known, [GROUP])
    assert not groups.is_enqueued(GROUP)


def holding(gpus: int, **facts: Any) -> WorkloadFact:
    """A PodGroup of two that asks for quota to be held."""
    asked = GroupRequest(min_resources=Resources({GPU: gpus * 1000}), hold_seconds=600)
    return group(2, group=asked, **facts)


def claimed(known: World) -> World:
    """Its quota is held."""
    seat = Seat(pod_set="", ordinal=0, node=NodeName(""), takes=Resources({GPU: 4000}))
    claim = Claim(workload=GROUP, queue=TEAM, generation="", seats=(seat,), victims=(), until=NOW)
    known.ledger.put_claims([claim], ())
    return known


def test_one_that_asks_for_quota_to_be_held_is_inqueue_when_it_is() -> None:
    known, groups = world([queue(TEAM), node("n1"), holding(4)], arrivals={GROUP: 1}), EnqueuedGroups()
    assert shown(known, groups)[:2] == ("Pending", "NotEnoughTasks")
    assert groups.look_again(known) == []
    assert groups.look_again(claimed(known)) == [GROUP]
    assert shown(known, groups)[0] == "Inqueue"
    assert shown(known)[0] == "Inqueue", "also for the next leader"


def test_what_an_earlier_leader_said_does_not_count_for_it_if_nothing_is_held() -> None:
    known = world([queue(TEAM), node("n1"), holding(9, phase="Inqueue")], arrivals={GROUP: 1})
    assert shown(known)[:2] == ("Pending", "NotEnoughResources")
