"""Victim candidates: running workloads that may be evicted, with what they hold and what evicting them costs.

A candidate is evicted whole or not at all: a gang with every admission that joined it later, or, cheaper, one
admission that joined a gang above its minimum (an elastic part).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from admission.engine.nodes.table import Amounts
from admission.engine.preemption.held_admission import HeldAdmission
from admission.engine.trial import Columns, Trial
from queues.quota.accounts import Account
from queues.quota.tree import QueueTree
from queues.workload import AdmissionId, HostPort, QueueName, Workload, WorkloadKey

#: What an eviction costs beside the lost work: ten minutes of a device, so that one victim of eight devices is
#: better than eight victims of one.
_DISTURBANCE = 600 * 16_000


class SortKey(NamedTuple):
    """Order in which candidates are chosen: the smallest key first."""

    #: True, for work on lent quota that wishes not to be evicted, comes last.
    wished: bool
    #: False, for elastic parts, comes first.
    whole: bool
    cost: int
    priority: int
    #: The second at which the newest admission was opened, negative: the newest comes first.
    newest_first: int
    uid: str
    admission: AdmissionId


class CandidateSeats(NamedTuple):
    """Seats of a candidate on known nodes."""

    #: (S,) column of the node.
    columns: Columns
    #: (R, S) what each seat takes.
    takes: Amounts
    #: Indices of seats with host ports, and the ports.
    ports: tuple[tuple[int, tuple[HostPort, ...]], ...]


@dataclass(slots=True, eq=False)
class Candidate:
    """Admissions of one workload that can be evicted together."""

    workload: Workload
    queue: QueueName
    #: Oldest first.
    admissions: tuple[HeldAdmission, ...]
    #: All that the workload holds, not an elastic part.
    whole: bool
    size: int
    pods: int
    #: Priority at which the oldest of the admissions was opened, as far as it counts in the queue now.
    priority: int
    #: Work lost (size × seconds since the last checkpoint) and the disturbance itself.
    cost: int = 0
    #: Its wish not to be evicted counts inside its queue, and not for other queues: it holds lent quota.
    protected_in_queue: bool = False
    _seats: CandidateSeats | None = None

    def count_cost(self, now: int) -> None:
        """Bring the cost up to date, and forget the protection of another second."""
        interval, cost = self.workload.checkpoint_interval, _DISTURBANCE
        for held in self.admissions:
            lost = now - held.admission.opened_at
            if lost > 0:
                cost += held.size * (lost % interval if interval else lost)
        self.cost, self.protected_in_queue = cost, False

    @property
    def sort_key(self) -> SortKey:
        """Order in which candidates are chosen."""
        newest = self.admissions[-1].admission
        return SortKey(
            self.protected_in_queue,
            self.whole,
            self.cost,
            self.priority,
            -newest.opened_at,
            self.workload.key.uid,
            newest.id,
        )

    def charged(self, account: Account) -> int:
        """Units of an account that the eviction would free."""
        return sum(held.charges.get(account, 0) for held in self.admissions)

    def seats_on(self, trial: Trial) -> CandidateSeats:
        """Its seats on nodes of the trial. Every trial that is asked about has the same layout."""
        if self._seats is None:
            position = trial.layout.position
            columns, takes, ports = list[int](), list[Amounts](), list[tuple[int, tuple[HostPort, ...]]]()
            for held in self.admissions:
                of_node = dict(held.ports)
                for seat in held.seats:
                    if (column := position.get(seat.node)) is not None:
                        if taken := of_node.pop(seat.node, ()):
                            ports.append((len(columns), taken))
                        columns.append(column)
                        takes.append(trial.vector(seat.takes))
            table = np.stack(takes, axis=1) if takes else np.zeros((len(trial.free), 0), np.int64)
            self._seats = CandidateSeats(np.array(columns, np.intp), table, tuple(ports))
        return self._seats


@dataclass(slots=True, eq=False)
class RunningWorkload:
    """A workload with what it holds in one queue."""

    workload: Workload
    queue: QueueName
    #: Its open admissions, the oldest first.
    admissions: tuple[HeldAdmission, ...]
    #: The workload as a whole, and before it each of its admissions that the gang can do without.
    candidates: tuple[Candidate, ...]
    #: The second at which administrators protect it no more, and at which its own wish counts no more
    #: (``protection``).
    administrators_end: int
    wish_end: int


class BudgetedPods(NamedTuple):
    """Pods of a workload that one PodDisruptionBudget counts."""

    #: Index in ``VictimCandidates.disruptions_left``.
    budget: int
    pods: int


@dataclass(slots=True, eq=False)
class VictimCandidates:
    """All candidates that may be evicted now, and what the disruption budgets allow."""

    of_queue: dict[QueueName, list[Candidate]] = field(default_factory=dict)
    #: The next second at which the protection of a running workload ends. None: none is protected for a time.
    until: int | None = None
    #: Pods that may still be evicted, by budget.
    disruptions_left: list[int] = field(default_factory=list)
    budgets: dict[WorkloadKey, list[BudgetedPods]] = field(default_factory=dict)

    def may_disrupt(self, workload: WorkloadKey, pods: int) -> bool:
        """True if every budget allows so many pods of a workload to be evicted."""
        return all(
            min(each.pods, pods) <= self.disruptions_left[each.budget]
            for each in self.budgets.get(workload, ())
        )

    def disrupt(self, workload: WorkloadKey, pods: int, *, times: int = 1) -> None:
        """Count so many pods of a workload as evicted; ``times=-1``: as put back."""
        for each in self.budgets.get(workload, ()):
            self.disruptions_left[each.budget] -= times * min(each.pods, pods)


def candidates_of(
    workload: Workload, queue: QueueName, admissions: Sequence[HeldAdmission], tree: QueueTree
) -> tuple[Candidate, ...]:
    """What of a workload can be evicted. ``admissions``: all that it holds, the oldest first."""
    if len(admissions) == 1:
        return (_candidate(workload, queue, tuple(admissions), tree, whole=True),)
    parts: list[Candidate] = []
    core = list(admissions)
    for held in reversed(admissions):
        if len(core) > 1 and _has_minimum_without(workload, core, held):
            core.remove(held)
            parts.append(_candidate(workload, queue, (held,), tree, whole=False))
    return (*parts, _candidate(workload, queue, tuple(admissions), tree, whole=True))


def _has_minimum_without(workload: Workload, core: Sequence[HeldAdmission], left_out: HeldAdmission) -> bool:
    """True if the gang keeps its minimum, in all and of each pod set, without one of its admissions."""
    if workload.minimum >= sum(len(held.seats) for held in core):
        return False
    counts = Counter({pods.name: len(pods.done) for pods in workload.pod_sets})
    counts.update(seat.pod_set for held in core if held is not left_out for seat in held.seats)
    enough = all(counts[pods.name] >= pods.minimum for pods in workload.pod_sets)
    return enough and sum(counts.values()) >= max(1, workload.minimum)


def _candidate(
    workload: Workload,
    queue: QueueName,
    admissions: tuple[HeldAdmission, ...],
    tree: QueueTree,
    *,
    whole: bool,
) -> Candidate:
    size = sum(held.size for held in admissions)
    pods = sum(len(held.seats) for held in admissions)
    priority = tree.counted_priority(queue, admissions[0].admission.priority)
    return Candidate(workload, queue, admissions, whole, size, pods, priority)
