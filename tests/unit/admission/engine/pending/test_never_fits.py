"""What can never be admitted as things are: the reason with its two numbers, and that it is in nobody's way."""

from dataclasses import replace
from typing import Any

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.admissions import Claim
from queues.plan import Reason
from queues.quota.queue import Limits, ProvisioningRules, Queue
from queues.reason_codes import ReasonCode
from queues.resources import CPU, GPU, MEMORY, Resources
from queues.workload import (
    FlavorName,
    NodeFilter,
    Obstacle,
    Partition,
    PodSet,
    QueueName,
    Taint,
    Toleration,
    Workload,
    WorkloadKey,
)
from tests.builders.decided_work import a_node, a_snapshot, a_workload, admitted, plan_of, seats_on, waiting
from tests.builders.decided_work import gpu_pods as pods
from tests.tables import named_rows

GI = 2**30
Q, ABOVE = QueueName("q"), QueueName("above")
RACK = "rack"


def node(number: int, **more: Any) -> Node:
    """8 GPUs, 64 processors and 512 Gi, four nodes to a rack."""
    amounts = {GPU: 8000, CPU: 64_000, MEMORY: 512 * GI, "pods": 110}
    return a_node(f"n{number}", amounts, **{"labels": {RACK: f"r{number // 4}"}, **more})


NODES = tuple(map(node, range(8)))


def work(*sets: PodSet, name: str = "it", **more: Any) -> Workload:
    return a_workload(name, *sets, **{"namespace": "ml", "created": 100, "generation": "1", **more})


def world(
    *pending: Workload, nodes: tuple[Node, ...] = NODES, queues: tuple[Queue, ...] = (Queue(name=Q),)
) -> Snapshot:
    return a_snapshot(*pending, queues=queues, now=10_000, nodes=NodeTable.build(nodes, [(RACK, HOST)]))


def why(snapshot: Snapshot, name: str = "it") -> Reason | None:
    return plan_of(snapshot).reasons.get(WorkloadKey(kind_names.JOB, name))


def limited(**amounts: int) -> Queue:
    return Queue(name=Q, limits=Limits(capability={GPU: amounts["gpus"] * 1000}))


ASKED_AT_ONCE = "asked at once, all nodes together hold"


@named_rows(
    ("sets", "message"),
    {
        "a pod larger than any node": (
            [pods(gpus=9)],
            "9 nvidia.com/gpu asked in one pod, the largest node has 8",
        ),
        "memory": (
            [pods(takes=Resources({MEMORY: 4000 * GI, "pods": 1}))],
            "4000Gi memory asked in one pod, the largest node has 512Gi",
        ),
        "a gang larger than all nodes": (
            [pods(9, 8)],
            f"9 pods of 8 nvidia.com/gpu {ASKED_AT_ONCE} 8 even if empty",
        ),
        "more in one rack than any has": (
            [pods(5, 8, required_topology=RACK)],
            "5 pods of 8 nvidia.com/gpu asked in one rack, the largest holds 4 even if empty",
        ),
        "parts larger than any rack": (
            [pods(6, 8, partitions=(Partition(size=6, level=RACK),))],
            "6 pods of 8 nvidia.com/gpu asked in parts of 6, each in one rack; 0 fit, even if all nodes were empty",
        ),
        "more parts than racks": (
            [pods(9, 8, partitions=(Partition(size=3, level=RACK),))],
            f"9 pods of 8 nvidia.com/gpu {ASKED_AT_ONCE} 6 even if empty",
        ),
        "one of two tasks": (
            [pods(name="a"), pods(name="b", gpus=9)],
            "9 nvidia.com/gpu asked in one pod, the largest node has 8",
        ),
        "two tasks together by their sum": (
            [pods(7, 8, name="a"), pods(2, 5, name="b")],
            "66 nvidia.com/gpu asked at once, all nodes together have 64",
        ),
        "two tasks together by nodes": (
            [pods(4, 8, name="a"), pods(5, 5, name="b")],
            f"9 pods of 5 nvidia.com/gpu or more {ASKED_AT_ONCE} 8 even if empty",
        ),
        "two tasks together in one rack": (
            [pods(2, 8, name="a", within=RACK), pods(3, 8, name="b", within=RACK)],
            "40 nvidia.com/gpu asked in one rack, the largest has 32",
        ),
        "a label that no node has": (
            [pods(nodes=NodeFilter(selector=(("gpu", "h300"),)))],
            "0 of 8 nodes are chosen by nodeSelector or affinity (gpu=h300)",
        ),
    },
)
def test_it_says_what_is_asked_and_what_nodes_have_at_most(sets: list[PodSet], message: str) -> None:
    reason = why(world(work(*sets)))
    assert (reason.code, reason.message) == (ReasonCode.NEVER_FITS, message)


