"""Victim candidates: running workloads that may be evicted, with what they hold and what evicting them costs.

A candidate is evicted whole or not at all: a gang with every admission that joined it later, or, cheaper, one
admission that joined a gang above its minimum (an elastic part).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from admission.engine.nodes.host_ports import ports_of
from admission.engine.preemption.held_admission import ChargesByShape, HeldAdmission
from admission.engine.preemption.protection import RunningWorkload, protection_of
from admission.engine.snapshot import Snapshot
from queues.admissions import AdmissionState
from queues.quota.accounts import Account
from queues.quota.tree import QueueTree
from queues.workload import AdmissionId, QueueName, Workload, WorkloadKey

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


@dataclass(slots=True, eq=False)
class Candidate:
    """Admissions of one workload that can be evicted together."""

    workload: Workload
    queue: QueueName
    #: Oldest first.
    admissions: tuple[HeldAdmission, ...]
    #: Work lost (size × seconds since the last checkpoint) and the disturbance itself.
    cost: int
    size: int
    pods: int
    sort_key: SortKey

    @property
    def protected_in_queue(self) -> bool:
        """True: its wish not to be evicted counts inside its queue, and not for other queues: it holds lent quota."""
        return self.sort_key.wished

    @property
    def priority(self) -> int:
        """Priority at which the oldest of the admissions was opened, as far as it counts in the queue now."""
        return self.sort_key.priority

    def charged(self, account: Account) -> int:
        """Units of an account that the eviction would free."""
        return sum(held.charges.get(account, 0) for held in self.admissions)


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


def victim_candidates(
    snapshot: Snapshot, tree: QueueTree, held_admissions: Mapping[AdmissionId, HeldAdmission]
) -> VictimCandidates:
    """Candidates among all running workloads.

    ``held_admissions``: every admission; seats that end in this turn (``Snapshot.ended``) are left out here.
    """
    of_workload: dict[WorkloadKey, tuple[Workload, list[HeldAdmission]]] = {}
    leaving = Counter[WorkloadKey]()
    shapes, holders = ChargesByShape(), snapshot.holders
    for number, whole in held_admissions.items():
        admission = whole.admission
        holder = holders.get(admission.workload)
        if holder is None:
            continue
        if admission.state is not AdmissionState.OPEN or number in snapshot.evictable:
            leaving[admission.workload] += len(admission.seats)
            continue
        ending = snapshot.ended.get(number)
        held = whole if ending is None else shapes.hold(admission, ending)
        if held.holder is not holder:
            held.holder, held.ports = holder, ports_of(holder, held.seats)
        if held.seats:
            of_workload.setdefault(admission.workload, (holder, []))[1].append(held)
    running = [
        RunningWorkload(workload, queue, sorted(admissions, key=lambda held: held.admission.id))
        for workload, admissions in of_workload.values()
        if (queue := admissions[0].admission.queue) in tree.paths
    ]
    protection = protection_of(running, tree, snapshot.now)
    found = VictimCandidates(until=protection.until)
    for each in running:
        key = each.workload.key
        if key not in protection.whole:
            candidates = _candidates(each, tree, snapshot.now, wished=key in protection.in_own_queue)
            found.of_queue.setdefault(each.queue, []).extend(candidates)
    _count_budgets(found, snapshot, leaving)
    return found


def _count_budgets(found: VictimCandidates, snapshot: Snapshot, leaving: Mapping[WorkloadKey, int]) -> None:
    """Enter what the disruption budgets allow. ``leaving``: pods that are being removed already, by workload."""
    for index, budget in enumerate(snapshot.budgets):
        # Kubernetes may still count pods that are leaving already.
        uncounted = sum(min(leaving.get(key, 0), pods) for key, pods in budget.pods.items())
        found.disruptions_left.append(max(0, budget.allowed - uncounted))
        for key, pods in budget.pods.items():
            found.budgets.setdefault(key, []).append(BudgetedPods(index, pods))


def _candidates(running: RunningWorkload, tree: QueueTree, now: int, *, wished: bool) -> list[Candidate]:
    """The workload as a whole, and before it each of its admissions that the gang can do without.

    ``wished``: its wish not to be evicted counts inside its queue only.
    """
    if len(running.admissions) == 1:
        return [_candidate(running, tuple(running.admissions), tree, now, wished=wished)]
    parts: list[tuple[HeldAdmission, ...]] = []
    core = list(running.admissions)
    for held in reversed(running.admissions):
        if len(core) > 1 and _has_minimum_without(running.workload, core, held):
            core.remove(held)
            parts.append((held,))
    parts.append(tuple(running.admissions))
    return [_candidate(running, part, tree, now, wished=wished) for part in parts]


def _has_minimum_without(workload: Workload, core: Sequence[HeldAdmission], left_out: HeldAdmission) -> bool:
    """True if the gang keeps its minimum, in all and of each pod set, without one of its admissions."""
    if workload.minimum >= sum(len(held.seats) for held in core):
        return False
    counts = Counter({pods.name: len(pods.done) for pods in workload.pod_sets})
    counts.update(seat.pod_set for held in core if held is not left_out for seat in held.seats)
    enough = all(counts[pods.name] >= pods.minimum for pods in workload.pod_sets)
    return enough and sum(counts.values()) >= max(1, workload.minimum)


def _candidate(
    running: RunningWorkload,
    admissions: tuple[HeldAdmission, ...],
    tree: QueueTree,
    now: int,
    *,
    wished: bool,
) -> Candidate:
    """These admissions of a workload: all of them, or an elastic part."""
    workload, queue = running.workload, running.queue
    cost, size, pods = _DISTURBANCE, 0, 0
    for held in admissions:
        lost = max(0, now - held.admission.opened_at)
        if workload.checkpoint_interval:
            lost %= workload.checkpoint_interval
        cost += held.size * lost
        size += held.size
        pods += len(held.seats)
    oldest, newest = admissions[0].admission, admissions[-1].admission
    priority = tree.counted_priority(queue, oldest.priority)
    whole = len(admissions) == len(running.admissions)
    sort_key = SortKey(wished, whole, cost, priority, -newest.opened_at, workload.key.uid, newest.id)
    return Candidate(workload, queue, admissions, cost, size, pods, sort_key)
