"""How much of its due a queue uses: dominant shares over the tree, compared as exact fractions.

Weighted dominant resource fairness (Ghodsi et al., NSDI 2011) with ``deserved`` in the place of the
cluster: a queue's share is the largest, over its accounts, of used ÷ deserved. With ``usageHalfLife`` used is half
of what is used now and half of the decayed average of the past (``queues.quota.decayed_usage``).
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
    """A fraction that is never rounded. Over nothing it is infinite."""

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
    """The dominant share of a queue with everything below it.

    Infinite if it uses what it deserves nothing of.
    """
    if usage.past is not None:
        return _dominant(usage.tree, queue, usage.book(queue), usage.past.of_queue(queue))
    tree, largest = usage.tree, NO_SHARE  # as below, for all clusters without a half-life
    for account, used in usage.book(queue).items():
        if used > 0:
            largest = max(largest, Share(used, tree.deserved(queue, account)))
    return largest


def _dominant(
    tree: QueueTree, queue: QueueName, book: Mapping[Account, int], past: HolderUsage | None
) -> Share:
    """The largest share of what the queue deserves."""
    largest = NO_SHARE
    if past is None:
        for account, used in book.items():
            if used > 0:
                largest = max(largest, Share(used, tree.deserved(queue, account)))
        return largest
    for account in dict.fromkeys((*book, *past.held, *past.sums)):
        used, due = book.get(account, 0), tree.deserved(queue, account)
        if due <= 0:  # nothing ever fades away from an infinite share: only what is used now counts
            largest = max(largest, Share(used, due)) if used > 0 else largest
        elif (faded := past.twice(account, used)) > 0:
            largest = max(largest, Share(faded, 2 * past.scale * due))
    return largest


def below_guarantee(usage: Usage, queue: QueueName, asked: Iterable[Account]) -> bool:
    """Whether the queue is guaranteed some of what is asked, and uses less than that in all such accounts."""
    owed = False
    for account in asked:
        guarantee = usage.tree.guarantee(queue, account)
        if guarantee:
            if usage.used(queue, account) >= guarantee:
                return False
            owed = True
    return owed


def below_deserved(usage: Usage, queue: QueueName, asked: Iterable[Account]) -> bool:
    """Whether the queue uses less than it deserves of everything that is asked."""
    tree = usage.tree
    return all(usage.used(queue, account) < tree.deserved(queue, account) for account in asked)


class UserShares:
    """What the users of queues have, where they take turns. Mutable."""

    def __init__(self) -> None:
        #: What they had in the past; None: it does not count anywhere.
        self.past: DecayedUsage | None = None
        self._used: dict[tuple[QueueName, str], dict[Account, int]] = {}
        #: Whose books no copy shares.
        self._own: set[tuple[QueueName, str]] = set()

    def copy(self) -> "UserShares":
        """Books that change on their own. What neither changes is shared."""
        twin = UserShares()
        twin.past = self.past
        twin._used = dict(self._used)
        self._own = set()
        return twin

    def add(self, queue: QueueName, user: str, amounts: Mapping[Account, int], times: int = 1) -> None:
        """Post what a user gets."""
        whose = queue, user
        if whose not in self._own:
            self._own.add(whose)
            self._used[whose] = dict(self._used.get(whose, {}))
        book = self._used[whose]
        for account, units in amounts.items():
            book[account] = book.get(account, 0) + units * times

    def share(self, tree: QueueTree, queue: QueueName, user: str) -> Share:
        """The dominant share of what the queue deserves that one of its users has."""
        past = None if self.past is None else self.past.of_user(queue, user)
        return _dominant(tree, queue, self.book(queue, user), past)

    def book(self, queue: QueueName, user: str) -> Mapping[Account, int]:
        """All that a user has in a queue, by account."""
        return self._used.get((queue, user), {})
