"""Which running workloads are protected from eviction, and for how long after their start.

All times count from the start of the workload: from the second since which it holds seats without a break. Members that
join a gang, or follow others that ended, do not begin them anew (``docs/explanation/preemption.md`` lists all that is
granted from a time).

- From every eviction: for ``minRunTime``; and for an hour after the first eviction, twice as long after each further
  one, a day at most. So no workload is evicted more than five times in a day, or, where administrators say so, more
  than ``maxEvictions`` times in all. Against a reclaim by work that has waited for ``clearAfter``, and since before the
  start, ``minRunTime`` does not count, and the rest only from the eviction on: what stops and starts again, or follows
  what stopped, keeps nothing from an owner that waits. An elastic part has these times from its own opening, for itself
  alone, and they keep no lent quota: what a gang has above its minimum can be reclaimed at any time.
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
- It counts for ``maxProtection`` after the start, as does what a gang was lent.

A PodDisruptionBudget that keeps pods of a workload counts against a reclaim as such a wish: without end within what the
queue deserves; on lent quota for ``maxProtection``, or for hours where that is unset. Against other rules it has no
end.

A right that its holder can renew has no end, so all that is granted from a time on begins with something that only
Muster, an administrator or another tenant brings about, or ends what it has already.
"""

from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import dataclass
from typing import Final

from admission.engine.preemption.candidates import Candidate
from queues.eviction_rest import DAY, rest_after
from queues.quota.accounts import Account
from queues.quota.queue import QueuePolicy
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.workload import QueueName, Workload, WorkloadKey

#: A second that does not come.
NEVER: Final = 1 << 62

#: Seconds from the start of a workload for which disruption budgets keep what it was lent, if its queue says nothing
#: else (``maxProtection``).
BUDGETS_KEEP_LENT_QUOTA: Final = 4 * 3600


@dataclass(frozen=True, slots=True)
class Protection:
    """Workloads that are protected now."""

    #: Workloads that no rule lets go, but for elastic parts on lent quota …
    resting: Set[WorkloadKey]
    #: … or that a reclaim lets go, by work that has waited since before their start.
    owed: Set[WorkloadKey]
    #: Workloads whose wish counts against all: nothing of them goes.
    kept: Set[WorkloadKey]
    #: Workloads on lent quota: they may be evicted for other queues only.
    in_own_queue: Set[WorkloadKey]
    #: Workloads whose disruption budgets do not count against a reclaim any more.
    beyond_budgets: Set[WorkloadKey]
    #: The next second at which one of them is protected less. None if nothing changes with time.
    until: int | None


def protection_of(
    running: Iterable[Candidate],
    tree: QueueTree,
    now: int,
    borrows: Callable[[QueueName], bool] = lambda queue: False,
    budgeted: Collection[WorkloadKey] = (),
) -> Protection:
    """What protects these workloads now, each given as the candidate with all that it holds.

    All are in queues of the tree. ``borrows``: whether what is kept idle for a queue brings it above what it deserves:
    then wishes count against no other queue. ``budgeted``: workloads with pods that a disruption budget keeps now.
    """
    ends: list[int] = []
    resting: set[WorkloadKey] = set()
    owed: set[WorkloadKey] = set()
    wishing: dict[QueueName, list[Candidate]] = {}
    for each in running:
        ends += [
            end for end in (each.evictable_from, each.reclaimable_from, each.wish_end) if now < end < NEVER
        ]
        if each.evictable_from > now:
            until = owed_from(each.workload, each.started, tree.policy(each.queue))
            if now < until < NEVER:
                ends.append(until)
            (resting if until > now else owed).add(each.workload.key)
        if each.wish_end > now or each.workload.key in budgeted:
            wishing.setdefault(each.queue, []).append(each)
    deserved: set[WorkloadKey] = set()
    for queue, workloads in wishing.items():
        if not borrows(queue):
            deserved.update(each.workload.key for each in within_deserved(workloads, queue, tree))
    every = [each for workloads in wishing.values() for each in workloads]
    wished = {each.workload.key for each in every if each.wish_end > now}
    lent = [each for each in every if each.workload.key in budgeted and each.workload.key not in deserved]
    budgets_ends = {each.workload.key: budgets_end(each.started, tree.policy(each.queue)) for each in lent}
    ends += [end for end in budgets_ends.values() if end > now]
    return Protection(
        resting=resting,
        owed=owed,
        kept=wished & deserved,
        in_own_queue=wished - deserved - resting,
        beyond_budgets={key for key, end in budgets_ends.items() if end <= now},
        until=min(ends, default=None),
    )


def keeps_beyond_deserved(usage: Usage, queue: QueueName) -> bool:
    """Whether what is kept idle brings a queue or one above it above what it deserves."""
    return bool(usage.keeping) and any(map(usage.is_kept_beyond_deserved, usage.tree.paths[queue]))


def evictable_from(workload: Workload, started: int, policy: QueuePolicy) -> int:
    """The second from which on no rule protects a workload from every eviction; ``NEVER``: one always does.

    ``started``: the second since which it holds seats without a break; of an elastic part, that of its opening.
    """
    seconds, evictions = policy.min_run_time or 0, workload.evictions
    if policy.max_evictions is not None and evictions >= policy.max_evictions:
        return NEVER
    return started + max(seconds, rest_after(evictions))


def owed_from(workload: Workload, started: int, policy: QueuePolicy) -> int:
    """The second from which on a workload may be evicted for owners that have waited since before its start.

    0: its last eviction, if there was one, protects it no longer.
    """
    if policy.max_evictions is not None and workload.evictions >= policy.max_evictions:
        return NEVER
    return (workload.waiting_since or started) + rest_after(workload.evictions) if workload.evictions else 0


def reclaimable_from(workload: Workload, started: int, policy: QueuePolicy) -> int:
    """The second from which on other queues may reclaim what a workload holds, whatever they lack."""
    waited = started - (workload.waiting_since or workload.created)
    if workload.minimum < 2 or policy.clear_after is None or waited < policy.clear_after:
        return started
    most = policy.max_protection
    return started + (DAY if most is None else min(DAY, most))


def wish_end(workload: Workload, started: int, policy: QueuePolicy) -> int:
    """The second at which a workload's own wish not to be evicted ends; ``NEVER``: it has no end."""
    end = started + max(workload.min_run_time, workload.cooldown) if workload.preemptable else NEVER
    most = policy.max_protection
    return end if most is None else min(end, started + most)


def budgets_end(started: int, policy: QueuePolicy) -> int:
    """The second from which on disruption budgets keep nothing that was lent to a workload."""
    most = policy.max_protection
    return started + (BUDGETS_KEEP_LENT_QUOTA if most is None else most)


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
