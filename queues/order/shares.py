"""Shares: how much of what a queue deserves it uses. Dominant shares over the tree, as exact fractions.

Weighted dominant resource fairness (Ghodsi et al., NSDI 2011) with ``deserved`` in the place of the
cluster: the share of a queue is the largest, over its accounts, of used ÷ deserved. With ``usageHalfLife``, used is
half of the present use and half of the decayed average of the past (``queues.quota.decayed_usage``).
"""

from collections.abc import Iterable, Mapping
from functools import total_ordering
from typing import Final

from queues.quota.accounts import Account
from queues.quota.decayed_usage import DecayedUsage, HolderUsage
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.workload import QueueName


@total_ordering
class Share:
    """A fraction that is never rounded; infinite if its denominator is 0."""

    __slots__ = ("due", "used")

    def __init__(self, used: int, due: int) -> None:
        self.used = used if due > 0 else 1
        self.due = max(due, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Share) and self.used * other.due == other.used * self.due

    def __lt__(self, other: "Share") -> bool:
        return self.used * other.due < other.used * self.due

    def __hash__(self) -> int:
        raise TypeError("a share is compared, not hashed")

    def __float__(self) -> float:
        """For people: metrics and pages, never decisions."""
        return self.used / self.due if self.due else float("inf")

    def __repr__(self) -> str:
        return f"{self.used}/{self.due}"


NO_SHARE: Final = Share(0, 1)


def share(usage: Usage, queue: QueueName) -> Share:
    """The dominant share of a queue with its subtree.

    Infinite if the queue uses a resource and deserves nothing of it.
    """
    past = None if usage.past is None else usage.past.of_queue(queue)
    return _dominant(usage.tree, queue, usage.book(queue), past)


def _dominant(
    tree: QueueTree, queue: QueueName, book: Mapping[Account, int], past: HolderUsage | None
) -> Share:
    """The largest share over all accounts. If ``past`` is None, only present use counts."""
    if past is None:
        return _present(tree, queue, book)
    largest = NO_SHARE
    for account in dict.fromkeys((*book, *past.held, *past.sums)):
        used, due = book.get(account, 0), tree.deserved(queue, account)
        if due <= 0:  # an infinite share never decays: only present use counts
            largest = max(largest, Share(used, due)) if used > 0 else largest
        elif (faded := past.twice(account, used)) > 0:
            largest = max(largest, Share(faded, 2 * past.scale * due))
    return largest


def _present(tree: QueueTree, queue: QueueName, book: Mapping[Account, int]) -> Share:
    """The largest share of what is used now."""
    most, due = 0, 1
    for account, used in book.items():
        if used > 0:
            deserved = tree.deserved(queue, account)
            if deserved <= 0:
                return Share(used, 0)
            if used * due > most * deserved:
                most, due = used, deserved
    return Share(most, due)


def below_guarantee(usage: Usage, queue: QueueName, asked: Iterable[Account]) -> bool:
    """Whether the queue has a guarantee in an asked account, and uses less than it in all such accounts."""
    owed = False
    for account in asked:
        guarantee = usage.tree.guarantee(queue, account)
        if guarantee:
            if usage.used(queue, account) >= guarantee:
                return False
            owed = True
    return owed


def below_deserved(usage: Usage, queue: QueueName, asked: Iterable[Account]) -> bool:
    """Whether the queue uses less than it deserves in every asked account."""
    tree, book = usage.tree, usage.book(queue)
    return all(book.get(account, 0) < tree.deserved(queue, account) for account in asked)


class UserShares:
    """The use of each user of a queue, for orders that depend on it. Mutable."""

    def __init__(self) -> None:
        #: Decayed use of users; None if past use counts in no queue.
        self.past: DecayedUsage | None = None
        self._used: dict[tuple[QueueName, str], dict[Account, int]] = {}
        #: Users with a book that no copy shares.
        self._own: set[tuple[QueueName, str]] = set()

    def copy(self) -> "UserShares":
        """A copy that changes on its own. Unchanged books stay shared."""
        copied = UserShares()
        copied.past = self.past
        copied._used = dict(self._used)
        self._own = set()
        return copied

    def add(self, queue: QueueName, user: str, amounts: Mapping[Account, int], times: int = 1) -> None:
        """Post amounts that a user gets."""
        holder = queue, user
        if holder not in self._own:
            self._own.add(holder)
            self._used[holder] = dict(self._used.get(holder, {}))
        book = self._used[holder]
        for account, units in amounts.items():
            book[account] = book.get(account, 0) + units * times

    def share(self, tree: QueueTree, queue: QueueName, user: str) -> Share:
        """The dominant share of one user in what the queue deserves."""
        past = None if self.past is None else self.past.of_user(queue, user)
        return _dominant(tree, queue, self.book(queue, user), past)

    def book(self, queue: QueueName, user: str) -> Mapping[Account, int]:
        """The use of a user in a queue, by account."""
        return self._used.get((queue, user), {})
