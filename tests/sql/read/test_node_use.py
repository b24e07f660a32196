"""What the ledger holds on each node, as the read API tells it."""

from queues.sql.database import Database
from queues.sql.read.node_use import node_use
from tests.sql.ledger_harness import GPU, LedgerHarness, gang, gpus, queue


async def test_nodes_are_read_page_by_page_with_what_seats_hold(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 8, "n2": 8, "n3": 4}, ["j1", "j2"])
    (first,) = (await harness.admit(gang("j1", "a", "n1 n1 n2", takes=2))).accepted.values()

    async with muster.snapshot() as tx:
        page = await node_use(tx, after="", limit=2)
        rest = await node_use(tx, after=page[-1].name, limit=2)
    units = gpus(1)[GPU]
    assert [(node.name, node.limits[GPU], node.used.get(GPU, 0), node.usable) for node in (*page, *rest)] == [
        ("n1", 8 * units, 4 * units, True),
        ("n2", 8 * units, 2 * units, True),
        ("n3", 4 * units, 0, True),
    ]

    await harness.free(first, 0, 1, 2)
    async with muster.snapshot() as tx:
        assert all(not node.used.get(GPU) for node in await node_use(tx, after="", limit=10))
