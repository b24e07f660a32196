"""Balances in and out: the rows that a plan touches are locked, moved by ``Books``, and written back.

Part of ``ledger``. Rows are locked in one fixed order (queue, flavor, resource; then node, resource), one
statement per kind for the whole plan. Limits, tree and balances cannot change until the transaction ends,
because their writers lock the lease row, which the fence has locked for this transaction.
"""

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import and_, func, literal, or_, select, union_all, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.errors import LedgerMismatch
from queues.quota.accounts import Account
from queues.quota.posting import Books, NodeAccount, NodeBalance, Posting, QueueAccount, QueueBalance
from queues.quota.queue import ROOT
from queues.sql.statements import NUMBER, TEXT, UnnestRows
from queues.sql.tables import (
    capacity,
    node_balances,
    node_limits,
    nodes,
    queue_balances,
    queue_limits,
    queues,
)
from queues.workload import NO_FLAVOR, FlavorName, QueueName


async def open_books(tx: AsyncConnection, postings: Sequence[Posting]) -> Books:
    """Lock and load every balance that these postings may move, with the limits it is held against."""
    books = await _paths(tx, {posting.queue for posting in postings})
    accounts = {
        QueueAccount(queue, flavor, resource)
        for posting in postings
        for queue in books.path(posting.queue)
        for flavor, resource in posting.accounts
    }
    books.queues |= await _lock_queues(tx, accounts)
    root = await _root_ceilings(tx)
    for account, balance in books.queues.items():
        if account.queue == ROOT:
            ceiling = root.get(Account(account.flavor, account.resource), 0)
            balance.ceiling = ceiling if balance.ceiling is None else min(ceiling, balance.ceiling)
    books.nodes |= await _lock_nodes(tx, {node for posting in postings for node in posting.nodes})
    return books


async def store_books(tx: AsyncConnection, books: Books, *, checked: bool) -> None:
    """Write what moved. ``checked``: the statements hold every growing row against its limit once more.

    Raises LedgerMismatch when a row refuses: what was checked is not what is stored.
    """
    await _move_queues(tx, books, checked=checked)
    await _move_nodes(tx, books, checked=checked)


_QUEUE_NAMES = UnnestRows(name=TEXT)

_named_queues = (
    select(queues.c.name, queues.c.counts_in, queues.c.broken)
    .join(_QUEUE_NAMES.table, queues.c.name == _QUEUE_NAMES.c.name)
    .cte("path", recursive=True)
)

_path = _named_queues.union(
    select(queues.c.name, queues.c.counts_in, queues.c.broken).join(
        _named_queues, queues.c.name == _named_queues.c.counts_in
    )
)

_SELECT_PATHS = select(_path.c.name, _path.c.counts_in, _path.c.broken)


async def _paths(tx: AsyncConnection, wanted: set[QueueName]) -> Books:
    rows = (await tx.execute(_SELECT_PATHS, _QUEUE_NAMES.rows([(name,) for name in sorted(wanted)]))).all()
    return Books(
        counts_in={name: counts_in for name, counts_in, _ in rows},
        broken=frozenset(name for name, _, broken in rows if broken),
    )


async def _lock_queues(tx: AsyncConnection, accounts: set[QueueAccount]) -> dict[QueueAccount, QueueBalance]:
    found = await _lock_queue_rows(tx, accounts)
    if missing := accounts - found.keys():
        await tx.execute(_ADD_QUEUES, _QUEUE_ACCOUNTS.rows(sorted(missing)))
        found |= await _lock_queue_rows(tx, missing)
    return found


_QUEUE_ACCOUNTS = UnnestRows(queue=TEXT, flavor=TEXT, resource=TEXT)

_ADD_QUEUES = (
    insert(queue_balances)
    .from_select(_QUEUE_ACCOUNTS.c.keys(), select(*_QUEUE_ACCOUNTS.c))
    .on_conflict_do_nothing()
)

_LOCK_QUEUES = (
    select(
        queue_balances.c.queue,
        queue_balances.c.flavor,
        queue_balances.c.resource,
        queue_balances.c.own,
        queue_balances.c.used,
        queue_balances.c.counted,
        func.coalesce(queue_limits.c.keeps, 0),
        queue_limits.c.ceiling,
    )
    .join(
        _QUEUE_ACCOUNTS.table,
        and_(
            queue_balances.c.queue == _QUEUE_ACCOUNTS.c.queue,
            queue_balances.c.flavor == _QUEUE_ACCOUNTS.c.flavor,
            queue_balances.c.resource == _QUEUE_ACCOUNTS.c.resource,
        ),
    )
    .outerjoin(
        queue_limits,
        and_(
            queue_balances.c.queue == queue_limits.c.queue,
            queue_balances.c.flavor == queue_limits.c.flavor,
            queue_balances.c.resource == queue_limits.c.resource,
        ),
    )
    .order_by(queue_balances.c.queue, queue_balances.c.flavor, queue_balances.c.resource)
    .with_for_update(of=queue_balances)
)


async def _lock_queue_rows(
    tx: AsyncConnection, accounts: set[QueueAccount]
) -> dict[QueueAccount, QueueBalance]:
    result = await tx.execute(_LOCK_QUEUES, _QUEUE_ACCOUNTS.rows(sorted(accounts)))
    return {
        QueueAccount(queue, flavor, resource): QueueBalance(*balance)
        for queue, flavor, resource, *balance in result
    }


