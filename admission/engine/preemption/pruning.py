"""Pruning: which classes need not ask for victims, as queues, priorities and free amounts alone show."""

from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np

from admission.engine.pending.classes import WorkloadClass
from admission.engine.pending.waiting_time import soonest, starves_at
from admission.engine.placement.need import MissingMembers, takes_of
from admission.engine.trial import Trial
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.workload import NO_FLAVOR, QueueName, Workload


class _Rules(NamedTuple):
    """Which rules of a queue may give victims."""

    #: Workloads of a higher priority may find victims in their queue. None if no workload does.
    priority_above: float | None
    reclaims: bool
    #: Evicts for what it borrows.
    borrows: bool


@dataclass(slots=True, eq=False)
class HopelessQueues:
    """Queues in which no waiting class can have victims, kept from turn to turn under one queue tree."""

    #: The second at which the first gang of each starves. None if none will.
    _until: dict[QueueName, int | None] = field(default_factory=dict)
    #: As soon as so many units of a resource are free on all nodes together, all are asked again.
    _enough: dict[str, int] = field(default_factory=dict)

    def __contains__(self, queue: QueueName) -> bool:
        return queue in self._until

    def add(self, queue: QueueName, until: int | None, scarce: Iterable[tuple[Account, int]]) -> None:
        """No class of a queue can have victims, until some second and as long as these amounts are not free."""
        self._until[queue] = until
        for (_, resource), units in scarce:
            self._enough[resource] = min(units, self._enough.get(resource, units))

    def forget(self, queues: Iterable[QueueName]) -> None:
        """Ask these again: their use, their classes or heads are others now."""
        for queue in queues:
            self._until.pop(queue, None)

    def forget_due(self, now: int, free_units: Callable[[], Mapping[str, int]]) -> None:
        """Ask those again for which something may help now. ``free_units``: free on all nodes, by resource."""
        if any(free_units().get(resource, 0) >= units for resource, units in self._enough.items()):
            self._until.clear()
            self._enough.clear()
        self.forget([queue for queue, due in self._until.items() if due is not None and due <= now])

    def until(self) -> int | None:
        """The second at which the first gang of any of them starves. None if none will."""
        return soonest(*self._until.values())


class PreemptionProspects:
    """What queues, priorities and free amounts alone show about whether victims may exist."""

    def __init__(
        self, trial: Trial, lowest_priority: Callable[[QueueName], int | None], hopeless: HopelessQueues
    ) -> None:
        """``lowest_priority``: of all that a queue holds. None if it holds nothing."""
        self.trial = trial
        self._lowest_priority = lowest_priority
        self._hopeless = hopeless
        #: By identity of what is missing, which classes of one shape share.
        self._scarce: dict[int, tuple[MissingMembers, list[tuple[Account, int]]]] = {}
        self._free: dict[str, int] | None = None
        self._rules: dict[QueueName, _Rules] = {}
        self._until: int | None = None

    def hopeful(
        self,
        classes: Mapping[QueueName, Mapping[Hashable, WorkloadClass]],
        left_out: Container[WorkloadClass],
        now: int,
    ) -> list[WorkloadClass]:
        """The waiting classes for which victims may exist; for others it is certain that none do.

        ``left_out``: classes that are not asked about now.
        """
        self._hopeless.forget_due(now, self._free_units)
        return [
            each
            for queue, of_queue in classes.items()
            if queue not in self._hopeless
            for each in self._hopeful_of(queue, of_queue.values(), left_out, now)
        ]

    def until(self) -> int | None:
        """The second at which the first gang starves of those that no victim may exist for now. None if none will."""
        return soonest(self._until, self._hopeless.until())

    def _hopeful_of(
        self, queue: QueueName, classes: Iterable[WorkloadClass], left_out: Container[WorkloadClass], now: int
    ) -> list[WorkloadClass]:
        waiting = [each for each in classes if each.is_considered]
        asked = [each for each in waiting if each not in left_out]
        found, until, scarce = [], None, list[tuple[Account, int]]()
        for each in asked:
            workload, need = each.class_queue.head().workload, each.request.need
            if need.complete or need.shortfall:
                continue
            due = starves_at(workload, need, self.trial.tree)
            if (due is not None and due <= now) or not self.is_blocked(workload, need):
                found.append(each)
                continue
            until = soonest(until, due)
            scarce += self._scarce_for(workload, need)
        self._until = soonest(self._until, until)
        if not found and len(asked) == len(waiting):
            self._hopeless.add(queue, until, scarce)
        return found

    def is_blocked(self, workload: Workload, need: MissingMembers) -> bool:
        """True if no rule allows any victim for a workload, unless it starves."""
        rules = self._rules_of(workload.queue)
        if rules.priority_above is not None and workload.priority > rules.priority_above:
            return False
        if not rules.reclaims:
            return True
        scarce = self._scarce_for(workload, need)
        if rules.borrows or not scarce:
            return False
        # Some queue on its path must have room in what it deserves for all that is certainly scarce.
        usage, tree = self.trial.usage, self.trial.tree
        for name in tree.paths[workload.queue]:
            if name == ROOT:
                continue
            for account, units in scarce:
                if usage.used(name, account) + units > tree.deserved(name, account):
                    break
            else:
                return False
        return True

    def _rules_of(self, queue: QueueName) -> "_Rules":
        rules = self._rules.get(queue)
        if rules is None:
            tree = self.trial.tree
            policy = tree.policy(queue)
            lowest = None if policy.within_queue == "never" else self._lowest_priority(queue)
            above: float | None = None
            if lowest is not None:
                newer = policy.within_queue == "lower-or-newer-equal"
                above = -inf if newer else tree.counted_priority(queue, lowest)
            rules = self._rules[queue] = _Rules(
                above, policy.reclaim != "never", policy.borrow_max_priority is not None
            )
        return rules

    def _scarce_for(self, workload: Workload, need: MissingMembers) -> list[tuple[Account, int]]:
        """What the gang asks at the least, of resources that are certainly scarce."""
        known = self._scarce.get(id(need))
        if known is None:
            free = self._free_units()
            scarce = [
                (Account(NO_FLAVOR, resource), units)
                for resource, units in takes_of(workload, need.minimum).items()
                if units > free.get(resource, 0)
            ]
            known = self._scarce[id(need)] = (need, scarce)
        return known[1]

    def _free_units(self) -> Mapping[str, int]:
        """Units that are free on all nodes together, by resource."""
        if self._free is None:
            sums = np.maximum(self.trial.free, 0).sum(axis=1)
            self._free = dict(zip(self.trial.table.resources, sums.tolist(), strict=False))
        return self._free
