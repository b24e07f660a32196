"""The arithmetic of the ledger: what a posting does to balances along a queue's path and on nodes. Pure.

The plain form: a queue's ``counted`` is its own use plus, for each child, max(counted(child),
guarantee(child)), and an increase is refused where it would lift ``counted`` above the queue's ceiling. A posting
therefore moves each ancestor by the change of that maximum below it, which is what ``Books`` computes, one gang after
the other.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from queues.admissions import Seat
from queues.quota.accounts import Account, charges
from queues.quota.queue import ROOT
from queues.quota.usage import LimitHit
from queues.reason_codes import ReasonCode
from queues.resources import show
from queues.workload import FlavorName, NodeName, QueueName


class QueueAccount(NamedTuple):
    """One account of one queue. The order of these tuples is the order in which rows are locked."""

    queue: QueueName
    flavor: FlavorName
    resource: str


class NodeAccount(NamedTuple):
    """One resource of one node. The order of these tuples is the order in which rows are locked."""

    node: NodeName
    resource: str


@dataclass(slots=True)
class QueueBalance:
    """Use and limits of one account. ``ceiling`` is None if only ancestors limit it."""

    own: int = 0
    used: int = 0
    counted: int = 0
    guarantee: int = 0
    ceiling: int | None = None


@dataclass(slots=True)
class NodeBalance:
    """Use and limit of one resource of a node."""

    used: int = 0
    limit: int = 0


class Move(NamedTuple):
    """By how much one account of a queue changes."""

    own: int = 0
    used: int = 0
    counted: int = 0

    def and_then(self, other: "Move") -> "Move":
        """Both changes as one."""
        return Move(self.own + other.own, self.used + other.used, self.counted + other.counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why the ledger refused a gang: the first limit that it would break."""

    code: ReasonCode
    message: str
    queue: QueueName | None = None
    node: NodeName | None = None
    flavor: FlavorName | None = None
    resource: str | None = None
    limit: int | None = None
    #: Counted before this gang.
    used: int | None = None
    asked: int | None = None


@dataclass(frozen=True, slots=True)
class Posting:
    """What seats move: amounts per account of their queue, and per node."""

    queue: QueueName
    accounts: Mapping[Account, int]
    nodes: Mapping[NodeAccount, int]

    @classmethod
    def of(cls, queue: QueueName, seats: Collection[Seat], sign: int = 1) -> "Posting":
        """What these seats take (sign 1), or give back (-1)."""
        kinds = Counter([(seat.node, seat.takes) for seat in seats])
        nodes: dict[NodeAccount, int] = {}
        for (node, takes), count in kinds.items():
            for resource, amount in takes.items():
                account = NodeAccount(node, resource)
                nodes[account] = nodes.get(account, 0) + amount * count * sign
        return cls(queue, {account: units * sign for account, units in charges(seats).items()}, nodes)


