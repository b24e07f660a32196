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

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Final

from admission.engine.preemption.candidates import Candidate
from queues.quota.accounts import Account
from queues.quota.queue import QueuePolicy
from queues.quota.tree import QueueTree
from queues.workload import QueueName, Workload, WorkloadKey

#: A second that does not come.
NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Protection:
    """Workloads that are protected now."""

    #: Workloads that may not be evicted.
    whole: Set[WorkloadKey]
    #: Workloads on lent quota: they may be evicted for other queues only.
    in_own_queue: Set[WorkloadKey]
    #: The next second at which one of them is protected less. None: nothing changes with time.
    until: int | None


def protection_of(running: Iterable[Candidate], tree: QueueTree, now: int) -> Protection:
    """What protects these workloads now, each given as the candidate with all that it holds.

    All are in queues of the tree.
    """
    ends: list[int] = []
    whole: set[WorkloadKey] = set()
    wishing: dict[QueueName, list[Candidate]] = {}
    for each in running:
        ends += [end for end in (each.administrators_end, each.wish_end) if now < end < NEVER]
        if each.administrators_end > now:
            whole.add(each.workload.key)
        if each.wish_end > now:
            wishing.setdefault(each.queue, []).append(each)
    for queue, workloads in wishing.items():
        whole.update(each.workload.key for each in within_deserved(workloads, queue, tree))
    wished = {each.workload.key for workloads in wishing.values() for each in workloads}
    return Protection(whole, wished - whole, min(ends, default=None))


def administrators_end(workload: Workload, last_opened: int, policy: QueuePolicy) -> int:
    """The second from which administrators do not protect a workload any more; ``NEVER``: they always do.

    ``last_opened``: the second at which its newest admission was opened.
    """
    if workload.evictions >= (policy.max_evictions or 0):
        return NEVER
    return last_opened + (policy.min_run_time or 0)


def wish_end(workload: Workload, first_opened: int, last_opened: int, policy: QueuePolicy) -> int:
    """The second at which a workload's own wish not to be evicted ends; ``NEVER``: it has no end.

    It counts from the newest admission, but for ``max_protection`` from the oldest: members that join a gang do not
    protect it anew.
    """
    end = last_opened + max(workload.min_run_time, workload.cooldown) if workload.preemptable else NEVER
    most = policy.max_protection
    return end if most is None else min(end, first_opened + most)


def within_deserved(wishing: Iterable[Candidate], queue: QueueName, tree: QueueTree) -> Iterable[Candidate]:
    """The oldest of these workloads of a queue that fit into what it deserves together."""
    held: dict[Account, int] = {}
    for each in sorted(wishing, key=lambda candidate: candidate.admissions[0].admission.id):
        more: dict[Account, int] = {}
        for admission in each.admissions:
            for account, units in admission.charges.items():
                more[account] = more.get(account, 0) + units
        after = {account: held.get(account, 0) + units for account, units in more.items()}
        if all(units <= tree.deserved(queue, account) for account, units in after.items()):
            held |= after
            yield each
