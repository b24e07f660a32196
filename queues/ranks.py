"""Places of those who wait inside their queue, and classes of those who are alike.

Orders inside a queue, none of which depends on the clock: ``fifo`` and ``strict-fifo`` by arrival (strict: a
refused head holds up all behind it), ``priority`` by priority with age, then, where past use counts, by the share of
the queue that each user has and had (``queues.past_use``), then, where starved gangs have a place cleared, small
before large (``queues.precedence``), then arrival, ``shortest`` by declared run time with age, ``round-robin`` by the
share of the queue that each user has, then arrival.
"""

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from queues.account import Account
from queues.precedence import gives_way, precedence
from queues.quota import QueueTree
from queues.workload import QueueName, Workload, WorkloadKey

_HOUR = 3600
#: Under ``shortest`` nobody is passed by work that came later than so many times the difference of run times.
_PATIENCE: Final = 10
#: Under ``shortest`` work that declares no run time counts as so long, unless the queue limits it to less.
_UNKNOWN_RUN_TIME: Final = 30 * 24 * _HOUR


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


class Rank(NamedTuple):
    """Place inside a queue; the smaller the earlier. It does not change while the workload waits."""

    joins: bool
    #: By the queue's order: − (priority × 3600 − ageing × created), or seconds, or 0.
    urgency: int
    #: Small before large (``queues.precedence``) under ``priority`` where places are cleared, else 0.
    precedence: int
    arrival: int
    key: WorkloadKey


def rank(tree: QueueTree, candidate: Candidate) -> Rank:
    """The place of a candidate in its queue."""
    workload = candidate.workload
    queue = workload.queue
    before = precedence(workload) if small_first(tree, queue) else 0
    urgent = urgency(tree, queue, workload.priority, workload.created, workload.run_time)
    return Rank(candidate.joins, urgent, before, workload.arrival, workload.key)


def small_first(tree: QueueTree, queue: QueueName) -> bool:
    """Whether large gives way to small in a queue (``queues.precedence``)."""
    return tree.order(queue) == "priority" and gives_way(tree.policy(queue))


def urgency(tree: QueueTree, queue: QueueName, priority: int, created: int, run_time: int | None) -> int:
    """What counts first in a queue, by its order; the smaller the earlier."""
    match tree.order(queue):
        case "priority":
            return tree.ageing_per_hour(queue) * created - priority * _HOUR
        case "shortest":
            longest = tree.queues[queue].max_run_time or _UNKNOWN_RUN_TIME
            return created + _PATIENCE * (longest if run_time is None else run_time)
    return 0


@dataclass(slots=True, eq=False)
class Alike:
    """A class: candidates of one shape in one queue (of one user where users count), in its order."""

    queue: QueueName
    #: A refusal for lack of nodes holds for all classes of the same kind.
    kind: Hashable
    #: Whose they are where users count (``by_user``); else "".
    user: str = ""
    ranks: list[Rank] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    #: So many at the left were admitted in this turn.
    taken: int = 0
    #: Whatever whoever made it wants to find here again.
    about: Any = None

    def add(self, place: Rank, candidate: Candidate) -> None:
        """One more."""
        index = bisect_left(self.ranks, place)
        self.ranks.insert(index, place)
        self.candidates.insert(index, candidate)

    def remove(self, place: Rank) -> None:
        """The one of that rank is gone."""
        index = bisect_left(self.ranks, place)
        del self.ranks[index], self.candidates[index]

    def head(self) -> Candidate:
        """The first that was not admitted yet."""
        return self.candidates[self.taken]

    def first(self) -> Rank:
        """Its rank."""
        return self.ranks[self.taken]

    def rest(self) -> Sequence[Candidate]:
        """All that were not admitted."""
        return self.candidates[self.taken :]
