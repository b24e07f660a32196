"""Balances in and out: the rows that a plan touches are locked, moved by ``Books``, and written back.

Part of ``ledger``. Rows are locked in one fixed order (queue, flavor, resource; then node, resource), one
statement per kind for the whole plan. Limits, tree and balances cannot change until the transaction ends,
because whoever writes them holds the lease row, and the fence has taken it for this transaction alone.
"""

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import and_, func, literal, or_, select, union_all, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import aliased

from queues.errors import LedgerMismatch
from queues.quota import ROOT, Account
from queues.sql.books import Books, NodeAccount, NodeBalance, Posting, QueueAccount, QueueBalance
from queues.sql.given import NUMBER, TEXT, given, names
from queues.sql.tables import (
    capacity,
    node_balances,
    node_limits,
    nodes,
    queue_balances,
    queue_limits,
    queues,
)
from queues.workload import NO_FLAVOR, FlavorName, NodeName, QueueName


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


async def _paths(tx: AsyncConnection, wanted: set[QueueName]) -> Books:
    here = (
        select(queues.c.name, queues.c.counts_in, queues.c.broken)
        .where(queues.c.name == func.any(names(sorted(wanted))))
        .cte("path", recursive=True)
    )
    above = aliased(here)
    path = here.union(
        select(queues.c.name, queues.c.counts_in, queues.c.broken).join(
            above, queues.c.name == above.c.counts_in
        )
    )
    rows = (await tx.execute(select(path.c.name, path.c.counts_in, path.c.broken))).all()
    return Books(
        counts_in={row.name: row.counts_in for row in rows},
        broken=frozenset(row.name for row in rows if row.broken),
    )


async def _lock_queues(tx: AsyncConnection, accounts: set[QueueAccount]) -> dict[QueueAccount, QueueBalance]:
    found = await _lock_queue_rows(tx, accounts)
    if missing := accounts - found.keys():
        rows = given(sorted(missing), queue=TEXT, flavor=TEXT, resource=TEXT)
        await tx.execute(
            insert(queue_balances).from_select(rows.c.keys(), select(*rows.c)).on_conflict_do_nothing()
        )
        found |= await _lock_queue_rows(tx, missing)
    return found


async def _lock_queue_rows(
    tx: AsyncConnection, accounts: set[QueueAccount]
) -> dict[QueueAccount, QueueBalance]:
    asked = given(sorted(accounts), queue=TEXT, flavor=TEXT, resource=TEXT)
    balance, limit = queue_balances.c, queue_limits.c
    result = await tx.execute(
        select(
            balance.queue,
            balance.flavor,
            balance.resource,
            balance.own,
            balance.used,
            balance.counted,
            limit.keeps,
            limit.ceiling,
        )
        .join(
            asked,
            and_(
                balance.queue == asked.c.queue,
                balance.flavor == asked.c.flavor,
                balance.resource == asked.c.resource,
            ),
        )
        .outerjoin(
            queue_limits,
            and_(
                balance.queue == limit.queue,
                balance.flavor == limit.flavor,
                balance.resource == limit.resource,
            ),
        )
        .order_by(balance.queue, balance.flavor, balance.resource)
        .with_for_update(of=queue_balances)
    )
    return {
        QueueAccount(queue, flavor, resource): QueueBalance(
            own=own,
            used=used,
            counted=counted,
            guarantee=keeps or 0,
            ceiling=ceiling,
        )
        for queue, flavor, resource, own, used, counted, keeps, ceiling in result
    }


async def _root_ceilings(tx: AsyncConnection) -> dict[Account, int]:
    """What usable nodes offer, and what is still held on the others."""
    offered = select(capacity.c.flavor, capacity.c.resource, capacity.c.amount, literal(False))
    held = (
        select(nodes.c.flavor, node_balances.c.resource, node_balances.c.used, literal(True))
        .join(node_balances, node_balances.c.node == nodes.c.name)
        .where(~nodes.c.usable)
    )
    ceilings: Counter[Account] = Counter()
    for flavor, resource, amount, is_held in await tx.execute(union_all(offered, held)):
        # Capacity is stored over all flavors as well; what is held is not.
        for each in {NO_FLAVOR, flavor} if is_held else {flavor}:
            ceilings[Account(FlavorName(each), resource)] += amount
    return ceilings


