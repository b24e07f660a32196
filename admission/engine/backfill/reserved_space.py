"""What is reserved for a gang that cannot start now, and which workloads it keeps off.

Only what is free now is reserved: amounts of nodes, host ports there, and quota, each as far as the gang will need
it when the admissions that are expected to go first are gone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from admission.engine.claims import amounts_per_node
from admission.engine.nodes.host_ports import NodePorts, ports_of
from admission.engine.nodes.table import Amounts
from admission.engine.pending.waiting_time import run_time_class
from admission.engine.placement import gangs
from admission.engine.placement.need import MissingMembers, size_of
from admission.engine.preemption.protection import NEVER, evictable_from, wish_end
from admission.engine.trial import Columns, Trial
from queues.api import names
from queues.order.policies import LineEntry
from queues.order.shares import below_deserved
from queues.plan import Admit
from queues.quota.accounts import Account
from queues.quota.queue import ROOT, QueuePolicy
from queues.quota.tree import QueueTree
from queues.text_format import span
from queues.workload import QueueName, Workload


class ClearingRule:
    """Which work may be cleared away for one gang, and when.

    Asked about all that runs, so that it looks only once at each queue.
    """

    __slots__ = ("_head", "_policies", "_size", "_tree")

    def __init__(self, head: Workload, tree: QueueTree) -> None:
        """``head``: the gang."""
        self._head = head
        self._tree = tree
        self._size = _size(head)
        #: Of queues; None if nothing in them may be cleared away for the gang.
        self._policies: dict[QueueName, QueuePolicy | None] = {}

    def clearable_from(self, workload: Workload, admitted_at: int) -> int:
        """The second from which on a workload admitted then may be cleared away; ``NEVER``: it may not."""
        queue = workload.queue
        if queue not in self._policies:
            self._policies[queue] = self._policy(queue)
        policy = self._policies[queue]
        if policy is None or self._tree.counted_priority(queue, workload.priority) > self._head.priority:
            return NEVER
        # Only smaller single pods are cleared away (admission.engine.preemption.rules).
        if sum([pods.wanted_count() for pods in workload.pod_sets]) > 1 or _size(workload) >= self._size:
            return NEVER
        # As if the wish of its user counted: whether it is within what the queue deserves then is not known now.
        wish = wish_end(workload, admitted_at, policy)
        return max(evictable_from(workload, admitted_at, policy), wish)

    def _policy(self, queue: QueueName) -> QueuePolicy | None:
        tree, head = self._tree, self._head
        if queue not in tree.paths or not head.preempts or not tree.reclaimable(queue, head.queue):
            return None
        return tree.policy(queue)


def _size(workload: Workload) -> int:
    return size_of((pods.takes, pods.wanted_count()) for pods in workload.pod_sets)


class FutureFit(NamedTuple):
    """How a gang fits a future world."""

    #: The future world, with the gang in its seats.
    world: Trial
    admit: Admit


def fit_in(world: Trial, workload: Workload, need: MissingMembers) -> FutureFit | None:
    """How a gang fits a future world, which is changed. None if it does not."""
    answer = gangs.admit(workload, need, world)
    return FutureFit(world, answer) if isinstance(answer, Admit) else None


class ReservedQuota(NamedTuple):
    """Quota of one queue on the gang's path that is kept, beyond what is kept of queues below it."""

    queue: QueueName
    amounts: Mapping[Account, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReservedSpace:
    """Where and when a gang is to start, or the quota for it."""

    #: The gang.
    entry: LineEntry
    #: The second by which everything should be free. None if unknown.
    free_at: int | None = None
    #: The second from which on a place may be cleared for the gang. None if never.
    clears_from: int | None = None
    #: Its nodes …
    columns: Columns
    #: … (R, n) what of them, free now, no other workload may hold at that time …
    amounts: Amounts
    #: … and host ports.
    ports: Sequence[NodePorts] = ()
    quota: Sequence[ReservedQuota] = ()
    #: The gang could start now: all this is kept until it was tried.
    fits_now: bool = False
    #: It is first in line, and can start when what is being removed now is gone (``backfill.coming_room``).
    comes_soon: bool = False

    @classmethod
    def of(cls, entry: LineEntry, trial: Trial, fit: FutureFit) -> "ReservedSpace":
        """What of the trial must be kept for a gang to fit that future world."""
        seats = fit.admit.seats
        columns, _ = amounts_per_node(seats, trial)
        left = np.maximum(fit.world.free[:, columns], 0)
        return cls(
            entry=entry,
            columns=columns,
            amounts=np.maximum(trial.free[:, columns] - left, 0),
            ports=ports_of(entry.workload, seats),
            quota=_quota(entry.workload.queue, trial, fit.world),
        )

    def is_delayed_by(self, entry: LineEntry, now: int, trial: Trial) -> bool:
        """True if a workload that is admitted now could be in the gang's way and has no right to be."""
        mine, other = self.entry.workload, entry.workload
        if other.key == mine.key or other.priority > mine.priority:
            return False
        if self.free_at is not None:
            run_time = run_time_class(other)
            if run_time is not None and now + run_time <= self.free_at:
                return False
            clearable = ClearingRule(mine, trial.tree).clearable_from(other, now)
            if self.clears_from is not None and max(self.clears_from, clearable) <= self.free_at:
                return False
        if other.queue == mine.queue:
            return True
        usage = trial.usage
        owed = below_deserved(usage, other.queue, entry.accounts)
        return not owed or below_deserved(usage, mine.queue, self.entry.accounts)

    def why_delayed_by(self, workload: Workload) -> str:
        """Why a workload would be in the way when the gang can start, by which run time, and what would let it pass;
        "": nothing would."""
        if self.free_at is None:
            return ""
        seconds = run_time_class(workload)
        ends = "it states no run time, so it counts as one without end"
        if seconds is not None:
            ends = f"its run time counts as {span(seconds)}, as it states {span(workload.run_time or 0)}"
        way = f"a run time that ends before then ({names.RUN_TIME})"
        if self.clears_from is None:
            return f"{ends}. What lets it pass: {way}"
        if not workload.preemptable:
            stays = (
                "is not preemptable (as a pod that nothing would start again), so it is never cleared away"
            )
            return f'it {stays}, and {ends}. What lets it pass: {names.PREEMPTABLE} "true", or {way}'
        return f"it could not be cleared away by then, and {ends}. What lets it pass: {way}"

    def withhold(self, trial: Trial) -> None:
        """Take it out of a trial, until ``release``."""
        self._change(trial, 1)
        trial.ports.occupy(self.ports)

    def release(self, trial: Trial) -> None:
        """Undo ``withhold``."""
        self._change(trial, -1)
        trial.ports.vacate(self.ports)

    def _change(self, trial: Trial, times: int) -> None:
        trial.add_free(self.columns, -times * self.amounts)
        trial.mark_dirty(self.columns)
        for each in self.quota:
            trial.usage.add(each.queue, each.amounts, times=times)


def limiting_queues(queue: QueueName, tree: QueueTree) -> Sequence[QueueName]:
    """The queue and those above it that have a limit; the size of the cluster alone is none."""
    return [
        name
        for name in tree.paths.get(queue, ())
        if (bool(tree.idle[ROOT]) if name == ROOT else bool(tree.capabilities[name]))
    ]


def _quota(queue: QueueName, trial: Trial, world: Trial) -> Sequence[ReservedQuota]:
    """What each limiting queue will count more in a future world, as far as it is free now."""
    tree, now, then = trial.tree, trial.usage, world.usage
    quota = []
    kept = now.copy()
    for name in limiting_queues(queue, tree):
        amounts = {}
        for account, limit in tree.capabilities[name].items():
            counted = now.counted(name, account)
            most = max(0, min(then.counted(name, account), limit) - counted)
            if more := counted + most - kept.counted(name, account):
                amounts[account] = more
        if amounts:
            kept.add(name, amounts)
            quota.append(ReservedQuota(name, amounts))
    return quota
