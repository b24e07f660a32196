"""Balances in and out: the rows that a plan touches are locked, moved by ``Books``, and written back.

Part of ``ledger``. Rows are locked in one fixed order (queue, flavor, resource; then node, resource), one
statement per kind for the whole plan. Limits, tree and balances cannot change until the transaction ends,
because their writers lock the fence row, which this transaction has locked.
"""

from collections import Counter
from collections.abc import Sequence, Set
from typing import Any

from sqlalchemy import Select, Update, and_, func, literal, or_, select, union_all, update
from sqlalchemy.dialects.postgresql import Insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.errors import LedgerMismatch
from queues.quota.accounts import Account
from queues.quota.posting import Books, NodeAccount, NodeBalance, Posting, QueueAccount, QueueBalance
from queues.quota.queue import ROOT
from queues.sql.statements import NUMBER, UnnestRows, insert_rows, same
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
    await _bound_root(tx, books, postings)
    books.nodes |= await _lock_nodes(tx, {node for posting in postings for node in posting.nodes})
    return books


async def _bound_root(tx: AsyncConnection, books: Books, postings: Sequence[Posting]) -> None:
    """Bound root by what the nodes offer. A node on which more is held than it offers now takes from no other node."""
    ceilings = await _root_ceilings(tx)
    growth: Counter[Account] = Counter()
    for posting in postings:
        growth.update(posting.accounts)
    balances = {
        Account(account.flavor, account.resource): balance
        for account, balance in books.queues.items()
        if account.queue == ROOT
    }
    # To look for such nodes takes as long as there are nodes, so it is done only if it may matter.
    if any(balance.counted + growth[of] > ceilings[of] for of, balance in balances.items()):
        ceilings += await _held_beyond_limits(tx)
    for of, balance in balances.items():
        balance.ceiling = ceilings[of] if balance.ceiling is None else min(ceilings[of], balance.ceiling)


async def store_books(tx: AsyncConnection, books: Books, *, checked: bool) -> None:
    """Write what moved. ``checked``: the statements hold every growing row against its limit once more.

    Raises LedgerMismatch when a row refuses: what was checked is not what is stored.
    """
    queue_moves = [
        (*account, *move, books.queues[account].ceiling if checked else None)
        for account, move in sorted(books.queue_moves.items())
        if move.used or move.counted
    ]
    await _move(tx, _MOVE_QUEUES, _QUEUE_MOVES, queue_moves, "queue")
    node_moves = [
        (*account, units, books.nodes[account].limit if checked else None)
        for account, units in sorted(books.node_moves.items())
        if units
    ]
    await _move(tx, _MOVE_NODES, _NODE_MOVES, node_moves, "node")


_QUEUE_NAMES = UnnestRows(queues.c.name)

_PATH = queues.c["name", "counts_in", "broken"]

_named_queues = (
    select(*_PATH).join(_QUEUE_NAMES.table, queues.c.name == _QUEUE_NAMES.c.name).cte("path", recursive=True)
)

_SELECT_PATHS = select(
    _named_queues.union(select(*_PATH).join(_named_queues, queues.c.name == _named_queues.c.counts_in))
)


async def _paths(tx: AsyncConnection, wanted: set[QueueName]) -> Books:
    rows = (await tx.execute(_SELECT_PATHS, _QUEUE_NAMES.rows([(name,) for name in sorted(wanted)]))).all()
    return Books(
        counts_in={name: counts_in for name, counts_in, _ in rows},
        broken=frozenset(name for name, _, broken in rows if broken),
    )


_QUEUE_ACCOUNT = ("queue", "flavor", "resource")

_QUEUE_ACCOUNTS = UnnestRows(*queue_balances.c[_QUEUE_ACCOUNT])

_ADD_QUEUES = insert_rows(queue_balances, _QUEUE_ACCOUNTS).on_conflict_do_nothing()
_LOCK_QUEUES = (
    select(
        *queue_balances.c[*_QUEUE_ACCOUNT, "own", "used", "counted"],
        func.coalesce(queue_limits.c.keeps, 0),
        queue_limits.c.ceiling,
    )
    .join(_QUEUE_ACCOUNTS.table, same(queue_balances, _QUEUE_ACCOUNTS, *_QUEUE_ACCOUNT))
    .outerjoin(queue_limits, same(queue_balances, queue_limits, *_QUEUE_ACCOUNT))
    .order_by(*queue_balances.c[_QUEUE_ACCOUNT])
    .with_for_update(of=queue_balances)
)


async def _lock_queues(tx: AsyncConnection, accounts: set[QueueAccount]) -> dict[QueueAccount, QueueBalance]:
    rows = await _lock(tx, _LOCK_QUEUES, _ADD_QUEUES, _QUEUE_ACCOUNTS, accounts)
    return {
        QueueAccount(queue, flavor, resource): QueueBalance(*balance)
        for queue, flavor, resource, *balance in rows
    }


