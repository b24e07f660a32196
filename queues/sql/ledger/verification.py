"""Balances worked out again from admissions, compared with the stored ones, and put right.

Balances are kept by sums of changes, so an error in one (a row changed by hand, a restored part of a backup) stays for
ever. The plain form is here: everything held by admissions, along the tree as it is stored.
``repair`` locks the fence, so no other writer is between reading and writing, and advances the ledger's sequence
number: the leader's next transaction is refused, and it reads the world again.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.errors import InvalidDocument
from queues.quota.accounts import Account, charges
from queues.quota.posting import Move, NodeAccount, Posting, QueueAccount, balance_all
from queues.sql.leadership import CONTROLLER
from queues.sql.seat_columns import SEAT_NAMES, from_columns
from queues.sql.statements import UnnestRows, upsert_rows
from queues.sql.tables import (
    admissions,
    capacity,
    fences,
    node_balances,
    node_limits,
    nodes,
    queue_balances,
    queue_limits,
    queues,
)
from queues.workload import NO_FLAVOR, FlavorName, QueueName

#: Admissions read at a time: a seat is some hundred bytes in memory.
_CHUNK: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One balance that is not what the admissions say. Amounts in units of ``queues.resources``."""

    #: ``queue team-a``, ``node n1``, ``capacity of root``.
    of: str
    account: Account
    #: own | used | counted | amount.
    column: str
    stored: int
    expected: int

    def __str__(self) -> str:
        show = self.account.show
        return (
            f"{self.of}: {self.column} {self.account} is {show(self.stored)}, expected {show(self.expected)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Balances:
    """All balances of a ledger; absent: zero."""

    queues: Mapping[QueueAccount, Move]
    nodes: Mapping[NodeAccount, int]
    #: What usable nodes offer, by flavor and over all flavors: the limit of root.
    capacity: Mapping[Account, int]

    def differences(self, expected: "Balances") -> tuple[Difference, ...]:
        """Every amount that is not the expected one, by name."""
        stored, right = self._amounts(), expected._amounts()
        return tuple(
            Difference(of=of, account=account, column=column, stored=found, expected=wanted)
            for of, account, column in sorted({*stored, *right})
            for found, wanted in [(stored[of, account, column], right[of, account, column])]
            if found != wanted
        )

    def _amounts(self) -> Counter[tuple[str, Account, str]]:
        """By what each amount is of, its account and column."""
        amounts = Counter[tuple[str, Account, str]]()
        for of_queue, move in self.queues.items():
            account = Account(of_queue.flavor, of_queue.resource)
            for column, units in zip(Move._fields, move, strict=True):
                amounts[f"queue {of_queue.queue}", account, column] = units
        for of_node, units in self.nodes.items():
            amounts[f"node {of_node.node}", Account(NO_FLAVOR, of_node.resource), "used"] = units
        for account, units in self.capacity.items():
            amounts["capacity of root", account, "amount"] = units
        return amounts


async def verify(tx: AsyncConnection) -> tuple[Difference, ...]:
    """Balances that are not what the admissions say; (): all are.

    ``tx`` must see one state (``Database.snapshot``). It locks nothing, so it may run while Muster does.
    """
    return (await _stored(tx)).differences(await _expected(tx))


async def repair(tx: AsyncConnection) -> tuple[Difference, ...]:
    """Put every balance right, and return what was wrong.

    Raises InvalidDocument when no leader has ever written here: there is nothing to repair.
    """
    locked = await tx.scalar(select(fences.c.term).where(fences.c.name == CONTROLLER).with_for_update())
    if locked is None:
        raise InvalidDocument(
            where="ledger", found="a database in which no leader has ever written", expected="a ledger"
        )
    expected = await _expected(tx)
    wrong = (await _stored(tx)).differences(expected)
    if wrong:
        await _store(tx, expected)
        await tx.execute(
            update(fences).where(fences.c.name == CONTROLLER).values(ledger_seq=fences.c.ledger_seq + 1)
        )
    return wrong


async def _stored(tx: AsyncConnection) -> Balances:
    of_queues = await tx.execute(
        select(*queue_balances.c["queue", "flavor", "resource", "own", "used", "counted"])
    )
    of_nodes = await tx.execute(select(*node_balances.c["node", "resource", "used"]))
    offered = await tx.execute(select(*capacity.c["flavor", "resource", "amount"]))
    return Balances(
        queues={QueueAccount(*row[:3]): Move(*row[3:]) for row in of_queues},
        nodes={NodeAccount(node, resource): used for node, resource, used in of_nodes},
        capacity={Account(flavor, resource): amount for flavor, resource, amount in offered},
    )


async def _expected(tx: AsyncConnection) -> Balances:
    own, used = await _held(tx)
    places = await tx.execute(select(*queues.c["name", "counts_in"]))
    keeps = await tx.execute(
        select(*queue_limits.c["queue", "flavor", "resource", "keeps"]).where(queue_limits.c.keeps > 0)
    )
    return Balances(
        queues=balance_all(
            {QueueName(name): counts_in for name, counts_in in places},
            own,
            {QueueAccount(queue, flavor, resource): units for queue, flavor, resource, units in keeps},
        ),
        nodes=used,
        capacity=await _offered(tx),
    )


async def _held(tx: AsyncConnection) -> tuple[dict[QueueAccount, int], dict[NodeAccount, int]]:
    """What admissions hold, of their queues and on their nodes."""
    own, used, last = Counter[QueueAccount](), Counter[NodeAccount](), 0
    while True:
        rows = (
            await tx.execute(
                select(*admissions.c["id", "queue", "ended", *SEAT_NAMES])
                .where(admissions.c.id > last)
                .order_by(admissions.c.id)
                .limit(_CHUNK)
            )
        ).all()
        for id_, queue, ended, *columns in rows:
            gone, last = frozenset(ended), id_
            seats = [seat for index, seat in enumerate(from_columns(*columns)) if index not in gone]
            for account, units in charges(seats).items():
                own[QueueAccount(queue, *account)] += units
            used.update(Posting.of(queue, seats).nodes)
        if len(rows) < _CHUNK:
            return dict(own), dict(used)


async def _offered(tx: AsyncConnection) -> dict[Account, int]:
    rows = await tx.execute(
        select(nodes.c.flavor, node_limits.c.resource, func.sum(func.greatest(node_limits.c.amount, 0)))
        .join(node_limits, node_limits.c.node == nodes.c.name)
        .where(nodes.c.usable)
        .group_by(nodes.c.flavor, node_limits.c.resource)
    )
    offered = Counter[Account]()
    for own_flavor, resource, units in rows:
        for flavor in {NO_FLAVOR, FlavorName(own_flavor)}:
            offered[Account(flavor, resource)] += int(units)
    return dict(offered)


_QUEUE_ROWS = UnnestRows(*queue_balances.c["queue", "flavor", "resource", "own", "used", "counted"])
_NODE_ROWS = UnnestRows(*node_balances.c["node", "resource", "used"])
_CAPACITY_ROWS = UnnestRows(*capacity.c["flavor", "resource", "amount"])

_STORE_QUEUES = upsert_rows(queue_balances, _QUEUE_ROWS)
_STORE_NODES = upsert_rows(node_balances, _NODE_ROWS)
_STORE_CAPACITY = upsert_rows(capacity, _CAPACITY_ROWS)


async def _store(tx: AsyncConnection, right: Balances) -> None:
    """Replace all balances. Emptied first: an absent row means zero, whatever was there."""
    for table in (queue_balances, node_balances, capacity):
        await tx.execute(delete(table))
    if right.queues:
        await tx.execute(_STORE_QUEUES, _QUEUE_ROWS.rows([(*each, *m) for each, m in right.queues.items()]))
    if right.nodes:
        await tx.execute(_STORE_NODES, _NODE_ROWS.rows([(*each, used) for each, used in right.nodes.items()]))
    if right.capacity:
        await tx.execute(
            _STORE_CAPACITY, _CAPACITY_ROWS.rows([(*each, units) for each, units in right.capacity.items()])
        )
