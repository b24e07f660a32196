"""Who is asked whether something is to be kept for him: of all classes that wait, as few as there can be.

Followed from turn to turn, since most turns ask nobody. Whoever is shown everything anew finds the same.
"""

from collections.abc import Hashable, Mapping

from admission.engine.pending.classes import WorkloadClass
from admission.engine.pending.waiting_time import LONG, is_gang, nobody_makes_room, starves_at, waits_since
from admission.engine.reasons import Code
from queues.quota.tree import QueueTree
from queues.workload import QueueName, Workload


class StarvingClasses:
    """What a reservation goes by, of the classes under one queue tree that may be tried."""

    def __init__(self, tree: QueueTree) -> None:
        self._tree = tree
        #: So many workloads say something that a reservation goes by.
        self.telling = 0
        #: Queues in which somebody waits and for whose gangs nobody makes room.
        self._in_vain: dict[QueueName, None] = {}
        #: Classes of gangs that a limit of their queue lets none of in, whatever the flavor.
        self._at_limit: dict[WorkloadClass, None] = {}
        #: No gang at a limit starves before that second; None: none ever does.
        self._starving: int | None = None
        #: No gang has waited since an earlier second; None: there is none.
        self._earliest: int | None = None

    def opens(self, queue: QueueName) -> None:
        """Somebody waits in a queue again."""
        if nobody_makes_room(self._tree, queue):
            self._in_vain[queue] = None

    def closes(self, queue: QueueName) -> None:
        """Nobody waits there any more."""
        self._in_vain.pop(queue, None)

    def comes(self, batch: WorkloadClass, workload: Workload) -> None:
        """One more of a class waits."""
        self.telling += tells(workload)
        if is_gang(batch.wants.need):
            self._earliest = _sooner(self._earliest, waits_since(workload)[0])
        if batch in self._at_limit:
            self._starving = _sooner(self._starving, starves_at(workload, batch.wants.need, self._tree))

    def goes(self, workload: Workload) -> None:
        """One less does."""
        self.telling -= tells(workload)

    def forget(self, batch: WorkloadClass) -> None:
        """Nobody is left of a class."""
        self._at_limit.pop(batch, None)

    def look_at(self, batch: WorkloadClass) -> None:
        """Its queue lets one of them in at last, or none any more."""
        refused = batch.refused_already()
        if refused is None or refused.code != Code.QUEUE_LIMIT or not is_gang(batch.wants.need):
            self._at_limit.pop(batch, None)
        elif batch not in self._at_limit and batch.alike.candidates:
            self._at_limit[batch] = None
            self._starving = _sooner(self._starving, self._starves_at(batch))

    def who(
        self, batches: Mapping[QueueName, Mapping[Hashable, WorkloadClass]], now: int, *, told: bool
    ) -> tuple[list[WorkloadClass], int | None]:
        """Classes of which somebody may have something kept for him; and when it may be others.

        ``batches``: everybody who waits. ``told``: whether anything is known about anybody's end.
        """
        starving, until = self._who_starves(now)
        long = self._earliest is not None and now - self._earliest >= LONG
        if told or self._in_vain or long:
            every = [
                batch
                for classes in batches.values()
                for batch in classes.values()
                if batch.never is None and batch.waits
            ]
            if long:  # but he may be gone
                gangs = (batch.waits_longest().workload for batch in every if is_gang(batch.wants.need))
                self._earliest = min((waits_since(each)[0] for each in gangs), default=None)
                long = self._earliest is not None and now - self._earliest >= LONG
            if told or self._in_vain or long:
                starving = every
        if self._earliest is not None and not long:
            until = _sooner(until, self._earliest + LONG)
        return starving, until

    def _who_starves(self, now: int) -> tuple[list[WorkloadClass], int | None]:
        """Who is at a limit and due to have quota cleared; and when the next one is."""
        if self._starving is None or now < self._starving:
            return [], self._starving
        found, following = [], None
        self._starving = None
        for batch in self._at_limit:
            if batch.waits and (due := self._starves_at(batch)) is not None:
                self._starving = _sooner(self._starving, due)
                if due <= now:
                    found.append(batch)
                else:
                    following = _sooner(following, due)
        return found, following

    def _starves_at(self, batch: WorkloadClass) -> int | None:
        return starves_at(batch.waits_longest().workload, batch.wants.need, self._tree)


def tells(workload: Workload) -> bool:
    """Whether its end is known, or it could settle where it cannot be cleared."""
    return workload.run_time is not None or not workload.preemptable or bool(workload.min_run_time)


def _sooner(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
