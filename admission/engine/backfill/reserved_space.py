"""What is kept for somebody who cannot start now, and who is to stay off it.

Kept is only what is free: room on nodes, host ports there, and quota, each so far as it will be needed when those
are gone who are expected to go first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from admission.engine.claims import amounts_per_node
from admission.engine.nodes.host_ports import OnNode, ports_of
from admission.engine.nodes.table import Amounts
from admission.engine.pending.waiting_time import run_time_class
from admission.engine.placement.need import size_of
from admission.engine.trial import Columns, Trial
from queues.order.policies import LineEntry
from queues.order.shares import below_deserved
from queues.plan import Admit
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.workload import QueueName, Workload

#: A second that does not come.
NEVER = 1 << 62


def clearable(workload: Workload, admitted_at: int, head: Workload, tree: QueueTree) -> int:
    """From when on somebody admitted at that second may be cleared away for the head; ``NEVER``: never."""
    policy = tree.policy(workload.queue) if workload.queue in tree.paths else None
    if policy is None or not workload.preemptable or workload.priority > head.priority:
        return NEVER
    # Only single pods go, and only what is smaller (admission.engine.preemption.rules).
    if sum(len(pods.wanted()) for pods in workload.pod_sets) > 1 or _size(workload) >= _size(head):
        return NEVER
    if workload.evictions >= (policy.max_evictions or 0):
        return NEVER
    if not tree.reclaimable(workload.queue, head.queue):
        return NEVER
    return admitted_at + max(policy.min_run_time or 0, workload.min_run_time, workload.cooldown)


def _size(workload: Workload) -> int:
    return size_of((pods.takes, len(pods.wanted())) for pods in workload.pod_sets)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReservedSpace:
    """Where and when somebody is to start, or of which quota."""

    candidate: LineEntry
    #: Seconds since the epoch at which all should be free, at the latest; None: nobody knows.
    at: int | None = None
    #: From when on (seconds since the epoch) a place may be cleared for it; None: never.
    clears: int | None = None
    #: Its nodes …
    columns: Columns
    #: … (R, n) what of them, free now, nobody may hold at that time …
    withheld: Amounts
    #: … and host ports.
    ports: Sequence[OnNode] = ()
    #: The same of the quota of queues on its path, so that all of them together come to what is kept of each.
    books: Sequence[tuple[QueueName, Mapping[Account, int]]] = ()
    #: It could start now: all this is for it until it was tried.
    due: bool = False

    def is_delayed_by(self, candidate: LineEntry, now: int, trial: Trial) -> bool:
        """Whether somebody who is admitted now could be in the way, and has no right to be."""
        mine, other = self.candidate.workload, candidate.workload
        if other.key == mine.key or other.priority > mine.priority:
            return False
        if not len(self.columns) and not self._shares_quota(other.queue, trial.tree):
            return False
        if self.at is not None:
            run_time = run_time_class(other)
            if run_time is not None and now + run_time <= self.at:
                return False
            cleared = clearable(other, now, mine, trial.tree)
            if self.clears is not None and max(self.clears, cleared) <= self.at:
                return False
        if other.queue == mine.queue:
            return True
        usage = trial.usage
        owed = below_deserved(usage, other.queue, candidate.accounts)
        return not owed or below_deserved(usage, mine.queue, self.candidate.accounts)

    def without_place(self) -> "ReservedSpace":
        """The same, but nothing of nodes."""
        none = self.columns[:0]
        return replace(self, columns=none, withheld=self.withheld[:, none], ports=())

    def _shares_quota(self, queue: QueueName, tree: QueueTree) -> bool:
        path = tree.paths[queue]
        return any(name in path for name, _ in self.books)

    def withhold(self, trial: Trial) -> None:
        """Nobody has it, until it is let go."""
        self._change(trial, 1)
        trial.ports.occupy(self.ports)

    def let_go(self, trial: Trial) -> None:
        """The contrary of ``withhold``."""
        self._change(trial, -1)
        trial.ports.vacate(self.ports)

    def _change(self, trial: Trial, times: int) -> None:
        if len(self.columns):
            trial.free[:, self.columns] -= times * self.withheld
            trial.mark_dirty(self.columns)
        for name, amounts in self.books:
            trial.usage.add(name, amounts, times=times)


def of_place(
    candidate: LineEntry,
    trial: Trial,
    later: Trial,
    answer: Admit,
    *,
    at: int | None = None,
    clears: int | None = None,
    due: bool = False,
) -> ReservedSpace:
    """What is to be kept for somebody who has these seats in a later world, others being gone by then."""
    columns, _ = amounts_per_node(answer.seats, trial)
    left = np.maximum(later.free[:, columns], 0)
    return ReservedSpace(
        candidate=candidate,
        at=at,
        clears=clears,
        columns=columns,
        withheld=np.maximum(trial.free[:, columns] - left, 0),
        ports=ports_of(candidate.workload, answer.seats),
        books=_books(candidate.workload.queue, trial, later),
        due=due,
    )


def limits_on(queue: QueueName, tree: QueueTree) -> Sequence[QueueName]:
    """The queue and those above it, as far as they limit it otherwise than by the size of the cluster."""
    return [
        name
        for name in tree.paths.get(queue, ())
        if (bool(tree.idle[ROOT]) if name == ROOT else bool(tree.capabilities[name]))
    ]


def _books(queue: QueueName, trial: Trial, later: Trial) -> Sequence[tuple[QueueName, Mapping[Account, int]]]:
    """What more each queue that limits it will count later, as far as it is free now."""
    tree, now, then = trial.tree, trial.usage, later.usage
    books = []
    kept = now.copy()
    for name in limits_on(queue, tree):
        amounts = {}
        for account, limit in tree.capabilities[name].items():
            counted = now.counted(name, account)
            most = max(0, min(then.counted(name, account), limit) - counted)
            if more := counted + most - kept.counted(name, account):
                amounts[account] = more
        if amounts:
            kept.add(name, amounts)
            books.append((name, amounts))
    return books
