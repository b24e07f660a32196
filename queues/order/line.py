"""The line: which class of workloads is tried next. Heads of queues, down the tree, keyed again after every answer.

The plain form: at every inner queue take the child that comes first by (below its guarantee, below its
deserved, smaller share, queue priority, priority with age of its head, arrival, name), down to a queue, and
there the first by its own order (``queues.plugins``); try it; update the books; start again. ``Line`` does
the same with heaps: an answer changes the books of one path only, and that path's queues are all on top of
their heaps. Workloads of one shape in one queue form a class (``ClassQueue``), and a class that was refused is not
tried again in the same turn: no capacity is freed during a turn. A refusal may hold for all classes of a kind, in
all queues: such classes leave the line when they come to its head, and only then their queue is keyed by its next
class.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import pairwise
from typing import NamedTuple

from queues.order.policies import LineEntry, Rank, counts_use
from queues.order.shares import Share, UserShares, below_deserved, below_guarantee, share
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.workload import QueueName


@dataclass(slots=True, eq=False)
class ClassQueue:
    """A workload class in the line: entries of one shape in one queue, in order (of one user where users count)."""

    queue: QueueName
    #: A refusal for lack of nodes holds for all classes of the same kind.
    kind: Hashable
    #: The user, where the order depends on users (``by_user``); else "".
    user: str = ""
    ranks: list[Rank] = field(default_factory=list)
    candidates: list[LineEntry] = field(default_factory=list)
    #: Number of entries, from the first, that were admitted in this turn.
    taken: int = 0

    def add(self, place: Rank, candidate: LineEntry) -> None:
        """Add an entry at its rank."""
        index = bisect_left(self.ranks, place)
        self.ranks.insert(index, place)
        self.candidates.insert(index, candidate)

    def remove(self, place: Rank) -> None:
        """Remove the entry of that rank."""
        index = bisect_left(self.ranks, place)
        del self.ranks[index], self.candidates[index]

    def head(self) -> LineEntry:
        """The first entry that was not admitted in this turn."""
        return self.candidates[self.taken]

    def first(self) -> Rank:
        """The rank of the head."""
        return self.ranks[self.taken]

    def rest(self) -> Sequence[LineEntry]:
        """Entries that were not admitted in this turn."""
        return self.candidates[self.taken :]


class QueueStanding(NamedTuple):
    """What the books say about the place of a queue among its siblings; smaller is earlier."""

    guarantee_met: bool
    deserved_met: bool
    share: Share
    queue_priority: int


class _Key(NamedTuple):
    """The place of a queue among its siblings; smaller is earlier."""

    standing: QueueStanding
    urgency: int
    arrival: int
    name: str


class _UserKey(NamedTuple):
    """The place of a user in a queue; smaller is earlier. Under ``round-robin`` the share comes first."""

    joins: bool
    urgency: int
    share: Share
    precedence: int
    arrival: int
    user: str


_Lane = QueueName | tuple[QueueName, str]


@dataclass(slots=True)
class _Node:
    """A queue of the tree, or one user's part of it, with its classes, or with its children that have classes."""

    name: _Lane
    classes: list[tuple[Rank, ClassQueue]] = field(default_factory=list)
    children: list[tuple[_Key | _UserKey, "_Node"]] = field(default_factory=list)

    def leaf(self) -> "_Node":
        """The node of the first class in or below this queue."""
        node = self
        while node.children:
            node = node.children[0][1]
        return node

    def first(self) -> ClassQueue:
        """The first class in or below this queue."""
        return self.leaf().classes[0][1]


class QueueKeys:
    """A cache of the places of queues among their siblings. A change of books must forget the queues on its path."""

    def __init__(self) -> None:
        #: The key of a queue, and the head that it was computed for.
        self.of_heads: dict[QueueName, tuple[LineEntry, _Key]] = {}
        self._standings: dict[QueueName, dict[tuple[Account, ...], QueueStanding]] = {}

    def standing(self, usage: Usage, queue: QueueName, asked: tuple[Account, ...]) -> QueueStanding:
        """What the books say about a queue and a workload that asks for these accounts."""
        known = self._standings.setdefault(queue, {})
        found = known.get(asked)
        if found is None:
            found = known[asked] = QueueStanding(
                not below_guarantee(usage, queue, asked),
                not below_deserved(usage, queue, asked),
                share(usage, queue),
                -usage.tree.queues[queue].priority,
            )
        return found

    def forget(self, queues: Iterable[QueueName]) -> None:
        """Drop the keys of queues with changed books."""
        for queue in queues:
            self.of_heads.pop(queue, None)
            self._standings.pop(queue, None)