@dataclass(slots=True)
class Books:
    """Balances that a plan touches, loaded and locked, and how the plan moves them."""

    #: The queue that each queue counts in; None for root. An unknown queue counts in root.
    counts_in: Mapping[QueueName, QueueName | None]
    #: Queues that take nothing new, because of the tree.
    broken: frozenset[QueueName] = frozenset()
    queues: dict[QueueAccount, QueueBalance] = field(default_factory=dict)
    nodes: dict[NodeAccount, NodeBalance] = field(default_factory=dict)
    queue_moves: dict[QueueAccount, Move] = field(default_factory=dict)
    node_moves: dict[NodeAccount, int] = field(default_factory=dict)

    def path(self, queue: QueueName) -> Iterator[QueueName]:
        """The queue and its ancestors up to root."""
        here: QueueName | None = queue
        while here is not None:
            yield here
            here = None if here == ROOT else self.counts_in.get(here, ROOT)

    def post(self, posting: Posting) -> None:
        """Move balances, whatever the limits say: frees and adoptions."""
        self._apply(self._moves(posting), posting)

    def try_post(self, posting: Posting) -> Rejection | None:
        """Move balances if every limit allows it, else nothing at all."""
        if posting.queue not in self.counts_in:
            return Rejection(
                code=ReasonCode.UNKNOWN_QUEUE,
                message=f"queue {posting.queue} does not exist",
                queue=posting.queue,
            )
        if posting.queue in self.broken:
            return Rejection(
                code=ReasonCode.QUEUE_BROKEN,
                message=f"queue {posting.queue} has no path to {ROOT}",
                queue=posting.queue,
            )
        moves = self._moves(posting)
        rejection = self._above_a_limit(moves) or self._above_a_node(posting.nodes)
        if rejection is None:
            self._apply(moves, posting)
        return rejection

    def _moves(self, posting: Posting) -> dict[QueueAccount, Move]:
        moves: dict[QueueAccount, Move] = {}
        path = list(self.path(posting.queue))
        for (flavor, resource), units in posting.accounts.items():
            counted = units
            for queue in path:
                account = QueueAccount(queue, flavor, resource)
                balance = self.queues[account]
                moves[account] = Move(units if queue == posting.queue else 0, units, counted)
                before = max(balance.counted, balance.guarantee)
                counted = max(balance.counted + counted, balance.guarantee) - before
        return moves

    def _above_a_limit(self, moves: Mapping[QueueAccount, Move]) -> Rejection | None:
        for account, move in moves.items():
            balance = self.queues[account]
            grows = move.counted > 0 and balance.ceiling is not None
            if grows and balance.counted + move.counted > (balance.ceiling or 0):
                return _queue_limit(account, balance, move)
        return None

    def _above_a_node(self, asked: Mapping[NodeAccount, int]) -> Rejection | None:
        for account, units in asked.items():
            balance = self.nodes[account]
            if units > 0 and balance.used + units > balance.limit:
                return _node_full(account, balance, units)
        return None

    def _apply(self, moves: Mapping[QueueAccount, Move], posting: Posting) -> None:
        for account, move in moves.items():
            balance = self.queues[account]
            balance.own += move.own
            balance.used += move.used
            balance.counted += move.counted
            before = self.queue_moves.get(account)
            self.queue_moves[account] = move if before is None else before.and_then(move)
        for node, units in posting.nodes.items():
            self.nodes[node].used += units
            self.node_moves[node] = self.node_moves.get(node, 0) + units


def _queue_limit(account: QueueAccount, balance: QueueBalance, move: Move) -> Rejection:
    queue, flavor, resource = account
    ceiling = balance.ceiling or 0
    hit = LimitHit(
        queue=queue,
        account=Account(flavor, resource),
        limit=ceiling,
        used=balance.used,
        kept=balance.counted - balance.used + move.counted - move.used,
        asked=move.used,
    )
    return Rejection(
        code=ReasonCode.QUEUE_LIMIT,
        message=hit.message,
        queue=queue,
        flavor=flavor,
        resource=resource,
        limit=ceiling,
        used=balance.counted,
        asked=move.counted,
    )


def _node_full(account: NodeAccount, balance: NodeBalance, units: int) -> Rejection:
    node, resource = account
    return Rejection(
        code=ReasonCode.NODE_FULL,
        message=(
            f"node {node} has {show(resource, balance.limit)} {resource} for admissions, "
            f"{show(resource, balance.used)} of it taken; asked for {show(resource, units)} more"
        ),
        node=node,
        resource=resource,
        limit=balance.limit,
        used=balance.used,
        asked=units,
    )


def balance_all(
    counts_in: Mapping[QueueName, QueueName | None],
    own: Mapping[QueueAccount, int],
    guarantees: Mapping[QueueAccount, int],
) -> dict[QueueAccount, Move]:
    """All balances from scratch, as totals, zeros left out: for when the tree or a guarantee has changed.

    ``own`` may name queues that are unknown: they count in root.
    """
    accounts = {Account(a.flavor, a.resource) for a in (*own, *guarantees)}
    totals: dict[QueueAccount, Move] = {}
    for queue in _children_first({**counts_in, **{a.queue: counts_in.get(a.queue, ROOT) for a in own}}):
        parent = None if queue == ROOT else counts_in.get(queue, ROOT)
        for flavor, resource in accounts:
            account = QueueAccount(queue, flavor, resource)
            units = own.get(account, 0)
            total = totals.get(account, Move()).and_then(Move(units, units, units))
            totals[account] = total
            if parent is not None:
                above = QueueAccount(parent, flavor, resource)
                counted = max(total.counted, guarantees.get(account, 0))
                totals[above] = totals.get(above, Move()).and_then(Move(0, total.used, counted))
    return {account: total for account, total in totals.items() if total != Move()}


def _children_first(counts_in: Mapping[QueueName, QueueName | None]) -> Sequence[QueueName]:
    depths: dict[QueueName, int] = {ROOT: 0}

    def depth(queue: QueueName) -> int:
        if queue not in depths:
            depths[queue] = 1 + depth(counts_in.get(queue) or ROOT)
        return depths[queue]

    return sorted({*counts_in, ROOT}, key=depth, reverse=True)