@named_rows(
    ("asked", "queues", "message"),
    {
        "its queue": (work(pods(36)), [limited(gpus=30)], "36 nvidia.com/gpu asked, queue q may use 30"),
        "a queue above with less": (
            work(pods(36)),
            [replace(limited(gpus=40), parent=ABOVE), replace(limited(gpus=30), name=ABOVE)],
            "36 nvidia.com/gpu asked, queue above may use 30",
        ),
        "what one user may use": (
            work(pods(16), user="eve"),
            [Queue(name=Q, max_per_user={GPU: 8000})],
            "16 nvidia.com/gpu asked, one user may use 8 in queue q",
        ),
    },
)
def test_it_says_what_is_asked_and_what_may_be_used(
    asked: Workload, queues: list[Queue], message: str
) -> None:
    reason = why(world(asked, queues=tuple(queues)))
    assert (reason.code, reason.message) == (ReasonCode.NEVER_FITS, message)


CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoExecute")


THREE = Resources({GPU: 3000})


@named_rows(
    "shut",
    {
        "cordoned": {"usable": False, "why_not": "unschedulable", "taints": (CORDON,)},
        "not ready": {"usable": False, "why_not": "not ready", "taints": (NOT_READY,)},
        "out of service": {"taints": (Taint("muster.dev/gpu-fault", "muster", "NoSchedule"),)},
        "unhealthy devices": {"allocatable": NODES[0].allocatable - THREE, "unhealthy": THREE},
        "full": {"used": Resources({GPU: 8000})},
    },
)
def test_it_waits_for_nodes_that_are_not_as_they_should_be(shut: dict[str, Any]) -> None:
    nodes = tuple(replace(each, **shut) for each in NODES)
    reason = why(world(work(pods(8, 8)), nodes=nodes))
    assert reason.code == ReasonCode.NO_FIT


def test_nodes_that_are_shut_are_named() -> None:
    nodes = (*NODES[:6], *(replace(each, usable=False, why_not="unschedulable") for each in NODES[6:]))
    reason = why(world(work(pods(8, 8)), nodes=nodes))
    assert reason.message == "6 of 8 pods of 8 nvidia.com/gpu fit on 8 nodes (2 unschedulable: n6, n7)"
    reason = why(world(work(pods(4, 8, required_topology=RACK)), nodes=(*nodes[1:3], *nodes[4:])))
    assert reason.message.endswith("(2 nodes unschedulable: n6, n7)")


def test_a_taint_that_says_what_a_node_is_for_stays() -> None:
    tainted = tuple(replace(each, taints=(Taint("dedicated", "infra", "NoSchedule"),)) for each in NODES)
    reason = why(world(work(pods()), nodes=tainted))
    told = "0 of 8 nodes have no taint that it does not tolerate (dedicated=infra:NoSchedule)"
    assert reason.message == told
    tolerant = NodeFilter(tolerations=(Toleration(key="dedicated", operator="Exists"),))
    assert admitted(plan_of(world(work(pods(nodes=tolerant)), nodes=tainted))) == {"it"}


