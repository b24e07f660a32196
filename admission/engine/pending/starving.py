"""The classes that a reservation is considered for: of all pending classes as few as possible.

Followed from turn to turn, since most turns consider none. Built from nothing, the answer is the same.
"""

from collections.abc import Hashable, Mapping

from admission.engine.pending.classes import WorkloadClass
from admission.engine.pending.waiting_time import (
    LONG_WAIT,
    is_gang,
    is_never_cleared,
    soonest,
    starves_at,
    waits_since,
)
from queues.quota.tree import QueueTree
from queues.reason_codes import ReasonCode
from queues.workload import QueueName, Workload


class StarvingClasses:
    """Pending classes under one queue tree, as far as reservations depend on them."""

    def __init__(self, tree: QueueTree) -> None:
        self._tree = tree
        #: Number of pending workloads that matter for the reservations of others.
        self.affecting_reservation = 0
        #: Number of pending workloads for which nothing is evicted: no place is cleared for a gang among them.
        self._never_preempting = 0
        #: Queues with pending workloads in which no place is ever cleared for gangs.
        self._never_cleared: dict[QueueName, None] = {}
        #: Classes of gangs that a limit of their queue blocks whatever the flavor.
        self._at_limit: dict[WorkloadClass, None] = {}
        #: No gang at a limit starves before this second; None: none ever does.
        self._next_starving: int | None = None
        #: No gang has waited since an earlier second; None: no gang waits.
        self._longest_wait_began: int | None = None

    def add_queue(self, queue: QueueName) -> None:
        """A queue has pending workloads (again)."""
        if is_never_cleared(self._tree, queue):
            self._never_cleared[queue] = None

    def remove_queue(self, queue: QueueName) -> None:
        """A queue has no pending workloads any more."""
        self._never_cleared.pop(queue, None)

    def add(self, workload_class: WorkloadClass, workload: Workload) -> None:
        """A workload joins a class."""
        need = workload_class.request.need
        self.affecting_reservation += affects_reservation(workload)
        self._never_preempting += not workload.preempts
        if is_gang(need):
            self._longest_wait_began = soonest(self._longest_wait_began, waits_since(workload)[0])
        if workload_class in self._at_limit:
            self._next_starving = soonest(self._next_starving, starves_at(workload, need, self._tree))

    def remove(self, workload: Workload) -> None:
        """A workload leaves its class."""
        self.affecting_reservation -= affects_reservation(workload)
        self._never_preempting -= not workload.preempts

    def remove_class(self, workload_class: WorkloadClass) -> None:
        """A class has no members any more."""
        self._at_limit.pop(workload_class, None)

    def update(self, workload_class: WorkloadClass) -> None:
        """The reason why a class is screened out is another now."""
        reason = workload_class.screened_out()
        if (
            reason is None
            or reason.code != ReasonCode.QUEUE_LIMIT
            or not is_gang(workload_class.request.need)
        ):
            self._at_limit.pop(workload_class, None)
        elif workload_class not in self._at_limit and workload_class.class_queue.candidates:
            self._at_limit[workload_class] = None
            self._next_starving = soonest(self._next_starving, self._starves_at(workload_class))

    def reservation_heads(
        self,
        classes: Mapping[QueueName, Mapping[Hashable, WorkloadClass]],
        now: int,
        *,
        ends_known: bool,
    ) -> tuple[list[WorkloadClass], int | None]:
        """Classes with a longest waiting member that may get a reservation; and the second at which others may.

        ``classes``: all that are pending. ``ends_known``: whether the end of any workload is known, or some workload
        could settle on a place from which it cannot be cleared.
        """
        heads, until = self._starving_at_limit(now)
        long = self._waits_long(now)
        never_cleared = bool(self._never_cleared or self._never_preempting)
        if ends_known or never_cleared or long:
            waiting = [
                each
                for of_queue in classes.values()
                for each in of_queue.values()
                if each.blocked is None and each.waits
            ]
            if long:  # the gang that waited since then may be gone
                gangs = (each.longest_waiting().workload for each in waiting if is_gang(each.request.need))
                self._longest_wait_began = min((waits_since(each)[0] for each in gangs), default=None)
                long = self._waits_long(now)
            if ends_known or never_cleared or long:
                heads = waiting
        if self._longest_wait_began is not None and not long:
            until = soonest(until, self._longest_wait_began + LONG_WAIT)
        return heads, until

    def _waits_long(self, now: int) -> bool:
        began = self._longest_wait_began
        return began is not None and now - began >= LONG_WAIT

    def _starving_at_limit(self, now: int) -> tuple[list[WorkloadClass], int | None]:
        """Classes at a limit that starve, so that quota is cleared for them; and when the next one will."""
        if self._next_starving is None or now < self._next_starving:
            return [], self._next_starving
        starving, following = [], None
        self._next_starving = None
        for each in self._at_limit:
            if each.waits and (due := self._starves_at(each)) is not None:
                self._next_starving = soonest(self._next_starving, due)
                if due <= now:
                    starving.append(each)
                else:
                    following = soonest(following, due)
        return starving, following

    def _starves_at(self, workload_class: WorkloadClass) -> int | None:
        need = workload_class.request.need
        return starves_at(workload_class.longest_waiting().workload, need, self._tree)


def affects_reservation(workload: Workload) -> bool:
    """Whether its end is known, or it could settle on a place from which it cannot be cleared."""
    return workload.run_time is not None or not workload.preemptable or bool(workload.min_run_time)
