"""The limit that stops a request, and the sentence of every ``QueueLimit``: of the engine and of the ledger."""

from dataclasses import dataclass

from queues.quota.accounts import Account
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