class Line:
    """All classes of a turn, in the order in which their heads are tried.

    ``usage`` and ``users`` are the books, which change as the turn goes on.
    """

    def __init__(
        self,
        usage: Usage,
        classes: Iterable[ClassQueue],
        now: int,
        *,
        users: UserShares | None = None,
        keys: QueueKeys | None = None,
        struck: Iterable[Hashable] = (),
    ) -> None:
        """``keys``: the cache of earlier lines; ``struck``: kinds and classes that are refused already."""
        self._usage = usage
        self._now = now
        self._users = users or UserShares()
        self._keys = keys or QueueKeys()
        self._struck: set[Hashable] = set(struck)
        self._nodes: dict[_Lane, _Node] = {ROOT: _Node(ROOT)}
        #: Number of classes in the line, by kind.
        self._live: Counter[Hashable] = Counter()
        self._total = 0
        self._fill(classes)

    def head(self) -> ClassQueue | None:
        """The class to try next; None if all were tried."""
        while self._total:
            alike = self._nodes[ROOT].first()
            if alike.kind not in self._struck and alike not in self._struck:
                return alike
            self.refused()
        return None

    def admitted(self) -> None:
        """The head was admitted, and the books contain it."""
        leaf = self._nodes[ROOT].leaf()
        alike = leaf.classes[0][1]
        alike.taken += 1
        if alike.taken < len(alike.candidates):
            heapreplace(leaf.classes, (alike.first(), alike))
        else:
            heappop(leaf.classes)
            self._gone(alike)
        self._keys.forget(self._usage.tree.paths[alike.queue])
        self._rekey(leaf.name)

    def refused(self) -> None:
        """The head was refused: its class leaves the line, and in a strict order its whole queue."""
        leaf = self._nodes[ROOT].leaf()
        self._gone(heappop(leaf.classes)[1])
        queue = leaf.name if isinstance(leaf.name, str) else leaf.name[0]
        if self._usage.tree.order(queue).strict:
            for _, alike in leaf.classes:
                self._gone(alike)
            leaf.classes.clear()
        self._rekey(leaf.name)

    def refuse_kind(self, kind: Hashable) -> None:
        """The head was refused for a reason that holds for all classes of its kind, in all queues."""
        self._total -= self._live.pop(kind, 0)
        self._struck.add(kind)
        if self._total:
            self.refused()

    def _gone(self, alike: ClassQueue) -> None:
        if alike not in self._struck and alike.kind not in self._struck:
            self._live[alike.kind] -= 1
            self._total -= 1

    def _lane(self, alike: ClassQueue) -> _Lane:
        # Workloads without a user come last under round-robin; elsewhere they count as one more user.
        if alike.user or (self._usage.past is not None and counts_use(self._usage.tree, alike.queue)):
            return alike.queue, alike.user
        return alike.queue

    def _path(self, lane: _Lane) -> tuple[_Lane, ...]:
        if isinstance(lane, tuple):
            return (lane, *self._usage.tree.paths[lane[0]])
        return self._usage.tree.paths[lane]

    def _fill(self, classes: Iterable[ClassQueue]) -> None:
        for alike in classes:
            lane = self._lane(alike)
            node = self._nodes.get(lane)
            if node is None:
                node = self._nodes[lane] = _Node(lane)
            node.classes.append((alike.first(), alike))
            if alike not in self._struck:
                self._live[alike.kind] += 1
                self._total += 1
        for lane in list(self._nodes):
            heapify(self._nodes[lane].classes)
            for name in self._path(lane):
                if name not in self._nodes:
                    self._nodes[name] = _Node(name)
        for lane in sorted(self._nodes, key=lambda name: -len(self._path(name))):  # children before parents
            node = self._nodes[lane]
            if not (node.classes or node.children):
                continue
            # All children are in place now, and the key depends on the first of them.
            heapify(node.children)
            if lane != ROOT:
                parent = self._nodes[self._path(lane)[1]]
                parent.children.append((self._key(node), node))

    def _key(self, node: _Node) -> _Key | _UserKey:
        first, lane = node.first(), node.name
        if isinstance(lane, tuple):
            return among_users(self._usage.tree, self._users, first)
        head = first.head()
        known = self._keys.of_heads.get(lane)
        if known is not None and known[0] is head:
            return known[1]
        key = self._key_of(lane, first)
        if not self._usage.tree.ageing_per_hour(head.workload.queue):
            self._keys.of_heads[lane] = head, key
        return key

    def _key_of(self, queue: QueueName, first: ClassQueue) -> _Key:
        tree, head, place = self._usage.tree, first.head(), first.first()
        urgency = tree.order(head.workload.queue).among_queues(place.urgency, self._now)
        standing = self._keys.standing(self._usage, queue, head.accounts)
        return _Key(standing, urgency, place.arrival, queue)

    def _rekey(self, lane: _Lane) -> None:
        """Move the queues of one path to their new places, bottom up. Each is on top of its parent's heap."""
        for name, parent in pairwise(self._path(lane)):
            node, siblings = self._nodes[name], self._nodes[parent].children
            if node.classes or node.children:
                heapreplace(siblings, (self._key(node), node))
            else:
                heappop(siblings)


def among_users(tree: QueueTree, users: UserShares, alike: ClassQueue) -> _UserKey:
    """The place of a class among the classes of other users of its queue."""
    queue, user = alike.queue, alike.user
    first = alike.first()
    share = users.share(tree, queue, user)
    if counts_use(tree, queue):
        return _UserKey(first.joins, first.urgency, share, first.precedence, first.arrival, user)
    return _UserKey(False, 0, share, int(first.joins), first.arrival, user)
