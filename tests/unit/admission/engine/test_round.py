"""Workloads of many pod sets, which are costly to place, take turns, so that other queues are not held up."""

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues.plan import Plan
from queues.quota.queue import Queue
from queues.reason_codes import ReasonCode
from queues.resources import GPU, Resources
from queues.workload import NodeName, PodSet, QueueName, Workload, WorkloadKey, WorkloadKind

BEGAN = 1_200_000
NODES = NodeTable.build(
    [
        Node(name=NodeName(name), allocatable=Resources({GPU: 8000, "pods": 110}), labels={HOST: name})
        for name in ("n0", "n1")
    ],
    {},
)


def workload(name: str, queue: str, arrival: int, *sets: int) -> Workload:
    """A workload with one pod set for each of these amounts, one pod of so many GPUs in each."""
    pods = tuple(
        PodSet(name=f"set{number}", count=1, takes=Resources({GPU: gpus * 1000, "pods": 1}))
        for number, gpus in enumerate(sets)
    )
    return Workload(
        key=WorkloadKey(WorkloadKind.JOB, name),
        namespace="ml",
        name=name,
        queue=QueueName(queue),
        arrival=arrival,
        created=BEGAN,
        minimum=len(pods),
        pod_sets=pods,
    )


def scattered(number: int) -> Workload:
    """Three of its pods fit by their sum (15 of 16 GPUs), and on no nodes; no two numbers ask the same."""
    return workload(f"w{number}", "many", number, *[5] * 3, *[0] * (7 + number))


def plan_of(now: int, *pending: Workload) -> tuple[Plan, Memo]:
    queues = {QueueName(name): Queue(name=QueueName(name)) for name in ("many", "other")}
    snapshot = Snapshot(
        now=now, nodes=NODES, queues=queues, pending={each.key: each for each in pending}, admissions={}
    )
    return decide(snapshot, Memo())


def tried(plan: Plan) -> set[str]:
    return {key.uid for key, reason in plan.reasons.items() if reason.code == ReasonCode.NO_FIT}


def test_two_workloads_of_many_pod_sets_are_tried_at_a_time_and_another_queue_goes_on() -> None:
    large = [scattered(number) for number in range(1, 6)]
    plan, memo = plan_of(BEGAN, workload("small", "other", 9, 1), *large)
    assert [admit.name for admit in plan.admits] == ["small"]
    codes = [reason.code for reason in plan.reasons.values()]
    assert sorted(codes) == [ReasonCode.NO_FIT] * 2 + [ReasonCode.TAKES_TURNS] * 3
    assert memo.until == BEGAN + 60


def test_each_of_them_is_tried_within_minutes() -> None:
    large = [scattered(number) for number in range(1, 6)]
    seen = [tried(plan_of(BEGAN + minute * 60, *large)[0]) for minute in range(5)]
    assert seen[0] != seen[1]
    assert set.union(*seen) == {each.name for each in large}


def test_workloads_of_few_pod_sets_do_not_take_turns() -> None:
    few = [workload(f"w{number}", "many", number, *[5] * 3, *[0] * number) for number in range(1, 6)]
    assert tried(plan_of(BEGAN, *few)[0]) == {each.name for each in few}