async def _lock_nodes(tx: AsyncConnection, accounts: set[NodeAccount]) -> dict[NodeAccount, NodeBalance]:
    found = await _lock_node_rows(tx, accounts)
    if missing := accounts - found.keys():
        rows = given(sorted(missing), node=TEXT, resource=TEXT)
        await tx.execute(
            insert(node_balances).from_select(rows.c.keys(), select(*rows.c)).on_conflict_do_nothing()
        )
        found |= await _lock_node_rows(tx, missing)
    return found


async def _lock_node_rows(tx: AsyncConnection, accounts: set[NodeAccount]) -> dict[NodeAccount, NodeBalance]:
    asked = given(sorted(accounts), node=TEXT, resource=TEXT)
    balance, limit = node_balances.c, node_limits.c
    result = await tx.execute(
        select(balance.node, balance.resource, balance.used, limit.amount)
        .join(asked, and_(balance.node == asked.c.node, balance.resource == asked.c.resource))
        .outerjoin(nodes, and_(nodes.c.name == balance.node, nodes.c.usable))
        .outerjoin(node_limits, and_(limit.node == nodes.c.name, limit.resource == balance.resource))
        .order_by(balance.node, balance.resource)
        .with_for_update(of=node_balances)
    )
    return {
        NodeAccount(NodeName(node), resource): NodeBalance(used=used, limit=amount or 0)
        for node, resource, used, amount in result
    }


async def _move_queues(tx: AsyncConnection, books: Books, *, checked: bool) -> None:
    moved = [
        (*account, move.own, move.used, move.counted, books.queues[account].ceiling if checked else None)
        for account, move in sorted(books.queue_moves.items())
        if move.used or move.counted
    ]
    if not moved:
        return
    by = given(
        moved,
        queue=TEXT,
        flavor=TEXT,
        resource=TEXT,
        own=NUMBER,
        used=NUMBER,
        counted=NUMBER,
        ceiling=NUMBER,
    )
    balance = queue_balances.c
    result = await tx.execute(
        update(queue_balances)
        .where(
            balance.queue == by.c.queue,
            balance.flavor == by.c.flavor,
            balance.resource == by.c.resource,
            or_(
                by.c.counted <= 0,
                by.c.ceiling.is_(None),
                balance.counted + by.c.counted <= by.c.ceiling,
            ),
        )
        .values(
            own=balance.own + by.c.own,
            used=balance.used + by.c.used,
            counted=balance.counted + by.c.counted,
        )
    )
    if result.rowcount != len(moved):
        raise LedgerMismatch(
            reason=f"{len(moved) - result.rowcount} of {len(moved)} queue accounts would pass their limit"
        )


async def _move_nodes(tx: AsyncConnection, books: Books, *, checked: bool) -> None:
    moved = [
        (*account, units, books.nodes[account].limit if checked else None)
        for account, units in sorted(books.node_moves.items())
        if units
    ]
    if not moved:
        return
    by = given(moved, node=TEXT, resource=TEXT, units=NUMBER, room=NUMBER)
    balance = node_balances.c
    result = await tx.execute(
        update(node_balances)
        .where(
            balance.node == by.c.node,
            balance.resource == by.c.resource,
            or_(by.c.units <= 0, by.c.room.is_(None), balance.used + by.c.units <= by.c.room),
        )
        .values(used=balance.used + by.c.units)
    )
    if result.rowcount != len(moved):
        raise LedgerMismatch(
            reason=f"{len(moved) - result.rowcount} of {len(moved)} node accounts would pass their limit"
        )
