"""What one user may use in a queue and all below it (``access.maxPerUser``), and what each user uses there. Pure.

Work without a known user counts as one user's.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from queues.quota.accounts import Account
from queues.quota.tree import QueueTree
from queues.workload import QueueName


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
