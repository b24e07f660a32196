"""Use of queues and of their users, and what may still be added, at every level of the tree. Pure.

Upwards a queue counts as ``max(counted, guarantee)``: an idle guarantee is taken already. Adding to a queue
below its guarantee changes nothing above it, and only the part beyond it is asked of the parent.

What a reservation of a tenant keeps idle (``keep``) counts as use in all answers of this module, but not against
limits.

``LimitHit`` has the sentence of every ``QueueLimit``: of the engine and of the ledger.

One user may use so much in a queue and all below it (``access.maxPerUser``); work without a known user counts as one
user's.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from queues.quota.accounts import Account
from queues.quota.decayed_usage import DecayedUsage
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.workload import QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitHit:
    """The first limit on the way up that a request does not respect."""

    #: The queue that has the limit: the workload's own queue or an ancestor.
    queue: QueueName
    account: Account
    limit: int
    #: Present use of its workloads.
    used: int
    #: Idle guarantees below the queue, which the request may not use.
    kept: int
    asked: int

    @property
    def short(self) -> int:
        """By how much the request exceeds the limit."""
        return self.used + self.kept + self.asked - self.limit

    @property
    def message(self) -> str:
        """The sentence of every ``QueueLimit``."""
        show = self.account.show
        kept = f" and {show(self.kept)} kept for guarantees" if self.kept else ""
        return (
            f"queue {self.queue} may use {show(self.limit)} {self.account}: {show(self.used)} used{kept}, "
            f"{show(self.asked)} asked, {show(self.short)} too many"
        )


class Usage:
    """Books of one tree: mutable, one entry per queue and account that is used."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        #: Decayed past use; None if past use counts in no queue.
        self.past: DecayedUsage | None = None
        #: Queues with changed books, ancestors included. The reader empties it.
        self.dirty_queues: set[QueueName] = set()
        #: Used by the queue and everything below it.
        self._used: dict[QueueName, dict[Account, int]] = {name: {} for name in tree.paths}
        #: Own use plus max(counted, guarantee) of every child; the same books where no queue has a guarantee.
        self._counted = self._used
        if any(tree.guarantees.values()):
            self._counted = {name: dict(idle) for name, idle in tree.idle.items()}
        #: Queues with a book that no copy shares.
        self._own = set(tree.paths)
        #: The same books with what is kept idle for queues. None if nothing is kept.
        self._with_kept: Usage | None = None
        #: Queues for which something is kept idle, and all above them but root.
        self.keeping: frozenset[QueueName] = frozenset()

    def copy(self) -> "Usage":
        """A copy that changes on its own. Unchanged books stay shared."""
        copied = object.__new__(Usage)
        copied.tree = self.tree
        copied.past = self.past
        copied.dirty_queues = set()
        copied._used = copied._counted = dict(self._used)
        if self._counted is not self._used:
            copied._counted = dict(self._counted)
        copied._own, self._own = set(), set()
        copied.keeping = self.keeping
        copied._with_kept = None if self._with_kept is None else self._with_kept.copy()
        return copied

    def keep(self, queue: QueueName, amounts: Mapping[Account, int]) -> None:
        """Nodes with these amounts are kept idle for a queue, which counts as use but for limits; negative: no more."""
        if self._with_kept is None:
            self._with_kept = self.copy()
        self._with_kept.add(queue, amounts)
        path = frozenset(self.tree.paths.get(queue, ())) - {ROOT}
        self.dirty_queues.update(path)
        if not path <= self.keeping:
            self.keeping |= path

    def kept(self, queue: QueueName, account: Account) -> int:
        """What of the use of a queue and everything below it is kept idle."""
        return self.used(queue, account) - self._used[queue].get(account, 0)

    def is_kept_beyond_deserved(self, queue: QueueName, accounts: Iterable[Account] | None = None) -> bool:
        """Whether a queue uses more than it deserves, of something that is kept idle for it or for one below it.

        ``accounts``: those that are looked at; None for all.
        """
        return queue in self.keeping and any(
            self.kept(queue, account) > 0
            and self.counted(queue, account) > self.tree.deserved(queue, account)
            for account in (self.book(queue) if accounts is None else accounts)
        )

    def used(self, queue: QueueName, account: Account) -> int:
        """What the workloads of a queue and of everything below it use."""
        books = self if self._with_kept is None else self._with_kept
        return books._used[queue].get(account, 0)

    def book(self, queue: QueueName) -> Mapping[Account, int]:
        """All that the workloads of a queue and of everything below it use, by account."""
        books = self if self._with_kept is None else self._with_kept
        return books._used[queue]

    def counted(self, queue: QueueName, account: Account) -> int:
        """What counts as used by the queue: its use, and idle guarantees below it."""
        books = self if self._with_kept is None else self._with_kept
        return books._counted[queue].get(account, 0)

    def add(self, queue: QueueName, amounts: Mapping[Account, int], times: int = 1) -> None:
        """Post amounts to a queue and all above it; to root if there is no such queue. Checks nothing."""
        path = self.tree.paths.get(queue, (ROOT,))
        self.dirty_queues.update(path)
        for name in path:
            if name not in self._own:
                self._unshare(name)
            used = self._used[name]
            for account, units in amounts.items():
                total = used.get(account, 0) + units * times
                if total:
                    used[account] = total
                else:
                    used.pop(account, None)
        if self._counted is not self._used:
            self._count(path, amounts, times)
        if self._with_kept is not None:
            self._with_kept.add(queue, amounts, times)

    def _unshare(self, name: QueueName) -> None:
        """Give a queue books that no copy shares."""
        self._own.add(name)
        self._used[name] = dict(self._used[name])
        if self._counted is not self._used:
            self._counted[name] = dict(self._counted[name])

    def _count(self, path: Sequence[QueueName], amounts: Mapping[Account, int], times: int) -> None:
        """Follow changed use: upwards only what exceeds a guarantee, before or after, counts."""
        for account, units in amounts.items():
            delta = units * times
            for name in path:
                counted, guarantee = self._counted[name], self.tree.guarantees[name].get(account, 0)
                before = counted.get(account, 0)
                after = counted[account] = before + delta
                delta = max(after, guarantee) - max(before, guarantee)

    def remove(self, queue: QueueName, amounts: Mapping[Account, int]) -> None:
        """Take amounts back."""
        self.add(queue, amounts, times=-1)

    def refusal(self, queue: QueueName, amounts: Mapping[Account, int]) -> LimitHit | None:
        """The limit nearest to the queue that adding these amounts would break; None if there is none.

        Of several of one queue the first account's. Guarantees below root are exempt from root's limit: an idle one
        may be used even if the cluster is too small for all of them.
        """
        limits, books = self.tree.limits_above(queue), self._counted
        found: list[LimitHit] = []
        # Asked hundreds of times in each turn, so it calls nothing.
        for account, units in amounts.items():
            asked = units
            for name, limit, guarantee in limits[account] if units > 0 else ():
                if name == ROOT and asked <= 0:
                    break
                counted = books[name].get(account, 0)
                if limit is not None and counted + asked > limit:
                    used = self._used[name].get(account, 0)
                    kept = counted + asked - units - used
                    found.append(
                        LimitHit(queue=name, account=account, limit=limit, used=used, kept=kept, asked=units)
                    )
                    break
                if guarantee > counted:
                    asked -= guarantee - counted
        if len(found) > 1:
            path = self.tree.paths[queue]
            return min(found, key=lambda hit: (path.index(hit.queue), hit.account))
        return found[0] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimitHit:
    """A limit of one user that a request does not respect."""

    #: The queue that has the limit: the workload's own queue or an ancestor.
    queue: QueueName
    #: "": work without a known user.
    user: str
    account: Account
    limit: int
    #: What the user's work in that queue and below it uses, or is promised.
    used: int
    asked: int

    @property
    def message(self) -> str:
        """The sentence of every ``UserLimit``."""
        show, whose = self.account.show, self.user or "work without a known user"
        return (
            f"one user may use {show(self.limit)} {self.account} in queue {self.queue}: {whose} uses "
            f"{show(self.used)}, {show(self.asked)} asked"
        )


