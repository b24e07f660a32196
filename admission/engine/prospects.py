"""What queues, priorities and free amounts alone tell about who could have somebody taken back."""

from collections.abc import Callable, Mapping

from admission.engine import members
from admission.engine.members import Need
from admission.engine.trial import Trial
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.resources import Resources
from queues.workload import NO_FLAVOR, QueueName, Workload


def starves_at(workload: Workload, need: Need, tree: QueueTree) -> int | None:
    """From which second on a place is cleared for a gang; None: never. Single pods never have one cleared."""
    clear_after = tree.policy(workload.queue).clear_after
    if clear_after is None or sum(len(each) for each in need.least.values()) < 2:
        return None
    return (workload.waiting_since or workload.created) + clear_after


def starves_by(workload: Workload, need: Need, tree: QueueTree, now: int) -> bool:
    """Whether a place is cleared for a gang at that second."""
    due = starves_at(workload, need, tree)
    return due is not None and due <= now


class Prospects:
    """What queues, priorities and free amounts alone tell about who could have others taken back."""

    def __init__(self, trial: Trial, lowest: Callable[[QueueName], int | None]) -> None:
        """``lowest``: the lowest priority that holds anything in a queue."""
        self.trial = trial
        self.lowest = lowest
        #: What classes ask, by what they lack: equal shapes share it.
        self._asked: dict[int, tuple[Need, Resources]] = {}
        self._free: dict[str, int] | None = None

    def asked(self, workload: Workload, need: Need) -> Resources:
        """What the gang asks at the least."""
        known = self._asked.get(id(need))
        if known is None:
            known = self._asked[id(need)] = (need, members.takes_of(workload, need.least))
        return known[1]

    @property
    def free(self) -> Mapping[str, int]:
        """What is free on all nodes together."""
        if self._free is None:
            sums = self.trial.free.clip(min=0).sum(axis=1)
            self._free = dict(zip(self.trial.table.resources, sums.tolist(), strict=False))
        return self._free

    def hopeless(self, workload: Workload, need: Need) -> tuple[str, ...] | None:
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