async def _lock(
    tx: AsyncConnection,
    locking: Select[Any],
    adding: Insert,
    given: UnnestRows,
    accounts: Set[QueueAccount] | Set[NodeAccount],
) -> list[Any]:
    """Rows of these accounts; an account without a row gets one first."""
    found = list(await tx.execute(locking, given.rows(sorted(accounts))))
    if len(found) == len(accounts):
        return found
    missing = accounts - {tuple(row[: len(given.c)]) for row in found}
    await tx.execute(adding, given.rows(sorted(missing)))
    return found + list(await tx.execute(locking, given.rows(sorted(missing))))


_held = (
    select(nodes.c.flavor, node_balances.c.resource, node_balances.c.used, literal(True))
    .join(node_balances, node_balances.c.node == nodes.c.name)
    .where(~nodes.c.usable)
)

_SELECT_ROOT_CEILINGS = union_all(
    select(capacity.c.flavor, capacity.c.resource, capacity.c.amount, literal(False)), _held
)


async def _root_ceilings(tx: AsyncConnection) -> Counter[Account]:
    """Ceilings of root: what usable nodes offer, and what is still held on unusable nodes."""
    ceilings: Counter[Account] = Counter()
    for flavor, resource, amount, is_held in await tx.execute(_SELECT_ROOT_CEILINGS):
        # Capacity is stored over all flavors as well; what is held is not.
        for each in {NO_FLAVOR, flavor} if is_held else {flavor}:
            ceilings[Account(FlavorName(each), resource)] += amount
    return ceilings


_offered = func.greatest(func.coalesce(node_limits.c.amount, 0), 0)

_SELECT_BEYOND = (
    select(nodes.c.flavor, node_balances.c.resource, func.sum(node_balances.c.used - _offered))
    .join(nodes, and_(nodes.c.name == node_balances.c.node, nodes.c.usable))
    .outerjoin(node_limits, same(node_limits, node_balances, "node", "resource"))
    .where(node_balances.c.used > _offered)
    .group_by(nodes.c.flavor, node_balances.c.resource)
)


async def _held_beyond_limits(tx: AsyncConnection) -> Counter[Account]:
    """What is held on usable nodes beyond what they offer: other pods have come there since, or a node has shrunk."""
    beyond: Counter[Account] = Counter()
    for flavor, resource, units in await tx.execute(_SELECT_BEYOND):
        for each in {NO_FLAVOR, flavor}:
            beyond[Account(FlavorName(each), resource)] += int(units)
    return beyond


_NODE_ACCOUNTS = UnnestRows(*node_balances.c["node", "resource"])

_ADD_NODES = insert_rows(node_balances, _NODE_ACCOUNTS).on_conflict_do_nothing()
_LOCK_NODES = (
    select(*node_balances.c["node", "resource", "used"], func.coalesce(node_limits.c.amount, 0))
    .join(_NODE_ACCOUNTS.table, same(node_balances, _NODE_ACCOUNTS, "node", "resource"))
    .outerjoin(nodes, and_(nodes.c.name == node_balances.c.node, nodes.c.usable))
    .outerjoin(
        node_limits,
        and_(node_limits.c.node == nodes.c.name, node_limits.c.resource == node_balances.c.resource),
    )
    .order_by(*node_balances.c["node", "resource"])
    .with_for_update(of=node_balances)
)


async def _lock_nodes(tx: AsyncConnection, accounts: set[NodeAccount]) -> dict[NodeAccount, NodeBalance]:
    rows = await _lock(tx, _LOCK_NODES, _ADD_NODES, _NODE_ACCOUNTS, accounts)
    return {NodeAccount(node, resource): NodeBalance(used, limit) for node, resource, used, limit in rows}


_QUEUE_MOVES = UnnestRows(*queue_balances.c[*_QUEUE_ACCOUNT, "own", "used", "counted"], ceiling=NUMBER)

_MOVE_QUEUES = (
    update(queue_balances)
    .where(
        same(queue_balances, _QUEUE_MOVES, *_QUEUE_ACCOUNT),
        or_(
            _QUEUE_MOVES.c.counted <= 0,
            _QUEUE_MOVES.c.ceiling.is_(None),
            queue_balances.c.counted + _QUEUE_MOVES.c.counted <= _QUEUE_MOVES.c.ceiling,
        ),
    )
    .values({name: queue_balances.c[name] + _QUEUE_MOVES.c[name] for name in ("own", "used", "counted")})
)


_NODE_MOVES = UnnestRows(*node_balances.c["node", "resource"], units=NUMBER, room=NUMBER)

_MOVE_NODES = (
    update(node_balances)
    .where(
        same(node_balances, _NODE_MOVES, "node", "resource"),
        or_(
            _NODE_MOVES.c.units <= 0,
            _NODE_MOVES.c.room.is_(None),
            node_balances.c.used + _NODE_MOVES.c.units <= _NODE_MOVES.c.room,
        ),
    )
    .values(used=node_balances.c.used + _NODE_MOVES.c.units)
)


async def _move(
    tx: AsyncConnection, statement: Update, given: UnnestRows, moved: Sequence[tuple[Any, ...]], kind: str
) -> None:
    if not moved:
        return
    result = await tx.execute(statement, given.rows(moved))
    if refused := len(moved) - result.rowcount:
        raise LedgerMismatch(reason=f"{refused} of {len(moved)} {kind} accounts would pass their limit")
