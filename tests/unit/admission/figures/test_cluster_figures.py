"""Devices that nothing can use, the largest gangs that fit, and gangs that starve."""

from dataclasses import replace

import pytest

from admission.engine.memo import tree_of
from admission.engine.nodes.demand import Shape, Typical
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from admission.figures.cluster_figures import ClusterFigures, ClusterGauge, Fit
from queues.quota.accounts import Account
from queues.quota.queue import ROOT, Limits, Queue, QueuePolicy
from queues.resources import CPU, GPU, WHOLE, Resources
from queues.workload import NO_FLAVOR, NodeName, QueueName, Workload
from tests.builders.running_work import NOW, snapshot_of, workload

RACK = "rack"
A = QueueName("a")
GPUS = Account(NO_FLAVOR, GPU)


def node(name: str, rack: str, used: float = 0, *, why_not: str = "") -> Node:
    return Node(
        name=NodeName(name),
        allocatable=Resources({GPU: 4000, CPU: 32_000, "pods": 100}),
        used=Resources({GPU: round(used * WHOLE)}),
        labels={RACK: rack},
        usable=not why_not,
        why_not=why_not,
    )


def world(*pending: Workload) -> Snapshot:
    """Two racks: the first has 3 + 4 devices free, the second 1 and a node that is not ready."""
    table = NodeTable.build(
        [node("n1", "r1", 1), node("n2", "r1"), node("n3", "r2", 3), node("n4", "r2", why_not="not ready")],
        levels=[(RACK,)],
    )
    limits, policy = Limits(deserved={GPU: 4000}), QueuePolicy(clear_after=60)
    queue = Queue(name=A, parent=ROOT, limits=limits, policy=policy)
    return replace(snapshot_of([], table), queues={A: queue}, pending={each.key: each for each in pending})


def figures(snapshot: Snapshot, used: int = 0) -> ClusterFigures:
    """``used``: of the queue; all that nodes have is used, by others."""
    tree = tree_of(snapshot.queues, snapshot.nodes)
    books = {(A, GPUS): used, (ROOT, GPUS): 12_000}
    return ClusterGauge().figures(snapshot, tree, books, snapshot.now)


def test_free_devices_are_those_of_nodes_that_take_pods() -> None:
    found = figures(world())
    assert found.free == {GPU: 8}
    assert found.unusable == {(GPU, "not ready"): 4}


def test_the_largest_gang_is_told_for_the_cluster_and_for_each_level() -> None:
    found = figures(world()).largest
    assert {fit: found[fit] for fit in found if fit.pods == "device"} == {
        Fit(GPU, "cluster", "device"): 8,
        Fit(GPU, RACK, "device"): 7,
        Fit(GPU, HOST, "device"): 4,
    }
    assert found[Fit(GPU, "cluster", "node")] == 1


def test_parts_of_devices_are_no_whole_ones() -> None:
    table = NodeTable.build([node("n1", "r1", 2.5), node("n2", "r1", 2.5)])
    found = figures(replace(world(), nodes=table)).largest
    assert found[Fit(GPU, "cluster", "device")] == 2


def test_fragmented_is_what_no_typical_pod_could_use() -> None:
    def fragmented(devices: int) -> float:
        typical = Typical(shapes=((Shape(cpu=1000, resource=GPU, devices=devices, milli=WHOLE), 10),))
        return figures(replace(world(), typical=typical)).fragmented

    assert fragmented(1) == 0
    assert fragmented(4) == 4  # three of the first node, one of the third
    assert figures(world()).fragmented == 0  # nothing was asked for yet


def gang(waited: int, pods: int = 4, **more: object) -> Workload:
    about = {"created": NOW - 5000, "waiting_since": NOW - waited, **more}
    return workload(f"gang-{waited}", "a", pods=pods, **about)


def test_a_gang_starves_that_has_waited_longer_than_its_bound_for_what_its_queue_deserves() -> None:
    found = figures(world(gang(61), gang(59)))
    assert (found.starving, found.longest_wait) == ({A: 1}, {A: 61})


@pytest.mark.parametrize(
    ("pending", "used"),
    [
        (gang(61, pods=1), 0),
        (gang(61, pods=5), 0),
        (gang(61), 1000),
        (gang(61, preempts=False), 0),
    ],
    ids=["a single pod", "more than is deserved", "too much is used", "one that takes nothing from others"],
)
def test_no_place_is_promised_to(pending: Workload, used: int) -> None:
    found = figures(world(pending), used)
    assert (found.starving, found.longest_wait) == ({}, {A: 61})


def test_in_a_paused_queue_nothing_starves() -> None:
    snapshot = world(gang(61))
    paused = {A: replace(snapshot.queues[A], paused=True)}
    assert figures(replace(snapshot, queues=paused)).starving == {}
