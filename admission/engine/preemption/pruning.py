"""What queues, priorities and free amounts alone tell about who could have somebody taken back.

Who need not ask for room: nobody could go for him, as queues and priorities alone tell.

Such classes are parked, and not looked at again until something grows that they lack: the share of a queue on
their path, what is free on all nodes together, somebody less urgent in their queue, or their age.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TypeVar

from admission.engine.pending.classes import WorkloadClass
from admission.engine.pending.waiting_time import starves_at
from admission.engine.placement.need import MissingMembers, takes_of
from admission.engine.trial import Trial
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.resources import Resources
from queues.workload import NO_FLAVOR, QueueName, Workload


class PreemptionProspects:
    """What queues, priorities and free amounts alone tell about who could have others taken back."""

    def __init__(self, trial: Trial, lowest: Callable[[QueueName], int | None]) -> None:
        """``lowest``: the lowest priority that holds anything in a queue."""
        self.trial = trial
        self.lowest = lowest
        #: What classes ask, by what they lack: equal shapes share it.
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
        """What is free on all nodes together."""
        if self._free is None:
            sums = self.trial.free.clip(min=0).sum(axis=1)
            self._free = dict(zip(self.trial.table.resources, sums.tolist(), strict=False))
        return self._free

    def hopeless(self, workload: Workload, need: MissingMembers) -> tuple[str, ...] | None:
        """For lack of what nobody may be taken back for one who does not starve; (): whatever is free.

        None: perhaps somebody may.
        """
        tree, usage, own = self.trial.tree, self.trial.usage, workload.queue
        policy = tree.policy(own)
        lowest = None if policy.within_queue == "never" else self.lowest(own)
        newer = policy.within_queue == "lower-or-newer-equal"
        if lowest is not None and (newer or lowest < workload.priority):
            return None
        if policy.reclaim == "never":
            return ()
        if policy.borrow_max_priority is not None:
            return None
        # Of what is scarce for certain somebody on its path must have room in its share.
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


K = TypeVar("K")


@dataclass(slots=True, eq=False)
class _Spot:
    """Where a parked class is found."""

    #: What it asks, and of what of that there was too little.
    group: tuple[Resources, tuple[str, ...]]
    #: From this second on it starves.
    due: int | None


@dataclass(slots=True, eq=False)
class ParkedClasses:
    """Classes that are parked, and those that are not; kept from turn to turn under one queue tree."""

    #: Classes that have to be asked about.
    awake: dict[WorkloadClass, None] = field(default_factory=dict)
    _spots: dict[WorkloadClass, _Spot] = field(default_factory=dict)
    _of_queue: dict[QueueName, dict[WorkloadClass, None]] = field(default_factory=dict)
    _groups: dict[tuple[Resources, tuple[str, ...]], dict[WorkloadClass, None]] = field(default_factory=dict)
    #: (second, number, class, its spot), as a heap; spots that were left meanwhile do not count.
    _dues: list[tuple[int, int, WorkloadClass, _Spot]] = field(default_factory=list)
    _number: int = 0

    def wake(self, batch: WorkloadClass) -> None:
        """It has to be asked about again, if ever room could help it."""
        self.forget(batch)
        if batch.blocked is None and not (batch.wants.need.complete or batch.wants.need.shortfall):
            self.awake[batch] = None

    def forget(self, batch: WorkloadClass) -> None:
        """It is not there any more."""
        self.awake.pop(batch, None)
        spot = self._spots.pop(batch, None)
        if spot is not None:
            _leave(self._of_queue, batch.queue, batch)
            _leave(self._groups, spot.group, batch)

    def stir(self, queues: Iterable[QueueName], free: Mapping[str, int], now: int) -> None:
        """Wake those for whom something has grown: books of these queues changed, and so much is free."""
        for queue in queues:
            for batch in list(self._of_queue.get(queue, ())):
                self.wake(batch)
        for (asked, scarce), batches in list(self._groups.items()):
            if any(asked[resource] <= free.get(resource, 0) for resource in scarce):
                for batch in list(batches):
                    self.wake(batch)
        while self._dues and self._dues[0][0] <= now:
            _, _, batch, spot = heappop(self._dues)
            if self._spots.get(batch) is spot:
                self.wake(batch)

    def park(self, prospects: PreemptionProspects, now: int) -> None:
        """Park whoever is awake and has no prospects."""
        tree = prospects.trial.tree
        for batch in [each for each in self.awake if each.waits]:
            workload, need = batch.class_queue.head().workload, batch.wants.need
            due = starves_at(workload, need, tree)
            if due is not None and due <= now:
                continue
            scarce = prospects.hopeless(workload, need)
            if scarce is not None:
                self._put(batch, _Spot((prospects.asked(workload, need), scarce), due))

    def until(self) -> int | None:
        """The next second at which somebody who is parked starves."""
        while self._dues and self._spots.get(self._dues[0][2]) is not self._dues[0][3]:
            heappop(self._dues)
        return self._dues[0][0] if self._dues else None

    def _put(self, batch: WorkloadClass, spot: _Spot) -> None:
        del self.awake[batch]
        self._spots[batch] = spot
        self._of_queue.setdefault(batch.queue, {})[batch] = None
        self._groups.setdefault(spot.group, {})[batch] = None
        if spot.due is not None:
            self._number += 1
            heappush(self._dues, (spot.due, self._number, batch, spot))
            if len(self._dues) > 64 + 2 * len(self._spots):
                self._dues = [each for each in self._dues if self._spots.get(each[2]) is each[3]]
                heapify(self._dues)


def _leave(places: dict[K, dict[WorkloadClass, None]], place: K, batch: WorkloadClass) -> None:
    there = places[place]
    del there[batch]
    if not there:
        del places[place]
