"""What completes a gang that runs comes before new work, and its quota is kept while no node takes it."""

from dataclasses import replace

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.table import NodeTable
from admission.engine.snapshot import Snapshot
from queues.quota.queue import ROOT, Limits, Queue, QueuePolicy
from queues.reason_codes import ReasonCode
from queues.resources import GPU, Resources
from queues.workload import PodSet, QueueName, Workload
from tests.builders.decided_work import (
    a_node,
    a_snapshot,
    a_workload,
    admitted,
    an_admission,
    gpu_node,
    plan_of,
    seats_on,
)
from tests.tables import with_rows

TAKES = Resources({GPU: 8000, "pods": 1})
TEAM, OTHER = QueueName("team"), QueueName("other")


def workload(name: str, queue: QueueName, pods: int, arrival: int, takes: Resources = TAKES) -> Workload:
    asked = PodSet(name="w", count=pods, takes=takes)
    return a_workload(name, asked, queue=queue, arrival=arrival, created=arrival)


GANG, NEW = workload("gang", TEAM, 2, 2), workload("new", OTHER, 1, 1)


def world(
    *pending: Workload, usable: bool, nodes: int = 2, minimum: int = 2, gang: Workload = GANG, now: int = 100
) -> Snapshot:
    """A gang of two pods has one left, on the first node; the other queue has the smaller share and came first."""
    (asked,) = gang.pod_sets
    held = an_admission(1, gang, *seats_on("n0", asked), minimum=minimum, opened_at=5)
    top = QueueName("top")
    queues = (
        Queue(name=top, parent=ROOT, limits=Limits(capability={GPU: 16_000})),
        Queue(name=TEAM, parent=top, limits=Limits(deserved={GPU: 0})),
        Queue(
            name=OTHER,
            parent=top,
            limits=Limits(deserved={GPU: 16_000}),
            policy=QueuePolicy(reclaim="never"),
        ),
    )
    return a_snapshot(
        gang,
        *(pending or (NEW,)),
        queues=queues,
        nodes=[
            gpu_node(f"n{number}", used=Resources() if number else TAKES, usable=number != 1 or usable)
            for number in range(nodes)
        ],
        admissions=[held],
        now=now,
        holders={gang.key: gang},
    )


def test_its_quota_is_kept_while_its_node_is_away() -> None:
    assert admitted(plan_of(world(usable=False, nodes=3))) == {"gang"}, "another node takes it"
    plan, memo = decide(world(usable=False), Memo())
    assert not plan.admits
    assert admitted(decide(world(usable=True, now=101), memo)[0]) == {"gang"}


def test_new_work_of_another_size_does_not_take_its_quota() -> None:
    """A node has room for the small one, and the gang's member fits none: 8 of the 16 are the gang's."""
    small = workload("small", OTHER, 1, 1, Resources({GPU: 4000, "pods": 1}))
    nodes = [gpu_node("n0", 12, used=TAKES), gpu_node("n1", usable=False)]
    plan = plan_of(replace(world(small, usable=False), nodes=NodeTable.build(nodes)))
    assert not plan.admits
    assert plan.reasons[small.key].code is ReasonCode.QUEUE_LIMIT


def test_a_gang_that_asks_for_more_than_it_was_admitted_with_waits_in_line() -> None:
    assert admitted(plan_of(world(usable=True, minimum=1))) == {"new"}


@with_rows("comes", "expected")
def test_the_place_of_a_lost_member_is_kept_while_its_node_comes_back(
    comes: dict[str, int], expected: list[str]
) -> None:
    """A node comes back bit by bit: small work that fits first would be in the way of the member."""
    takes = Resources({GPU: 8000, "cpu": 8000, "pods": 1})
    gang = workload("gang", TEAM, 2, 2, takes)
    small = workload("small", OTHER, 1, 1, Resources({"cpu": 4000, "pods": 1}))
    before = world(small, usable=True, gang=gang)
    held = an_admission(1, gang, *seats_on("n0 n1", *gang.pod_sets), minimum=2, ended=frozenset({1}))
    nodes = [
        a_node("n0", {GPU: 8000, "cpu": 8000, "pods": 10}, used=takes),
        a_node("n1", {**comes, "pods": 10}),
    ]
    after = replace(before, nodes=NodeTable.build(nodes), admissions={held.id: held})
    plan, memo = decide(after, Memo())
    assert [each.name for each in plan.admits] == expected
    if not expected:
        assert "(1 kept for another workload, 1 without room)" in plan.reasons[small.key].message
    # When the gang has gone back, the node is for others.
    gone = replace(after, now=101, admissions={}, holders={}, pending={small.key: small})
    assert admitted(decide(gone, memo)[0]) == {"small"}
