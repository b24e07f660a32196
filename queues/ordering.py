"""Who is considered next: the heads of queues, down the tree, keyed again after every answer.

The plain form: at every inner queue take the child that comes first by (below its guarantee, below its
deserved, smaller share, queue priority, priority with age of its head, arrival, name), down to a queue, and
there the first by the queue's own order; ask; update the books; start again. ``Line`` does the same with
heaps: an answer changes the books of one path only, and that path's queues are all on top of their heaps.
Workloads of one shape in one queue form a class, and a class that was refused is not asked again in the
same turn: nothing is given back during it.

Orders inside a queue: ``fifo`` and ``strict-fifo`` by arrival (strict: a refused head holds up all behind
it), ``priority`` by priority with age, then small before large (``queues.precedence``), then arrival.
``shortest`` and ``round-robin`` are taken as ``fifo`` for now.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import pairwise
from typing import NamedTuple

from queues.fairshare import Share, below_deserved, below_guarantee, share
from queues.precedence import precedence
from queues.quota import ROOT, Account
from queues.usage import Usage
from queues.workload import QueueName, Workload

_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """A workload that may be tried in this turn."""

    workload: Workload
    #: Candidates of one queue with equal shapes get the same answer as long as nothing is given back.
    shape: Hashable
    #: Has its gang already and asks for further members: comes after those who wait for theirs.
    joins: bool
    #: Accounts it asks for, over all flavors.
    accounts: tuple[Account, ...]


class _Rank(NamedTuple):
    """Place inside a queue; the smaller the earlier."""

    joins: bool
    #: − (priority × 3600 + ageing × seconds waited) under ``priority``, else 0.
    urgency: int
    #: Small before large (``queues.precedence``) under ``priority``, else 0.
    precedence: int
    arrival: int
    name: str


class _Key(NamedTuple):
    """Place among sibling queues; the smaller the earlier."""

    guarantee_met: bool
    deserved_met: bool
    share: Share
    queue_priority: int
    urgency: int
    arrival: int
    name: QueueName


@dataclass(slots=True)
class _Class:
    """Candidates of one shape in one queue, the first at the left."""

    members: deque[tuple[_Rank, Candidate]]


@dataclass(slots=True)
class _Node:
    """A queue of the tree: its classes if it is a leaf, its children with candidates if not."""

    name: QueueName
    classes: list[tuple[_Rank, int, _Class]] = field(default_factory=list)
    children: list[tuple[_Key, "_Node"]] = field(default_factory=list)

    def head(self) -> Candidate | None:
        """The first candidate in or below this queue."""
        node = self
        while node.children:
            node = node.children[0][1]
        return node.classes[0][2].members[0][1] if node.classes else None


class Refused(NamedTuple):
    """Who need not be asked any more after a refusal."""

    #: The candidate and all of its shape in its queue, in order.
    alike: tuple[Candidate, ...]
    #: Everybody else in its queue, if the order is strict.
    behind: tuple[Candidate, ...]


class Line:
    """All candidates of a turn, in the order in which they are tried.

    ``usage`` is the books as the turn goes on.
    """

    def __init__(self, usage: Usage, candidates: Iterable[Candidate], now: int) -> None:
        self._usage = usage
        self._now = now
        self._urgencies: dict[QueueName, tuple[bool, int]] = {}
        self._nodes: dict[QueueName, _Node] = {ROOT: _Node(ROOT)}
        self._fill(candidates)

    def head(self) -> Candidate | None:
        """Who is to be tried now; None: everybody was."""
        return self._nodes[ROOT].head()

    def admitted(self) -> None:
        """The head got what it asked, and the books say so."""
        queue = self._leaf()
        _, number, alike = queue.classes[0]
        alike.members.popleft()
        if alike.members:
            heapreplace(queue.classes, (alike.members[0][0], number, alike))
        else:
            heappop(queue.classes)
        self._rekey(queue.name)

    def refused(self) -> Refused:
        """The head got nothing: neither will its like."""
        queue = self._leaf()
        _, _, alike = heappop(queue.classes)
        behind: tuple[Candidate, ...] = ()
        if self._usage.tree.order(queue.name) == "strict-fifo":
            rest = sorted(member for _, _, each in queue.classes for member in each.members)
            behind = tuple(candidate for _, candidate in rest)
            queue.classes.clear()
        self._rekey(queue.name)
        return Refused(tuple(candidate for _, candidate in alike.members), behind)

    def _leaf(self) -> _Node:
        node = self._nodes[ROOT]
        while node.children:
            node = node.children[0][1]
        return node

    def _fill(self, candidates: Iterable[Candidate]) -> None:
        classes: dict[tuple[QueueName, Hashable], list[tuple[_Rank, Candidate]]] = {}
        for candidate in candidates:
            queue = candidate.workload.queue
            classes.setdefault((queue, candidate.shape), []).append((self._rank(candidate), candidate))
        for number, ((queue, _), members) in enumerate(classes.items()):
            members.sort(key=lambda member: member[0])
            node = self._nodes.setdefault(queue, _Node(queue))
            node.classes.append((members[0][0], number, _Class(deque(members))))
        paths = self._usage.tree.paths
        for queue in list(self._nodes):
            heapify(self._nodes[queue].classes)
            for name in paths[queue]:
                self._nodes.setdefault(name, _Node(name))
        for queue in sorted(self._nodes, key=lambda name: -len(paths[name])):  # children before parents
            # All of its children are there now, and its key depends on which of them is first.
            heapify(self._nodes[queue].children)
            if queue != ROOT:
                parent = self._nodes[paths[queue][1]]
                parent.children.append((self._key(self._nodes[queue]), self._nodes[queue]))

    def _rank(self, candidate: Candidate) -> _Rank:
        workload = candidate.workload
        urgency, small_first = self._urgency(workload)
        before = precedence(workload) if small_first else 0
        return _Rank(candidate.joins, urgency, before, workload.arrival, str(workload.key))

    def _urgency(self, workload: Workload) -> tuple[int, bool]:
        """By priority with age, and whether its queue has that order."""
        policy = self._urgencies.get(workload.queue)
        if policy is None:
            tree = self._usage.tree
            by_priority = tree.order(workload.queue) == "priority"
            policy = self._urgencies[workload.queue] = (by_priority, tree.ageing_per_hour(workload.queue))
        by_priority, ageing = policy
        if not by_priority:
            return 0, False
        return -(workload.priority * _HOUR + ageing * (self._now - workload.created if ageing else 0)), True

    def _key(self, node: _Node) -> _Key:
        head = node.head()
        assert head is not None
        queue = node.name
        rank = self._rank(head)
        return _Key(
            guarantee_met=not below_guarantee(self._usage, queue, head.accounts),
            deserved_met=not below_deserved(self._usage, queue, head.accounts),
            share=share(self._usage, queue),
            queue_priority=-self._usage.tree.queues[queue].priority,
            urgency=rank.urgency,
            arrival=rank.arrival,
            name=queue,
        )

    def _rekey(self, queue: QueueName) -> None:
        """Put the queues of one path where they belong now, bottom up.

        Each is on top of its parent's heap.
        """
        path = self._usage.tree.paths[queue]
        for name, parent in pairwise(path):
            node, siblings = self._nodes[name], self._nodes[parent].children
            if node.classes or node.children:
                heapreplace(siblings, (self._key(node), node))
            else:
                heappop(siblings)