def test_a_mix_of_flavors_counts_each_by_itself() -> None:
    nodes = tuple(replace(each, flavor=FlavorName("ab"[index // 4])) for index, each in enumerate(NODES))
    small = {FlavorName("b"): Limits(capability={GPU: 8000})}
    queue = Queue(name=Q, flavors={FlavorName("a"): Limits(), **small})
    assert admitted(plan_of(world(work(pods(4, 8)), nodes=nodes, queues=(queue,)))) == {"it"}
    reason = why(world(work(pods(5, 8)), nodes=nodes, queues=(queue,)))
    assert reason.message == (
        "5 pods of 8 nvidia.com/gpu asked at once, the nodes that they may use hold 4 even if empty"
    )
    reason = why(world(work(pods(2, 8)), nodes=nodes, queues=(replace(queue, flavors=small),)))
    assert reason.message == "16 nvidia.com/gpu of flavor b asked, queue q may use 8"


def test_what_others_are_guaranteed_of_the_only_flavor_with_room_is_kept_from_it() -> None:
    # Of two nodes of one flavor most is guaranteed to another queue; nodes of the other flavor are too small.
    large, small = FlavorName("large"), FlavorName("small")
    little = Resources({GPU: 2000, CPU: 64_000, MEMORY: 512 * GI, "pods": 110})
    nodes = tuple(
        replace(each, flavor=large) if number < 2 else replace(each, flavor=small, allocatable=little)
        for number, each in enumerate(NODES)
    )
    owner = Queue(name=QueueName("owner"), flavors={large: Limits(guarantee=Resources({GPU: 12_000}))})
    asking = Queue(name=Q, flavors={large: Limits(), small: Limits()})
    asked = work(pods(gpus=8))
    reason = why(world(asked, nodes=nodes, queues=(asking, owner)))
    assert (reason.code, reason.message) == (
        ReasonCode.NEVER_FITS,
        "8 nvidia.com/gpu of flavor large asked, queue root may use 4 (16 without 12 kept for guarantees)",
    )


def test_where_nodes_are_asked_for_only_limits_make_it_never() -> None:
    asking = Queue(name=ABOVE, provisioning=ProvisioningRules(class_name="check-capacity"))
    queue = Queue(name=Q, parent=ABOVE, limits=Limits(capability={GPU: 100_000}))
    for asked in (
        work(pods(gpus=9)),
        work(pods(9, 8)),
        work(pods(nodes=NodeFilter(selector=(("gpu", "h300"),)))),
    ):
        reason = why(world(asked, queues=(queue, asking)))
        assert reason.code == ReasonCode.NO_FIT
    reason = why(world(work(pods(101)), queues=(queue, asking)))
    assert reason.message == "101 nvidia.com/gpu asked, queue q may use 100"


def test_it_returns_by_itself_in_its_place_when_nodes_or_limits_change() -> None:
    first, later = work(pods(8, 4), name="first", arrival=1), work(pods(8, 4), name="later", arrival=2)
    snapshot = world(first, later, queues=(replace(limited(gpus=30), order="fifo"),))
    plan, memo = decide(snapshot, Memo())
    assert {reason.code for reason in plan.reasons.values()} == {ReasonCode.NEVER_FITS}
    raised = replace(snapshot, queues={Q: replace(limited(gpus=32), order="fifo")})
    plan, memo = decide(raised, memo)
    assert admitted(plan) == {"first"}
    assert plan == plan_of(raised)
    fewer = replace(raised, nodes=NodeTable.build(NODES[:3], [(RACK, HOST)]))
    plan, memo = decide(fewer, memo)
    assert not plan.admits
    more = replace(raised, nodes=NodeTable.build((*NODES[:3], node(9)), [(RACK, HOST)]))
    plan, _ = decide(more, memo)
    assert admitted(plan) == {"first"}


def test_one_users_mistakes_do_not_fill_the_line_and_are_bounded_too() -> None:
    wrong = [work(pods(gpus=9), name=f"x{number}", arrival=number, user="eve") for number in range(3)]
    right = [work(pods(gpus=8), name=f"y{number}", arrival=9 + number) for number in range(3)]
    plan = plan_of(world(*wrong, *right, queues=(Queue(name=Q, max_pending=2),)))
    assert admitted(plan) == {"y0", "y1"}
    codes = waiting(plan)
    assert codes == {
        "x0": ReasonCode.NEVER_FITS,
        "x1": ReasonCode.NEVER_FITS,
        "x2": ReasonCode.PENDING_LIMIT,
        "y2": ReasonCode.PENDING_LIMIT,
    }
    plan = plan_of(world(*wrong, *right, queues=(Queue(name=Q, max_pending_per_user=2),)))
    assert admitted(plan) == {"y0", "y1"}


def test_what_comes_after_other_work_fills_no_line_either_and_starts_once_it_may() -> None:
    waits = Obstacle(ReasonCode.WAITS_FOR_DEPENDENCY, "waits for job/a to succeed")
    after = [work(pods(gpus=1), name=f"x{number}", arrival=number, obstacle=waits) for number in range(3)]
    right = [work(pods(gpus=8), name=f"y{number}", arrival=9 + number) for number in range(3)]
    snapshot = world(*after, *right, queues=(Queue(name=Q, max_pending=2),))
    plan, memo = decide(snapshot, Memo())
    assert admitted(plan) == {"y0", "y1"}
    reasons = {key.uid: reason for key, reason in plan.reasons.items()}
    assert (reasons["x0"].code, reasons["x1"].message) == (waits.code, waits.message)
    assert [reasons[name].code for name in ("x2", "y2")] == [ReasonCode.PENDING_LIMIT] * 2
    assert reasons["x2"].message.startswith(
        "queue q considers 2 waiting workloads that cannot be admitted as things are"
    )

    free = replace(after[0], obstacle=None)
    later = replace(snapshot, pending=snapshot.pending | {free.key: free})
    plan, memo = decide(later, memo)
    assert admitted(plan) == {"x0", "y0"}
    assert plan == plan_of(later)
    assert plan.reasons[after[2].key].code == waits.code
    gone = replace(later, pending={key: each for key, each in later.pending.items() if key != after[1].key})
    assert decide(gone, memo)[0] == plan_of(gone)


def test_a_claim_ends_when_what_it_is_for_cannot_fit_any_more() -> None:
    asked = work(pods(gpus=8))
    seats = seats_on("n0", *asked.pod_sets)
    claim = Claim(workload=asked.key, queue=Q, generation="1", seats=seats, victims=(), until=20_000)
    snapshot = replace(world(asked, queues=(limited(gpus=4),)), claims={asked.key: claim})
    plan = plan_of(snapshot)
    assert (plan.dropped, plan.admits) == ((asked.key,), ())
