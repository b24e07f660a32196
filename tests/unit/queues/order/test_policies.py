"""Who gives way to whom in a queue: small before large, but not for ever."""

from dataclasses import replace
from typing import Any

import pytest

from queues.order.policies import LineEntry, devices, rank
from queues.plugins.interface import PATIENCE
from queues.quota.queue import ROOT, Queue, QueuePolicy
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.workload import DeviceShare, PodSet, QueueName, Workload
from tests.builders.decided_work import a_workload

GPU = "nvidia.com/gpu"


def pods(count: int, minimum: int = 0, share: DeviceShare | None = None, **takes: int) -> PodSet:
    names = {"gpu": GPU, "hca": "rdma/hca", "cpu": "cpu"}
    amounts = Resources({names[name]: units * 1000 for name, units in takes.items()})
    return PodSet(name=f"set-{count}-{minimum}", count=count, minimum=minimum, takes=amounts, share=share)


def workload(*sets: PodSet, minimum: int = 1, **more: Any) -> Workload:
    return a_workload("u", *sets, namespace="n", name="w", minimum=minimum, **more)


def one_queue(clear_after: int | None) -> QueueTree:
    queue = Queue(name=QueueName("q"), policy=QueuePolicy(clear_after=clear_after))
    return QueueTree.build({ROOT: Queue(name=ROOT, parent=None), queue.name: queue}, None)


def entry(asks: Workload) -> LineEntry:
    return LineEntry(workload=asks, shape=None, devices=devices(asks), joins=False, accounts=())


def precedence(asks: Workload) -> int:
    """Where places are cleared for gangs that starve for a day."""
    return rank(one_queue(PATIENCE), entry(asks)).precedence


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        (workload(pods(4, gpu=8), minimum=4), 32),
        (workload(pods(4, gpu=8), minimum=2), 16),
        (workload(pods(1, gpu=1), pods(8, minimum=3, gpu=2), minimum=5), 9),
        (workload(pods(2, gpu=8, hca=8, cpu=64), minimum=2), 16),
        (workload(pods(2, cpu=64), minimum=2), 8),
        (workload(pods(1, cpu=1)), 0),
        (workload(pods(3, share=DeviceShare(devices=1, milli=500)), minimum=3), 2),
        (workload(pods(0)), 0),
    ],
)
def test_what_the_gang_needs_to_start_is_counted_in_devices(asked: Workload, count: int) -> None:
    assert devices(asked) == count


def test_one_that_lost_its_device_gives_way_to_nothing_of_its_priority() -> None:
    tree = one_queue(PATIENCE)
    large, small = workload(pods(4, gpu=8), minimum=4), workload(pods(1, gpu=1))
    first = replace(large, comes_first=True)
    assert rank(tree, entry(small)) < rank(tree, entry(large))
    assert rank(tree, entry(first)) < rank(tree, entry(small))
    assert rank(tree, entry(replace(small, priority=1))) < rank(tree, entry(first))


def test_a_large_one_gives_way_to_what_is_smaller_only_for_so_long() -> None:
    large = workload(pods(1, gpu=8), created=1000)
    soon = workload(pods(1, gpu=1), created=1000 + 7 * PATIENCE - 1)
    late = workload(pods(1, gpu=1), created=1000 + 7 * PATIENCE + 1)

    assert precedence(soon) < precedence(large) < precedence(late)


def test_one_that_was_evicted_counts_from_then_on() -> None:
    assert precedence(workload(pods(1), created=1000, waiting_since=5000)) == 5000


@pytest.mark.parametrize(
    ("clear_after", "first"),
    [(None, "small"), (PATIENCE, "small"), (PATIENCE + 1, "large"), (10**9, "large")],
)
def test_where_no_place_is_cleared_for_a_starved_gang_it_gives_way_to_nobody(
    clear_after: int | None, first: str
) -> None:
    tree = one_queue(clear_after)
    ranks = {
        size: rank(tree, entry(asks))
        for size, asks in {
            "large": workload(pods(1, gpu=8), created=1000),
            "small": replace(workload(pods(1, gpu=1), created=1001), arrival=2),
        }.items()
    }

    assert min(ranks, key=lambda size: ranks[size]) == first
