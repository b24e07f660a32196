"""Of sets of victims whose lost work is about equal, the one goes that leaves fewer devices idle.

Nodes have eight GPUs, and all of them are taken. All victims were lent what they have.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import NodeTable
from queues.plan import Evict
from queues.quota.queue import Limits, Queue
from queues.resources import GPU, Resources
from queues.workload import QueueName, Workload
from tests.builders.decided_work import gpu_node, plan_of
from tests.builders.running_work import NOW, running, snapshot_of, workload
from tests.tables import named_rows

MINE, THEIRS = QueueName("mine"), QueueName("theirs")


class Runs(NamedTuple):
    """What runs: a pod of so many GPUs on each of these nodes, and the device-minutes that its eviction loses."""

    name: str
    on: str
    gpus: int
    lost: float
    queue: str = THEIRS
    priority: int = 0


def evicted(asks: Workload, *works: Runs) -> str:
    """Names of the victims."""
    return " ".join(evictions(asks, *works))


def evictions(asks: Workload, *works: Runs) -> dict[str, Evict]:
    """By name."""
    held = []
    for work in works:
        since = round(work.lost * 60 / (work.gpus * len(work.on.split())))
        about = {"gpus": work.gpus, "priority": work.priority, "created": NOW - since}
        held.append(running(work.name, work.queue, on=work.on, since=since, **about))
    used = Counter[str]()
    for work in works:
        for node in work.on.split():
            used[node] += work.gpus * 1000
    nodes = [
        gpu_node(name, used=Resources({GPU: units, "pods": 1}), labels={"rack": f"r{number // 2}"})
        for number, (name, units) in enumerate(sorted(used.items()))
    ]
    table = NodeTable.build(nodes, [("rack", HOST)])
    queues = {
        MINE: Queue(name=MINE, limits=Limits(deserved={GPU: 64_000})),
        THEIRS: Queue(name=THEIRS, limits=Limits(deserved={GPU: 0})),
    }
    snapshot = snapshot_of(held, table, queues=queues, pending={asks.key: asks})
    plan = plan_of(snapshot)
    assert len(plan.claims) == bool(plan.evicts)
    return dict(sorted((snapshot.admissions[each.admission].name, each) for each in plan.evicts))


def asks(pods: int, gpus: int, *, rack: bool = False, priority: int = 0) -> Workload:
    plain = workload("asks", MINE, pods=pods, gpus=gpus, priority=priority)
    if not rack:
        return plain
    return replace(plain, pod_sets=(replace(plain.pod_sets[0], required_topology="rack"),))


FOUR = "n0 n1 n2 n3"


TWO = "n4 n5"


@named_rows(
    ("waits", "works", "expected"),
    {
        "equal": (asks(2, 8), [Runs("large", FOUR, 8, 100), Runs("small", TWO, 8, 100)], "small"),
        "a minute": (asks(2, 8), [Runs("large", FOUR, 8, 200), Runs("small", TWO, 8, 200.8)], "small"),
        "more is not equal": (asks(2, 8), [Runs("large", FOUR, 8, 200), Runs("small", TWO, 8, 202)], "large"),
        "and cheaper": (asks(2, 8), [Runs("large", FOUR, 8, 400), Runs("small", TWO, 8, 250)], "small"),
        "several small ones": (
            asks(2, 8),
            [Runs("large", FOUR, 8, 200), Runs("one", "n4", 8, 90), Runs("two", "n5", 8, 100)],
            "one two",
        ),
        "the smallest of three": (
            asks(2, 8),
            [Runs("huge", f"{FOUR} {TWO}", 8, 200), Runs("large", "n6 n7 n8", 8, 200.4),
             Runs("small", "n9 na", 8, 200.8)],
            "small",
        ),
        "in one rack": (asks(2, 8, rack=True), [Runs("large", FOUR, 8, 200), Runs("small", TWO, 8, 200.8)], "small"),
        "for one pod": (asks(1, 8), [Runs("large", FOUR, 8, 200), Runs("small", TWO, 8, 200.8)], "small"),
        "a pod for a pod": (asks(1, 8), [Runs("large", FOUR, 8, 10), Runs("single", "n4", 8, 200)], "single"),
        "single pods": (
            asks(1, 2),
            [Runs("large", "n0", 8, 100), Runs("small", "n1", 2, 101), Runs("rest", "n1", 6, 400)],
            "small",
        ),
        "single pods that cost more": (
            asks(1, 2),
            [Runs("large", "n0", 8, 100), Runs("small", "n1", 2, 102), Runs("rest", "n1", 6, 400)],
            "large",
        ),
        "one in place of several": (
            asks(2, 3),
            [Runs("one", "n0 n1", 2, 40), Runs("two", "n0 n1", 2, 40), Runs("rest", "n0 n1", 4, 4000),
             Runs("fits", "n2 n3", 3, 82), Runs("others", "n2 n3", 5, 4000)],
            "fits",
        ),
        "no higher priority than need be": (
            asks(2, 8, priority=9),
            [Runs("large", FOUR, 8, 200, MINE, 0), Runs("small", TWO, 8, 200, MINE, 5)],
            "large",
        ),
        "nor for a single pod": (
            asks(1, 2, priority=9),
            [Runs("large", "n0", 8, 100, MINE), Runs("small", "n1", 2, 100, MINE, 5), Runs("rest", "n1", 6, 900, MINE)],
            "large",
        ),
    },
)  # fmt: skip
def test_of_equal_victims_those_go_that_leave_less_idle(
    waits: Workload, works: Sequence[Runs], expected: str
) -> None:
    assert evicted(waits, *works) == expected


@named_rows(
    ("waits", "works", "expected"),
    {
        "one node": (asks(1, 8), [Runs("gang", FOUR, 8, 100)], {"gang": "8 of 32 nvidia.com/gpu"}),
        "all": (asks(4, 8), [Runs("gang", FOUR, 8, 100)], {"gang": None}),
        "a part": (asks(1, 2), [Runs("single", "n0", 8, 100)], {"single": "2 of 8 nvidia.com/gpu"}),
        "of both together": (
            asks(3, 8),
            [Runs("one", "n0 n1", 8, 100), Runs("two", "n2 n3", 8, 100)],
            dict.fromkeys(("one", "two"), "24 of 32 nvidia.com/gpu"),
        ),
    },
)
def test_it_is_said_how_much_of_what_is_freed_the_beneficiary_takes(
    waits: Workload, works: Sequence[Runs], expected: dict[str, str | None]
) -> None:
    found = evictions(waits, *works)
    assert {name: each.facts.get("takes") for name, each in found.items()} == expected
    for name, part in expected.items():
        says = "; it takes a part of what is freed, and the next that fit the rest"
        assert found[name].message.endswith(says) == (part is not None)
