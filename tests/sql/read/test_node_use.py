"""What the ledger holds on each node, as the read API tells it."""

from typing import Any

from queues.sql.database import Database
from queues.sql.observed.rows import NodeLimit
from queues.sql.read.node_use import free_devices, node_use, node_workloads
from tests.sql.ledger_harness import GPU, LedgerHarness, gang, gpus, queue


async def test_nodes_are_read_page_by_page_with_what_seats_hold(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 8, "n2": 8, "n3": 4}, ["j1", "j2"])
    (first,) = (await harness.admit(gang("j1", "a", "n1 n1 n2", takes=2))).accepted.values()

    async with muster.snapshot() as tx:
        page = await node_use(tx, after="", limit=2)
        rest = await node_use(tx, after=page[-1].name, limit=2)
    assert [(node.name, node.limits[GPU], node.used.get(GPU), node.usable) for node in (*page, *rest)] == [
        ("n1", "8m", "4m", True),
        ("n2", "8m", "2m", True),
        ("n3", "4m", None, True),
    ]

    await harness.free(first, 0, 1, 2)
    async with muster.snapshot() as tx:
        assert all(not node.used.get(GPU) for node in await node_use(tx, after="", limit=10))


async def test_a_node_says_why_it_takes_no_gangs(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 8, "n2": 8}, [])
    await harness.nodes(n1=NodeLimit(limits=gpus(8), closed="closed to gangs: a gang is tried there"))
    async with muster.snapshot() as tx:
        closed = [(node.usable, node.closed) for node in await node_use(tx, after="", limit=10)]
    assert closed == [(True, "closed to gangs: a gang is tried there"), (True, "")]


async def test_a_node_names_the_workloads_with_seats_that_may_be_seen_and_counts_the_others(
    golden: Any,
    muster: Database,
) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 8, "n2": 8, "n3": 4}, ["j1", "j2"])
    placed = await harness.admit(gang("j1", "a", "n1 n1 n2", takes=2), gang("j2", "a", "n1", takes=1))
    first, _ = placed.accepted.values()
    kind, namespace = await _kind_and_namespace(muster)

    async with muster.snapshot() as tx:
        found = await node_workloads(tx, ["n1", "n2", "n3"], None)
        one = await node_workloads(tx, ["n1"], None, limit=1)
        hidden = await node_workloads(tx, ["n1"], {})
        seen = await node_workloads(tx, ["n1"], {kind: frozenset({namespace})})
    assert {
        name: [(each.name, each.seats, each.held[GPU]) for each in node.items] for name, node in found.items()
    } == {"n1": [("j1", 2, "4m"), ("j2", 1, "1m")], "n2": [("j1", 1, "2m")]}
    assert [each.name for each in one["n1"].items] == ["j1"]
    assert (one["n1"].total, one["n1"].hidden) == (2, 0)
    assert (hidden["n1"].items, hidden["n1"].total, hidden["n1"].hidden) == ((), 0, 2)
    assert (seen["n1"].total, seen["n1"].hidden) == (2, 0)

    await harness.free(first, 0, 1)
    async with muster.snapshot() as tx:
        left = await node_workloads(tx, ["n1", "n2"], None)
    assert {name: [each.name for each in node.items] for name, node in left.items()} == golden


async def _kind_and_namespace(muster: Database) -> tuple[str, str]:
    async with muster.snapshot() as tx:
        [one, *_] = (await node_workloads(tx, ["n1"], None))["n1"].items
    return one.kind, one.namespace


def test_parts_of_several_devices_are_no_whole_device() -> None:
    gpu = "nvidia.com/gpu"
    limits = {
        gpu: 3000,
        f"{gpu}#0": 1000,
        f"{gpu}#1": 1000,
        f"{gpu}#2": 1000,
        f"{gpu}#memory": 80,
        "cpu": 9000,
    }
    assert free_devices(limits, {}) == {gpu: 3}
    halves = {gpu: 1000, f"{gpu}#0": 500, f"{gpu}#1": 500}
    assert free_devices(limits, halves) == {gpu: 1}
    four = {gpu: 4000, **{f"{gpu}#{index}": 1000 for index in range(4)}}
    halves_and_one_unnamed = {gpu: 2000, f"{gpu}#0": 500, f"{gpu}#1": 500}
    assert free_devices(four, halves_and_one_unnamed) == {gpu: 1}
    # Devices of a pod that the books do not name by number: some that looks untouched is not.
    assert free_devices(limits, {gpu: 2000}) == {gpu: 1}
    assert free_devices({gpu: 8000}, {gpu: 2500}) == {gpu: 5}
    assert free_devices({gpu: 1000}, {gpu: 3000}) == {gpu: 0}
