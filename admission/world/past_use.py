"""Usage of the past, as far as the policies of queues count it. Part of the world.

Read from the postings of the ledger when a term begins and when half-lives change; every plan that is applied then
adds what the ledger posts for it. Both give the same, to the last digit (``queues.quota.decayed_usage``).
"""

from collections.abc import Iterable, Mapping

from queues.admissions import Admission
from queues.quota.accounts import charges
from queues.quota.decayed_usage import PastUse, Sums, UsageHolder, UsageRecorder, half_lives
from queues.quota.queue import Queue
from queues.workload import AdmissionId, QueueName


class UsageHistory:
    """Empty, and no work, as long as no queue has ``usageHalfLife``."""

    def __init__(self) -> None:
        #: Queues have changed: their half-lives may differ from the ones that were read.
        self.needs_reading = False
        self._recorder = UsageRecorder()

    def unread(self, queues: Mapping[QueueName, Queue]) -> Mapping[QueueName, frozenset[int]] | None:
        """By which half-lives the ledger has to be read anew; None: what is known is of the right ones."""
        wanted = half_lives(queues)
        if wanted == self._recorder.half_lives:
            self.needs_reading = False
            return None
        return wanted

    def begin(
        self, half_lives: Mapping[QueueName, frozenset[int]], rows: Mapping[UsageHolder, Sums], now: int
    ) -> None:
        """What the ledger says (``queues.sql.read.past_use``)."""
        self._recorder.begin(half_lives, rows, now)
        self.needs_reading = False

    def post(self, changed: Iterable[Admission], known: Mapping[AdmissionId, Admission], at: int) -> None:
        """A plan of that second opened or changed admissions; ``known`` are they as they were before."""
        for admission in changed if self._recorder.half_lives else ():
            before = known.get(admission.id)
            amounts = charges(admission.holding())
            for account, units in charges(before.holding() if before else ()).items():
                amounts[account] = amounts.get(account, 0) - units
            self._recorder.post(admission.queue, admission.user, amounts, at)

    def freeze(self, now: int) -> PastUse:
        """For the snapshot."""
        return self._recorder.freeze(now)
