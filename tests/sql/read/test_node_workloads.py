"""Whose seats are on each node, as the read API tells it."""

from typing import Any

from queues.sql.database import Database
from queues.sql.read.node_workloads import node_workloads
from tests.sql.ledger_harness import GPU, LedgerHarness, gang, queue


async def test_a_node_names_the_workloads_with_seats_that_may_be_seen_and_counts_the_others(
    golden: Any,
    muster: Database,
) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 8, "n2": 8, "n3": 4}, ["j1", "j2"])
    gangs = gang("j1", "a", "n1 n1 n2", takes=2), gang("j2", "a", "n1", takes=1)
    placed = await harness.admit(*gangs, user="ann")
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
    assert [(each.name, each.user) for each in one["n1"].items] == [("j1", "ann")]
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
