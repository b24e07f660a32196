"""Pruning: which classes need not ask for victims, as queues, priorities and free amounts alone tell."""

from collections.abc import Callable, Mapping

from admission.engine.pending.classes import WorkloadClass
from admission.engine.pending.waiting_time import soonest, starves_at
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
        #: The second at which the first gang starves of those that no victim may exist for now. None: none will.
        self.until: int | None = None

    def may_exist_for(self, workload_class: WorkloadClass, now: int) -> bool:
        """Whether victims may exist for the head of a class. False is certain."""
        workload, need = workload_class.class_queue.head().workload, workload_class.request.need
        if need.complete or need.shortfall:
            return False
        due = starves_at(workload, need, self.trial.tree)
        if (due is not None and due <= now) or not self.is_blocked(workload, need):
            return True
        self.until = soonest(self.until, due)
        return False

    def _takes(self, workload: Workload, need: MissingMembers) -> Resources:
        """What the gang asks at the least."""
        known = self._asked.get(id(need))
        if known is None:
            known = self._asked[id(need)] = (need, takes_of(workload, need.minimum))
        return known[1]

    def _free_units(self) -> Mapping[str, int]:
        """Units that are free on all nodes together, by resource."""
        if self._free is None:
            sums = self.trial.free.clip(min=0).sum(axis=1)
            self._free = dict(zip(self.trial.table.resources, sums.tolist(), strict=False))
        return self._free

    def is_blocked(self, workload: Workload, need: MissingMembers) -> bool:
        """True if no rule allows any victim for a workload, unless it starves."""
        tree, usage, own = self.trial.tree, self.trial.usage, workload.queue
        policy = tree.policy(own)
        lowest = None if policy.within_queue == "never" else self._lowest_priority(own)
        newer = policy.within_queue == "lower-or-newer-equal"
        if lowest is not None and (newer or tree.counted_priority(own, lowest) < workload.priority):
            return False
        if policy.reclaim == "never":
            return True
        if policy.borrow_max_priority is not None:
            return False
        # Some queue on its path must have room in what it deserves for all that is certainly scarce.
        free = self._free_units()
        scarce = [
            (Account(NO_FLAVOR, resource), units)
            for resource, units in self._takes(workload, need).items()
            if units > free.get(resource, 0)
        ]
        return bool(scarce) and not any(
            all(
                usage.used(name, account) + units <= tree.deserved(name, account) for account, units in scarce
            )
            for name in tree.paths[own]
            if name != ROOT
        )
