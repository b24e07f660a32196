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
        #: Queues have changed: their half-lives may differ from the ones that were read. Or what was missing is there.
        self.needs_reading = False
        #: Half-lives by which too much has to be summed up first: until then only present use counts.
        self.missing: frozenset[int] = frozenset()
        self._wanted: Mapping[QueueName, frozenset[int]] = {}
        self._recorder = UsageRecorder()

    def unread(self, queues: Mapping[QueueName, Queue]) -> Mapping[QueueName, frozenset[int]] | None:
        """By which half-lives the ledger has to be read anew; None if what is known is of the right ones."""
        wanted = half_lives(queues)
        if wanted == self._wanted and not self.missing:
            self.needs_reading = False
            return None
        return wanted

    def half_lives(self) -> frozenset[int] | None:
        """All by which past use counts; None if not known yet."""
        return None if self.needs_reading else frozenset[int]().union(*self._wanted.values())

    def begin(
        self,
        half_lives: Mapping[QueueName, frozenset[int]],
        rows: Mapping[UsageHolder, Sums],
        now: int,
        missing: frozenset[int] = frozenset(),
    ) -> None:
        """What the ledger says (``queues.sql.read.past_use``), by all these half-lives but the ``missing`` ones."""
        self._wanted, self.missing = half_lives, missing
        self._recorder.begin(without(half_lives, missing), rows, now)
        self.needs_reading = False

    def post(self, changed: Iterable[Admission], known: Mapping[AdmissionId, Admission], at: int) -> None:
        """A plan of that second opened or changed admissions; ``known`` are they as they were before."""
        for admission in changed if self._recorder.half_lives else ():
            before = known.get(admission.id)
            amounts = dict(charges(admission.holding()))
            for account, units in charges(before.holding() if before else ()).items():
                amounts[account] = amounts.get(account, 0) - units
            self._recorder.post(admission.queue, admission.user, amounts, at)

    def freeze(self, now: int) -> PastUse:
        """For the snapshot."""
        return self._recorder.freeze(now)


def without(
    half_lives: Mapping[QueueName, frozenset[int]], missing: frozenset[int]
) -> Mapping[QueueName, frozenset[int]]:
    """Half-lives of each queue but these; a queue that has no other is absent."""
    return {queue: every - missing for queue, every in half_lives.items() if every - missing}
