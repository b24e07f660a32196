"""Which running workloads are protected from eviction, and for how long after their admission.

- From every eviction: for ``minRunTime``; and for an hour after the first eviction, twice as long after each further
  one, a day at most. So no workload is evicted more than five times in a day, or, where administrators say so, more
  than ``maxEvictions`` times in all.
- From reclaim: a gang that had waited for ``clearAfter`` keeps quota that was lent to it for a day. Without that its
  place would be asked back as soon as it was cleared. What it holds counts against its queue in the order of admission
  meanwhile. It does not keep it from a gang that waited as long in a queue that uses nothing of what is asked
  (``rules.PreemptionRights.is_owed``).
- By a wish of its user (``volcano.sh/preemptable``, ``muster.dev/min-run-time``, ``volcano.sh/cooldown-time``; the same
  holds for pods that no controller recreates).

A wish has two bounds, because it would keep quota from the queues that lent it:

- Against workloads of other queues it counts within what the queue deserves: for the oldest workloads of the queue
  with such a wish that fit into its deserved amounts together, of every resource; and not while nodes that are kept
  idle for the queue, or for one above it, bring that queue above what it deserves. Inside its own queue, where nothing
  is lent, it always counts.
- It counts for ``maxProtection`` after the admission, as does what a gang was lent.
"""

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Final

from admission.engine.preemption.candidates import Candidate
from queues.admissions import DAY, rest_after
from queues.quota.accounts import Account
from queues.quota.queue import QueuePolicy
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
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


def protection_of(
    running: Iterable[Candidate],
    tree: QueueTree,
    now: int,
    borrows: Callable[[QueueName], bool] = lambda queue: False,
) -> Protection:
    """What protects these workloads now, each given as the candidate with all that it holds.

    All are in queues of the tree. ``borrows``: whether what is kept idle for a queue brings it above what it deserves:
    then wishes count against no other queue.
    """
    ends: list[int] = []
    whole: set[WorkloadKey] = set()
    wishing: dict[QueueName, list[Candidate]] = {}
    for each in running:
        ends += [
            end for end in (each.evictable_from, each.reclaimable_from, each.wish_end) if now < end < NEVER
        ]
        if each.evictable_from > now:
            whole.add(each.workload.key)
        if each.wish_end > now:
            wishing.setdefault(each.queue, []).append(each)
    for queue, workloads in wishing.items():
        if not borrows(queue):
            whole.update(each.workload.key for each in within_deserved(workloads, queue, tree))
    wished = {each.workload.key for workloads in wishing.values() for each in workloads}
    return Protection(whole, wished - whole, min(ends, default=None))


def keeps_beyond_deserved(usage: Usage, queue: QueueName) -> bool:
    """Whether what is kept idle brings a queue or one above it above what it deserves."""
    return bool(usage.keeping) and any(map(usage.is_kept_beyond_deserved, usage.tree.paths[queue]))


def evictable_from(workload: Workload, last_opened: int, policy: QueuePolicy) -> int:
    """The second from which on no rule protects a workload from every eviction; ``NEVER``: one always does.

    ``last_opened``: the second at which its newest admission was opened.
    """
    seconds, evictions = policy.min_run_time or 0, workload.evictions
    if policy.max_evictions is not None and evictions >= policy.max_evictions:
        return NEVER
    return last_opened + max(seconds, rest_after(evictions))


def reclaimable_from(workload: Workload, first_opened: int, policy: QueuePolicy) -> int:
    """The second from which on other queues may reclaim what a workload holds, whatever they lack.

    ``first_opened``: the second at which its oldest admission was opened: members that join a gang did not wait.
    """
    waited = first_opened - (workload.waiting_since or workload.created)
    if workload.minimum < 2 or policy.clear_after is None or waited < policy.clear_after:
        return first_opened
    most = policy.max_protection
    return first_opened + (DAY if most is None else min(DAY, most))


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
