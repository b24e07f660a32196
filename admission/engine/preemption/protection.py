"""Which running workloads are protected from eviction: by their administrators, or by their own wish.

Administrators protect the work of a queue for a time after its start (``minRunTime``), and after so many evictions
(``maxEvictions``). Users may wish that their work is left alone (``volcano.sh/preemptable``,
``muster.dev/min-run-time``, ``volcano.sh/cooldown-time``; the same holds for pods that no controller recreates). A wish
has two bounds, because it would keep quota from the queues that lent it:

- Against workloads of other queues it counts within what the queue deserves: for the oldest workloads of the queue
  with such a wish that fit into its deserved amounts together, of every resource. Inside its own queue, where nothing
  is lent, it always counts.
- It counts for ``maxProtection`` after the admission.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Final, NamedTuple

from admission.engine.preemption.held_admission import HeldAdmission
from queues.quota.accounts import Account
from queues.quota.queue import QueuePolicy
from queues.quota.tree import QueueTree
from queues.workload import QueueName, Workload, WorkloadKey

#: A second that does not come.
NEVER: Final = 1 << 62


class RunningWorkload(NamedTuple):
    """A workload with what it holds in one queue."""

    workload: Workload
    queue: QueueName
    #: Its open admissions, the oldest first.
    admissions: Sequence[HeldAdmission]

    @property
    def first_opened(self) -> int:
        """The second at which its oldest admission was opened."""
        return min(held.admission.opened_at for held in self.admissions)

    @property
    def last_opened(self) -> int:
        """The second at which its newest admission was opened."""
        return max(held.admission.opened_at for held in self.admissions)


@dataclass(frozen=True, slots=True)
class Protection:
    """Workloads that are protected now."""

    #: Workloads that may not be evicted.
    whole: Set[WorkloadKey]
    #: Workloads on lent quota: they may be evicted for other queues only.
    in_own_queue: Set[WorkloadKey]
    #: The next second at which one of them is protected less. None: nothing changes with time.
    until: int | None


def protection_of(running: Iterable[RunningWorkload], tree: QueueTree, now: int) -> Protection:
    """What protects these workloads now. All are in queues of the tree."""
    ends: list[int] = []
    whole: set[WorkloadKey] = set()
    wishing: dict[QueueName, list[RunningWorkload]] = {}
    for each in running:
        policy = tree.policy(each.queue)
        by_administrators = _end_for_administrators(each, policy)
        by_wish = wish_ends(each.workload, each.first_opened, each.last_opened, policy)
        ends += [end for end in (by_administrators, by_wish) if now < end < NEVER]
        if by_administrators > now:
            whole.add(each.workload.key)
        if by_wish > now:
            wishing.setdefault(each.queue, []).append(each)
    for queue, workloads in wishing.items():
        whole.update(each.workload.key for each in within_deserved(workloads, queue, tree))
    wished = {each.workload.key for workloads in wishing.values() for each in workloads}
    return Protection(whole, wished - whole, min(ends, default=None))


def wish_ends(workload: Workload, first_opened: int, last_opened: int, policy: QueuePolicy) -> int:
    """The second at which a workload's own wish not to be evicted ends; ``NEVER``: it has no end.

    It counts from the newest admission, but for ``max_protection`` from the oldest: members that join a gang do not
    protect it anew.
    """
    end = last_opened + max(workload.min_run_time, workload.cooldown) if workload.preemptable else NEVER
    most = policy.max_protection
    return end if most is None else min(end, first_opened + most)


def _end_for_administrators(running: RunningWorkload, policy: QueuePolicy) -> int:
    if running.workload.evictions >= (policy.max_evictions or 0):
        return NEVER
    return running.last_opened + (policy.min_run_time or 0)


def within_deserved(
    wishing: Iterable[RunningWorkload], queue: QueueName, tree: QueueTree
) -> Iterable[RunningWorkload]:
    """The oldest of these workloads of a queue that fit into what it deserves together."""
    held: dict[Account, int] = {}
    for each in sorted(wishing, key=lambda running: running.admissions[0].admission.id):
        more: dict[Account, int] = {}
        for admission in each.admissions:
            for account, units in admission.charges.items():
                more[account] = more.get(account, 0) + units
        after = {account: held.get(account, 0) + units for account, units in more.items()}
        if all(units <= tree.deserved(queue, account) for account, units in after.items()):
            held |= after
            yield each
