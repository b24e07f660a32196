"""Classes for whom nobody could go are not searched for, until that may be otherwise."""

import random

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues.plan import Plan
from queues.quota.queue import Queue, QueuePolicy
from queues.resources import Resources
from queues.workload import PodSet, QueueName
from tests.bench import synthetic_world
from tests.bench.synthetic_world import CPU, GPU, SyntheticWorld, node_table, pods, queue, workload

SOON = QueuePolicy(clear_after=300)
QUEUES = (
    queue("left", policy=SOON, deserved=12),
    queue("right", deserved=12),
    queue("a", "left", deserved=8),
    queue("b", "left", deserved=4),
    queue("c", "right", policy=QueuePolicy(reclaim="lower-priority"), deserved=8),
    queue("d", "right", policy=QueuePolicy(within_queue="never", reclaim="never"), deserved=4),
)

SHAPES = (
    *(pods(count, gpus) for count, gpus in ((1, 1), (1, 2), (2, 2), (3, 4), (2, 8), (1, 8))),
    *(PodSet(name="main", count=n, takes=Resources({GPU: 1000, CPU: 96_000, "pods": 1})) for n in (1, 2)),
    PodSet(name="main", count=1, takes=Resources({CPU: 96_000, "pods": 1})),
    PodSet(name="main", count=1, takes=Resources({GPU: 8000, "pods": 1})),
)


def _compared(snapshot: Snapshot, memo: Memo, limit: int) -> tuple[Plan, Memo]:
    plan, after = decide(snapshot, memo, limit)
    assert plan == decide(snapshot, Memo(), limit)[0]
    return plan, after


@pytest.mark.parametrize("seed", range(3))
def test_who_was_left_out_is_searched_for_as_soon_as_it_may_help(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic_world, "decide", _compared)
    chance, arrived = random.Random(seed), 0
    tree: dict[QueueName, Queue] = {each.name: each for each in QUEUES}
    world = SyntheticWorld(tree, node_table(3))
    for _ in range(120):
        for _ in range(chance.choice((0, 0, 0, 1, 2))):
            arrived += 1
            asks = chance.choice(SHAPES)
            name, priority = chance.choice("aabccd"), chance.choice((0, 0, 0, 5))
            world.arrive([workload(arrived, name, asks, priority=priority, created=world.now)])
        for number in list(world.admissions.freeze()):
            if chance.random() < 0.04:
                world.end(number)
        world.turn()
        world.now += chance.choice((1, 1, 20, 200))
    assert world.evicted > 3