_held = (
    select(nodes.c.flavor, node_balances.c.resource, node_balances.c.used, literal(True))
    .join(node_balances, node_balances.c.node == nodes.c.name)
    .where(~nodes.c.usable)
)

_SELECT_ROOT_CEILINGS = union_all(
    select(capacity.c.flavor, capacity.c.resource, capacity.c.amount, literal(False)), _held
)


async def _root_ceilings(tx: AsyncConnection) -> dict[Account, int]:
    """Ceilings of root: what usable nodes offer, and what is still held on unusable nodes."""
    ceilings: Counter[Account] = Counter()
    for flavor, resource, amount, is_held in await tx.execute(_SELECT_ROOT_CEILINGS):
        # Capacity is stored over all flavors as well; what is held is not.
        for each in {NO_FLAVOR, flavor} if is_held else {flavor}:
            ceilings[Account(FlavorName(each), resource)] += amount
    return ceilings


async def _lock_nodes(tx: AsyncConnection, accounts: set[NodeAccount]) -> dict[NodeAccount, NodeBalance]:
    found = await _lock_node_rows(tx, accounts)
    if missing := accounts - found.keys():
        await tx.execute(_ADD_NODES, _NODE_ACCOUNTS.rows(sorted(missing)))
        found |= await _lock_node_rows(tx, missing)
    return found


_NODE_ACCOUNTS = UnnestRows(node=TEXT, resource=TEXT)

_ADD_NODES = (
    insert(node_balances)
    .from_select(_NODE_ACCOUNTS.c.keys(), select(*_NODE_ACCOUNTS.c))
    .on_conflict_do_nothing()
)

_LOCK_NODES = (
    select(
        node_balances.c.node,
        node_balances.c.resource,
        node_balances.c.used,
        func.coalesce(node_limits.c.amount, 0),
    )
    .join(
        _NODE_ACCOUNTS.table,
        and_(
            node_balances.c.node == _NODE_ACCOUNTS.c.node,
            node_balances.c.resource == _NODE_ACCOUNTS.c.resource,
        ),
    )
    .outerjoin(nodes, and_(nodes.c.name == node_balances.c.node, nodes.c.usable))
    .outerjoin(
        node_limits,
        and_(node_limits.c.node == nodes.c.name, node_limits.c.resource == node_balances.c.resource),
    )
    .order_by(node_balances.c.node, node_balances.c.resource)
    .with_for_update(of=node_balances)
)


async def _lock_node_rows(tx: AsyncConnection, accounts: set[NodeAccount]) -> dict[NodeAccount, NodeBalance]:
    result = await tx.execute(_LOCK_NODES, _NODE_ACCOUNTS.rows(sorted(accounts)))
    return {NodeAccount(node, resource): NodeBalance(used, limit) for node, resource, used, limit in result}


_QUEUE_MOVES = UnnestRows(
    queue=TEXT,
    flavor=TEXT,
    resource=TEXT,
    own=NUMBER,
    used=NUMBER,
    counted=NUMBER,
    ceiling=NUMBER,
)

_MOVE_QUEUES = (
    update(queue_balances)
    .where(
        queue_balances.c.queue == _QUEUE_MOVES.c.queue,
        queue_balances.c.flavor == _QUEUE_MOVES.c.flavor,
        queue_balances.c.resource == _QUEUE_MOVES.c.resource,
        or_(
            _QUEUE_MOVES.c.counted <= 0,
            _QUEUE_MOVES.c.ceiling.is_(None),
            queue_balances.c.counted + _QUEUE_MOVES.c.counted <= _QUEUE_MOVES.c.ceiling,
        ),
    )
    .values(
        own=queue_balances.c.own + _QUEUE_MOVES.c.own,
        used=queue_balances.c.used + _QUEUE_MOVES.c.used,
        counted=queue_balances.c.counted + _QUEUE_MOVES.c.counted,
    )
)


async def _move_queues(tx: AsyncConnection, books: Books, *, checked: bool) -> None:
    moved = [
        (*account, *move, books.queues[account].ceiling if checked else None)
        for account, move in sorted(books.queue_moves.items())
        if move.used or move.counted
    ]
    if not moved:
        return
    result = await tx.execute(_MOVE_QUEUES, _QUEUE_MOVES.rows(moved))
    if result.rowcount != len(moved):
        raise LedgerMismatch(
            reason=f"{len(moved) - result.rowcount} of {len(moved)} queue accounts would pass their limit"
        )


_NODE_MOVES = UnnestRows(node=TEXT, resource=TEXT, units=NUMBER, room=NUMBER)

_MOVE_NODES = (
    update(node_balances)
    .where(
        node_balances.c.node == _NODE_MOVES.c.node,
        node_balances.c.resource == _NODE_MOVES.c.resource,
        or_(
            _NODE_MOVES.c.units <= 0,
            _NODE_MOVES.c.room.is_(None),
            node_balances.c.used + _NODE_MOVES.c.units <= _NODE_MOVES.c.room,
        ),
    )
    .values(used=node_balances.c.used + _NODE_MOVES.c.units)
)


async def _move_nodes(tx: AsyncConnection, books: Books, *, checked: bool) -> None:
    moved = [
        (*account, units, books.nodes[account].limit if checked else None)
        for account, units in sorted(books.node_moves.items())
        if units
    ]
    if not moved:
        return
    result = await tx.execute(_MOVE_NODES, _NODE_MOVES.rows(moved))
    if result.rowcount != len(moved):
        raise LedgerMismatch(
            reason=f"{len(moved) - result.rowcount} of {len(moved)} node accounts would pass their limit"
        )