class UserUse:
    """Use by user in each queue that limits it: mutable. Queues without such a limit have no books."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self._used: dict[tuple[QueueName, str], Counter[Account]] = {}

    def copy(self) -> "UserUse":
        """A copy that changes on its own."""
        copied = UserUse(self.tree)
        copied._used = {key: Counter(book) for key, book in self._used.items()}
        return copied

    def limits_users_of(self, queue: QueueName) -> bool:
        """Whether a queue, or one above it, limits what one user may use."""
        return bool(self.tree.user_limits(queue))

    def add(self, queue: QueueName, user: str, amounts: Mapping[Account, int], times: int = 1) -> None:
        """Post amounts that work of a user in a queue gets; ``times=-1``: that it gives back."""
        for name, account, _ in self.tree.user_limits(queue):
            if units := amounts.get(account, 0) * times:
                book = self._used.setdefault((name, user), Counter())
                book[account] += units
                if not book[account]:
                    del book[account]

    def hit(self, queue: QueueName, user: str, amounts: Mapping[Account, int]) -> UserLimitHit | None:
        """The limit nearest to the queue that these further amounts would break; None if there is none."""
        for name, account, limit in self.tree.user_limits(queue):
            units = amounts.get(account, 0)
            used = self._used.get((name, user), Counter())[account]
            if units > 0 and used + units > limit:
                return UserLimitHit(
                    queue=name, user=user, account=account, limit=limit, used=used, asked=units
                )
        return None
