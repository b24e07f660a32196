"""Pruning: which classes need not ask for victims, as queues, priorities and free amounts alone tell.

Such a class is parked. It is asked about again when something it lacks has grown: books of a queue on its path have
changed, more is free on all nodes together, a less urgent workload runs in its queue, or its oldest gang starves.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeVar

from admission.engine.pending.classes import WorkloadClass
from admission.engine.pending.waiting_time import starves_at
from admission.engine.placement.need import MissingMembers, takes_of
from admission.engine.trial import Trial
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.resources import Resources
from queues.workload import NO_FLAVOR, QueueName, Workload


class PreemptionProspects:
    """What queues, priorities and free amounts alone tell about whether victims may exist."""

    def __init__(self, trial: Trial, lowest_priority: Callable[[QueueName], int | None]) -> None:
        """``lowest_priority``: of all that a queue holds. None: it holds nothing."""
        self.trial = trial
        self._lowest_priority = lowest_priority
        #: By identity of what is missing, which classes of one shape share.
        self._asked: dict[int, tuple[MissingMembers, Resources]] = {}
        self._free: dict[str, int] | None = None

    def asked(self, workload: Workload, need: MissingMembers) -> Resources:
        """What the gang asks at the least."""
        known = self._asked.get(id(need))
        if known is None:
            known = self._asked[id(need)] = (need, takes_of(workload, need.minimum))
        return known[1]

    @property
    def free(self) -> Mapping[str, int]:
        """Units that are free on all nodes together, by resource."""
        if self._free is None:
            sums = self.trial.free.clip(min=0).sum(axis=1)
            self._free = dict(zip(self.trial.table.resources, sums.tolist(), strict=False))
        return self._free

    def blocked_by(self, workload: Workload, need: MissingMembers) -> tuple[str, ...] | None:
        """Resources that block a workload and that no rule could free for it, unless it starves.

        Empty: it is blocked whatever is free. None: a victim may exist.
        """
        tree, usage, own = self.trial.tree, self.trial.usage, workload.queue
        policy = tree.policy(own)
        lowest = None if policy.within_queue == "never" else self._lowest_priority(own)
        newer = policy.within_queue == "lower-or-newer-equal"
        if lowest is not None and (newer or tree.counted_priority(own, lowest) < workload.priority):
            return None
        if policy.reclaim == "never":
            return ()
        if policy.borrow_max_priority is not None:
            return None
        # Some queue on its path must have room in what it deserves for all that is certainly scarce.
        free = self.free
        scarce = [
            (Account(NO_FLAVOR, resource), units)
            for resource, units in self.asked(workload, need).items()
            if units > free.get(resource, 0)
        ]
        if not scarce:
            return None
        for name in tree.paths[own]:
            if name != ROOT and all(
                usage.used(name, account) + units <= tree.deserved(name, account) for account, units in scarce
            ):
                return None
        return tuple(account.resource for account, _ in scarce)


class _Shortage(NamedTuple):
    """What parked classes ask, and the resources of which too little is free."""

    asked: Resources
    resources: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Parking:
    """Why a class is parked, and until when."""

    shortage: _Shortage
    #: The second from which on its oldest gang starves. None: never.
    starves_at: int | None


class _Due(NamedTuple):
    """A parked class that starves at some second; in a heap."""

    second: int
    #: Makes entries of one second comparable.
    number: int
    workload_class: WorkloadClass
    parking: _Parking


K = TypeVar("K")


@dataclass(slots=True, eq=False)
class ParkedClasses:
    """Classes that are parked and classes that are not, from turn to turn under one queue tree."""

    #: Classes that have to be asked about.
    awake: dict[WorkloadClass, None] = field(default_factory=dict)
    _parked: dict[WorkloadClass, _Parking] = field(default_factory=dict)
    _of_queue: dict[QueueName, dict[WorkloadClass, None]] = field(default_factory=dict)
    _by_shortage: dict[_Shortage, dict[WorkloadClass, None]] = field(default_factory=dict)
    #: A heap. Entries of classes that are not parked in that way any more do not count.
    _dues: list[_Due] = field(default_factory=list)
    _number: int = 0

    def wake(self, workload_class: WorkloadClass) -> None:
        """Have a class asked about again, if evictions could help it at all."""
        self.forget(workload_class)
        if workload_class.blocked is None and not (
            workload_class.request.need.complete or workload_class.request.need.shortfall
        ):
            self.awake[workload_class] = None

    def forget(self, workload_class: WorkloadClass) -> None:
        """Drop a class that has no workloads any more."""
        self.awake.pop(workload_class, None)
        parking = self._parked.pop(workload_class, None)
        if parking is not None:
            _discard(self._of_queue, workload_class.queue, workload_class)
            _discard(self._by_shortage, parking.shortage, workload_class)

    def wake_grown(self, dirty_queues: Iterable[QueueName], free: Mapping[str, int], now: int) -> None:
        """Wake classes for which something has grown. ``dirty_queues``: their books changed."""
        for queue in dirty_queues:
            for workload_class in list(self._of_queue.get(queue, ())):
                self.wake(workload_class)
        for shortage, classes in list(self._by_shortage.items()):
            if any(shortage.asked[each] <= free.get(each, 0) for each in shortage.resources):
                for workload_class in list(classes):
                    self.wake(workload_class)
        while self._dues and self._dues[0].second <= now:
            due = heappop(self._dues)
            if self._is_current(due):
                self.wake(due.workload_class)

    def park(self, prospects: PreemptionProspects, now: int) -> None:
        """Park every awake class for which no victim can exist."""
        tree = prospects.trial.tree
        for workload_class in [each for each in self.awake if each.waits]:
            workload, need = workload_class.class_queue.head().workload, workload_class.request.need
            starves = starves_at(workload, need, tree)
            if starves is not None and starves <= now:
                continue
            blocked_by = prospects.blocked_by(workload, need)
            if blocked_by is not None:
                shortage = _Shortage(prospects.asked(workload, need), blocked_by)
                self._park(workload_class, _Parking(shortage, starves))

    def until(self) -> int | None:
        """The next second at which a gang of a parked class starves. None: none will."""
        while self._dues and not self._is_current(self._dues[0]):
            heappop(self._dues)
        return self._dues[0].second if self._dues else None

    def _is_current(self, due: _Due) -> bool:
        return self._parked.get(due.workload_class) is due.parking

    def _park(self, workload_class: WorkloadClass, parking: _Parking) -> None:
        del self.awake[workload_class]
        self._parked[workload_class] = parking
        self._of_queue.setdefault(workload_class.queue, {})[workload_class] = None
        self._by_shortage.setdefault(parking.shortage, {})[workload_class] = None
        if parking.starves_at is not None:
            self._number += 1
            heappush(self._dues, _Due(parking.starves_at, self._number, workload_class, parking))
            if len(self._dues) > 64 + 2 * len(self._parked):
                self._dues = [each for each in self._dues if self._is_current(each)]
                heapify(self._dues)


def _discard(groups: dict[K, dict[WorkloadClass, None]], key: K, workload_class: WorkloadClass) -> None:
    """Take a class out of its group; empty groups are dropped."""
    group = groups[key]
    del group[workload_class]
    if not group:
        del groups[key]
