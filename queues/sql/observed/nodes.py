"""What nodes may give: their limits, and the capacity of ``root`` that follows.

Part of ``observed``: only intake writes here, by way of it.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import bindparam, delete, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.quota.accounts import Account
from queues.sql.leadership import Term, check_term
from queues.sql.observed.rows import NodeLimit
from queues.sql.statements import TEXTS, UnnestRows, bounded, insert_rows, names, same, upsert_rows
from queues.sql.tables import capacity, node_balances, node_limits, nodes
from queues.workload import NO_FLAVOR, NodeName


async def record_node_limits(
    tx: AsyncConnection,
    term: Term,
    changed: Mapping[NodeName, NodeLimit],
    removed: Collection[NodeName] = (),
) -> None:
    """Store what nodes offer; the sum over usable ones bounds ``root``.

    A node that is removed while something is held on it stays, unusable, until nothing is. Raises Fenced.
    """
    await check_term(tx, term)
    gone = sorted(set(removed) - changed.keys())
    touched = sorted({*changed, *gone})
    if not touched:
        return
    before = await _offered(tx, touched)
    if changed:
        rows = [(name, node.flavor, node.usable, node.closed) for name, node in sorted(changed.items())]
        await tx.execute(_STORE_NODES, _NODES.rows(rows))
    await _forget_nodes(tx, gone)
    await _store_node_limits(tx, changed, touched)
    after: Counter[Account] = Counter()
    for node in changed.values():
        if node.usable:
            for resource, units in node.limits.items():
                for flavor in {NO_FLAVOR, node.flavor}:
                    after[Account(flavor, resource)] += max(0, units)
    after.subtract(before)
    if moved := [(*account, units) for account, units in sorted(after.items()) if units]:
        await tx.execute(_ADD_CAPACITY, _MORE.rows(moved))


async def _offered(tx: AsyncConnection, touched: Sequence[NodeName]) -> Counter[Account]:
    rows = await tx.execute(
        select(nodes.c.flavor, node_limits.c.resource, func.greatest(node_limits.c.amount, 0))
        .join(node_limits, node_limits.c.node == nodes.c.name)
        .where(nodes.c.name == func.any(names(touched)), nodes.c.usable)
    )
    offered: Counter[Account] = Counter()
    for own_flavor, resource, units in rows:
        for flavor in {NO_FLAVOR, own_flavor}:
            offered[Account(flavor, resource)] += units
    return offered


_NODES = UnnestRows(*nodes.c["name", "flavor", "usable", "closed"])

_STORE_NODES = upsert_rows(nodes, _NODES)


async def _forget_nodes(tx: AsyncConnection, gone: Sequence[NodeName]) -> None:
    if not gone:
        return
    named = nodes.c.name == func.any(names(gone))
    held = exists().where(node_balances.c.node == nodes.c.name, node_balances.c.used > 0)
    await tx.execute(update(nodes).where(named, held).values(usable=False))
    await tx.execute(delete(nodes).where(named, ~held))
    await tx.execute(
        delete(node_balances).where(node_balances.c.node == func.any(names(gone)), node_balances.c.used == 0)
    )


_ROOM = UnnestRows(*node_limits.c["node", "resource", "amount"])
_FORGET_ROOM = delete(node_limits).where(
    node_limits.c.node == func.any(bindparam("touched", type_=TEXTS)),
    ~exists().where(same(node_limits, _ROOM, "node", "resource")),
)

_STORE_ROOM = upsert_rows(node_limits, _ROOM)


async def _store_node_limits(
    tx: AsyncConnection, changed: Mapping[NodeName, NodeLimit], touched: Sequence[NodeName]
) -> None:
    room = _ROOM.rows(
        [
            (name, resource, bounded(units))
            for name, node in sorted(changed.items())
            for resource, units in sorted(node.limits.items())
        ]
    )
    await tx.execute(_FORGET_ROOM, room | {"touched": touched})
    await tx.execute(_STORE_ROOM, room)


_MORE = UnnestRows(*capacity.c["flavor", "resource", "amount"])
_more = insert_rows(capacity, _MORE)
_ADD_CAPACITY = _more.on_conflict_do_update(
    index_elements=list(capacity.primary_key),
    set_={"amount": capacity.c.amount + _more.excluded.amount},
)
