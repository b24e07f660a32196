"""Who is asked whether something is to be kept for him: of all classes that wait, as few as there can be.

Followed from turn to turn, since most turns ask nobody. Whoever is shown everything anew finds the same.
"""

from collections.abc import Hashable, Mapping

from admission.engine.pending.classes import WorkloadClass
from admission.engine.pending.waiting_time import (
    LONG_WAIT,
    is_gang,
    is_never_cleared,
    starves_at,
    waits_since,
)
from queues.quota.tree import QueueTree
from queues.reason_codes import ReasonCode
from queues.workload import QueueName, Workload


class StarvingClasses:
    """What a reservation goes by, of the classes under one queue tree that may be tried."""

    def __init__(self, tree: QueueTree) -> None:
        self._tree = tree
        #: So many workloads say something that a reservation goes by.
        self.affecting_reservation = 0
        #: Queues in which somebody waits and for whose gangs nobody makes room.
        self._never_cleared: dict[QueueName, None] = {}
        #: Classes of gangs that a limit of their queue lets none of in, whatever the flavor.
        self._at_limit: dict[WorkloadClass, None] = {}
        #: No gang at a limit starves before that second; None: none ever does.
        self._next_starving: int | None = None
        #: No gang has waited since an earlier second; None: there is none.
        self._longest_wait_began: int | None = None

    def add_queue(self, queue: QueueName) -> None:
        """Somebody waits in a queue again."""
        if is_never_cleared(self._tree, queue):
            self._never_cleared[queue] = None

    def remove_queue(self, queue: QueueName) -> None:
        """Nobody waits there any more."""
        self._never_cleared.pop(queue, None)

    def add(self, batch: WorkloadClass, workload: Workload) -> None:
        """One more of a class waits."""
        self.affecting_reservation += affects_reservation(workload)
        if is_gang(batch.wants.need):
            self._longest_wait_began = _sooner(self._longest_wait_began, waits_since(workload)[0])
        if batch in self._at_limit:
            self._next_starving = _sooner(
                self._next_starving, starves_at(workload, batch.wants.need, self._tree)
            )

    def remove(self, workload: Workload) -> None:
        """One less does."""
        self.affecting_reservation -= affects_reservation(workload)

    def remove_class(self, batch: WorkloadClass) -> None:
        """Nobody is left of a class."""
        self._at_limit.pop(batch, None)

    def update(self, batch: WorkloadClass) -> None:
        """Its queue lets one of them in at last, or none any more."""
        refused = batch.screened_out()
        if refused is None or refused.code != ReasonCode.QUEUE_LIMIT or not is_gang(batch.wants.need):
            self._at_limit.pop(batch, None)
        elif batch not in self._at_limit and batch.class_queue.candidates:
            self._at_limit[batch] = None
            self._next_starving = _sooner(self._next_starving, self._starves_at(batch))

    def reservation_heads(
        self, batches: Mapping[QueueName, Mapping[Hashable, WorkloadClass]], now: int, *, told: bool
    ) -> tuple[list[WorkloadClass], int | None]:
        """Classes of which somebody may have something kept for him; and when it may be others.

        ``batches``: everybody who waits. ``told``: whether anything is known about anybody's end.
        """
        starving, until = self._starving_at_limit(now)
        long = self._longest_wait_began is not None and now - self._longest_wait_began >= LONG_WAIT
        if told or self._never_cleared or long:
            every = [
                batch
                for classes in batches.values()
                for batch in classes.values()
                if batch.blocked is None and batch.waits
            ]
            if long:  # but he may be gone
                gangs = (batch.longest_waiting().workload for batch in every if is_gang(batch.wants.need))
                self._longest_wait_began = min((waits_since(each)[0] for each in gangs), default=None)
                long = self._longest_wait_began is not None and now - self._longest_wait_began >= LONG_WAIT
            if told or self._never_cleared or long:
                starving = every
        if self._longest_wait_began is not None and not long:
            until = _sooner(until, self._longest_wait_began + LONG_WAIT)
        return starving, until

    def _starving_at_limit(self, now: int) -> tuple[list[WorkloadClass], int | None]:
        """Who is at a limit and due to have quota cleared; and when the next one is."""
        if self._next_starving is None or now < self._next_starving:
            return [], self._next_starving
        found, following = [], None
        self._next_starving = None
        for batch in self._at_limit:
            if batch.waits and (due := self._starves_at(batch)) is not None:
                self._next_starving = _sooner(self._next_starving, due)
                if due <= now:
                    found.append(batch)
                else:
                    following = _sooner(following, due)
        return found, following

    def _starves_at(self, batch: WorkloadClass) -> int | None:
        return starves_at(batch.longest_waiting().workload, batch.wants.need, self._tree)


def affects_reservation(workload: Workload) -> bool:
    """Whether its end is known, or it could settle where it cannot be cleared."""
    return workload.run_time is not None or not workload.preemptable or bool(workload.min_run_time)


def _sooner(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
