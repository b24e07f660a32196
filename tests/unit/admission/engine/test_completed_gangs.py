"""What completes a gang that runs comes before new work, and its quota is kept while no node takes it."""

from dataclasses import replace

from admission.engine import decide as engine
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import NodeTable
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission, Seat
from queues.quota.queue import ROOT, Limits, Queue, QueuePolicy
from queues.reason_codes import ReasonCode
from queues.resources import GPU, Resources
from queues.workload import AdmissionId, NodeName, PodSet, QueueName, Workload, WorkloadKey, WorkloadKind
from tests.builders.decided_work import a_node, a_snapshot
from tests.tables import with_rows

TAKES = Resources({GPU: 8000, "pods": 1})
TEAM, OTHER = QueueName("team"), QueueName("other")


def workload(name: str, queue: QueueName, pods: int, arrival: int) -> Workload:
    return Workload(
        key=WorkloadKey(WorkloadKind.VOLCANO_JOB, name),
        namespace="team",
        name=name,
        queue=queue,
        arrival=arrival,
        created=arrival,
        minimum=pods,
        pod_sets=(PodSet(name="w", count=pods, takes=TAKES),),
    )


GANG, NEW = workload("gang", TEAM, 2, 2), workload("new", OTHER, 1, 1)


def world(*, usable: bool, nodes: int = 2, minimum: int = 2, gang: Workload = GANG) -> Snapshot:
    """A gang of two pods has one left, on the first node; the other queue has the smaller share and came first."""
    held = Admission(
        id=AdmissionId(1),
        workload=gang.key,
        namespace="team",
        name="gang",
        queue=TEAM,
        priority=0,
        minimum=minimum,
        started=True,
        opened_at=5,
        seats=(Seat(pod_set="w", ordinal=0, node=NodeName("n0"), takes=TAKES),),
    )
    made = [
        a_node(
            f"n{number}",
            {GPU: 8000, "pods": 10},
            used=TAKES if not number else Resources({}),
            usable=number != 1 or usable,
        )
        for number in range(nodes)
    ]
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
        NEW,
        queues=queues,
        nodes=NodeTable.build(made, [(HOST,)]),
        admissions=[held],
        now=100,
        holders={gang.key: gang},
    )


def admitted(snapshot: Snapshot) -> list[str]:
    return [each.name for each in engine.decide(snapshot, Memo())[0].admits]


def test_what_completes_a_gang_comes_before_new_work() -> None:
    assert admitted(world(usable=True)) == ["gang"]


def test_its_quota_is_kept_while_its_node_is_away() -> None:
    snapshot = world(usable=False, nodes=3)
    third = replace(NEW, pod_sets=(replace(NEW.pod_sets[0], takes=TAKES),))
    assert admitted(snapshot) == ["gang"], "another node takes it"
    away = world(usable=False)
    plan, memo = engine.decide(replace(away, pending={**away.pending, third.key: third}), Memo())
    assert not plan.admits
    back = world(usable=True)
    assert [each.name for each in engine.decide(replace(back, now=101), memo)[0].admits] == ["gang"]


def test_new_work_of_another_size_does_not_take_its_quota() -> None:
    """A node has room for the small one, and the gang's member fits none: 8 of the 16 are the gang's."""
    small = replace(NEW, pod_sets=(replace(NEW.pod_sets[0], takes=Resources({GPU: 4000, "pods": 1})),))
    snapshot = world(usable=False, nodes=2)
    nodes = [
        a_node(name, {GPU: gpus, "pods": 10}, used=used, usable=usable)
        for name, gpus, used, usable in (
            ("n0", 12_000, TAKES, True),
            ("n1", 8000, Resources({}), False),
        )
    ]
    small_room = replace(
        snapshot, nodes=NodeTable.build(nodes, [(HOST,)]), pending={GANG.key: GANG, small.key: small}
    )
    plan, _ = engine.decide(small_room, Memo())
    assert not plan.admits
    assert plan.reasons[small.key].code is ReasonCode.QUEUE_LIMIT


def test_a_gang_that_asks_for_more_than_it_was_admitted_with_waits_in_line() -> None:
    assert admitted(world(usable=True, minimum=1)) == ["new"]


@with_rows("comes", "expected")
def test_the_place_of_a_lost_member_is_kept_while_its_node_comes_back(
    comes: dict[str, int], expected: list[str]
) -> None:
    """A node comes back bit by bit: small work that fits first would be in the way of the member."""
    takes = Resources({GPU: 8000, "cpu": 8000, "pods": 1})
    gang = replace(GANG, pod_sets=(replace(GANG.pod_sets[0], takes=takes),))
    small = workload("small", OTHER, 1, 1)
    small = replace(small, pod_sets=(replace(small.pod_sets[0], takes=Resources({"cpu": 4000, "pods": 1})),))
    seats = [Seat(pod_set="w", ordinal=number, node=NodeName(f"n{number}"), takes=takes) for number in (0, 1)]
    before = world(usable=True, gang=gang)
    held = replace(before.admissions[AdmissionId(1)], seats=tuple(seats), ended=frozenset({1}))
    nodes = [
        a_node(name, {**amounts, "pods": 10}, used=used)
        for name, amounts, used in (
            ("n0", {GPU: 8000, "cpu": 8000}, takes),
            ("n1", comes, Resources({})),
        )
    ]
    after = replace(
        before,
        nodes=NodeTable.build(nodes, [(HOST,)]),
        pending={gang.key: gang, small.key: small},
        admissions={held.id: held},
        holders={gang.key: gang},
    )
    plan, memo = engine.decide(after, Memo())
    assert [each.name for each in plan.admits] == expected
    if not expected:
        assert "(1 kept for another workload, 1 without room)" in plan.reasons[small.key].message
    # When the gang has gone back, the node is for others.
    gone = replace(after, now=101, admissions={}, holders={}, pending={small.key: small})
    assert [each.name for each in engine.decide(gone, memo)[0].admits] == ["small"]
