"""Running workloads as candidates for eviction, followed from turn to turn, since a turn changes few of them.

Built from nothing, the candidates are the same.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from admission.engine.closures.closing import keeping_quota
from admission.engine.forced_changes import OpenAdmissions
from admission.engine.nodes.host_ports import ports_of
from admission.engine.pending.waiting_time import soonest
from admission.engine.preemption.candidates import (
    BudgetedPods,
    Candidate,
    ChargesByShape,
    HeldAdmission,
    VictimCandidates,
)
from admission.engine.preemption.protection import (
    NEVER,
    Protection,
    evictable_from,
    keeps_beyond_deserved,
    protection_of,
    reclaimable_from,
    wish_end,
)
from admission.engine.snapshot import Snapshot
from queues.admissions import AdmissionState
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.workload import AdmissionId, QueueName, Workload, WorkloadKey

#: What of a workload can be evicted: each of its admissions that the gang can do without, and last all that it holds.
#: Empty: nothing.
_Candidates = tuple[Candidate, ...]


class RunningWorkloads:
    """Workloads with open admissions in queues of one tree."""

    def __init__(
        self,
        tree: QueueTree,
        open_admissions: OpenAdmissions,
        held_admissions: Mapping[AdmissionId, HeldAdmission],
    ) -> None:
        """``open_admissions``, ``held_admissions``: of the snapshot. Their changes are reported by ``mark_dirty``."""
        self.held_admissions = held_admissions
        self._tree = tree
        self._open_admissions = open_admissions
        self._shapes = ChargesByShape()
        #: None for every workload. Where no turn asks for candidates, nothing is followed.
        self._dirty: dict[WorkloadKey, None] | None = None
        self._by_queue: dict[QueueName, dict[WorkloadKey, _Candidates]] = {}
        self._running: dict[WorkloadKey, _Candidates] = {}
        #: Candidates of those that something may protect still, as far as was known at ``_now``.
        self._protectable: dict[WorkloadKey, _Candidates] = {}
        self._now = 0

    def mark_dirty(self, keys: Collection[WorkloadKey]) -> None:
        """Admissions or the holder of these workloads are other ones now."""
        if self._dirty is None:
            return
        self._dirty.update(dict.fromkeys(keys))
        if len(self._dirty) > len(self.held_admissions):
            self._dirty = None

    def candidates(self, snapshot: Snapshot, usage: Usage) -> VictimCandidates:
        """Candidates that may be evicted now. Seats that end in this turn (``Snapshot.ended``) are left out.

        ``usage``: when all that leaves is gone.
        """
        self._follow(snapshot)
        changing = self._changing(snapshot)
        found = self.budgets(snapshot)
        protectable = [each for key, each in self._protectable.items() if key not in changing]
        protectable += [
            self._running[key]
            for key in found.budgets
            if key in self._running and key not in self._protectable and key not in changing
        ]
        protectable += [each for each in changing.values() if each]
        protection = self.protection([each[-1] for each in protectable], usage, snapshot.now, found)
        found.beyond_budgets = protection.beyond_budgets
        parts = (part.evictable_from for each in protectable for part in each[:-1])
        found.until = soonest(protection.until, *(end for end in parts if snapshot.now < end < NEVER))
        left_out = changing.keys() | protection.resting | protection.kept
        for queue, running in self._by_queue.items():
            allowed = [
                candidate
                for key, candidates in running.items()
                if key not in left_out
                for candidate in candidates
            ]
            if allowed:
                found.of_queue[queue] = allowed
        for key in protection.resting - changing.keys():
            changing[key] = self._running[key]
        for key, candidates in changing.items():
            allowed = [*candidates[:-1]] if key in protection.resting else [*candidates]
            if allowed and key not in protection.kept:
                found.of_queue.setdefault(allowed[-1].queue, []).extend(allowed)
        for queue, allowed in found.of_queue.items():
            self._price(queue, allowed, snapshot.now)
        for key in keeping_quota(snapshot, self._open_admissions, self._tree):
            for candidate in changing[key] if key in changing else self._running.get(key, ()):
                candidate.keeps_quota = True
        for key in protection.in_own_queue:
            for candidate in changing[key] if key in changing else self._running[key]:
                candidate.protected_in_queue = True
        return found

    def _price(self, queue: QueueName, candidates: Sequence[Candidate], now: int) -> None:
        """Bring candidates of a queue up to date, with what evicting each costs."""
        for candidate in candidates:
            candidate.follow(now)
        costs = self._tree.policies(queue).victim_cost.costs(candidates, now)
        for candidate, cost in zip(candidates, costs, strict=True):
            candidate.cost = cost

    def protection(
        self, running: Sequence[Candidate], usage: Usage, now: int, found: VictimCandidates
    ) -> Protection:
        """What protects these workloads, each given as all that it holds, by what budgets allow (``found``)."""
        budgeted = {
            each.workload.key
            for each in running
            if found.budgets and not found.may_disrupt(each.workload.key, each.pods)
        }
        return protection_of(
            running, self._tree, now, lambda queue: keeps_beyond_deserved(usage, queue), budgeted
        )

    def of(self, key: WorkloadKey, snapshot: Snapshot) -> tuple[Candidate, ...]:
        """What of a workload could be evicted, whatever protects it now, and last all that it holds; (): nothing."""
        return self._read(key, snapshot, snapshot.ended, snapshot.evictable)

    def _follow(self, snapshot: Snapshot) -> None:
        """Bring dirty workloads up to date, and drop from the protectable ones what nothing protects any more."""
        now, before = snapshot.now, self._now
        self._now = now
        protectable = self._protectable
        if now < before:
            protectable = dict(self._running)
        self._protectable = {key: each for key, each in protectable.items() if _protected_until(each) > now}
        dirty: Iterable[WorkloadKey]
        if self._dirty is None:
            self._by_queue, self._running, self._protectable = {}, {}, {}
            dirty = dict.fromkeys(held.admission.workload for held in self.held_admissions.values())
        else:
            dirty = self._dirty
        for key in dirty:
            if was := self._running.pop(key, ()):
                del self._by_queue[was[-1].queue][key]
                self._protectable.pop(key, None)
            if candidates := self._read(key, snapshot, {}, frozenset()):
                whole = candidates[-1]
                self._running[key] = candidates
                if whole.protected_until > now or (
                    len(candidates) > 1 and _protected_until(candidates) > now
                ):
                    self._protectable[key] = candidates
                self._by_queue.setdefault(whole.queue, {})[key] = candidates
        self._dirty = {}

    def _changing(self, snapshot: Snapshot) -> dict[WorkloadKey, _Candidates]:
        """Candidates of the workloads that lose seats or pods in this turn, as they are then."""
        numbers = snapshot.ended.keys() | snapshot.evictable
        held = self.held_admissions
        keys = dict.fromkeys(held[number].admission.workload for number in sorted(numbers) if number in held)
        return {key: self._read(key, snapshot, snapshot.ended, snapshot.evictable) for key in keys}

    def _read(
        self,
        key: WorkloadKey,
        snapshot: Snapshot,
        ended: Mapping[AdmissionId, frozenset[int]],
        evictable: Collection[AdmissionId],
    ) -> _Candidates:
        holder = snapshot.holders.get(key)
        if holder is None:
            return ()
        admissions = []
        for number in self._open_admissions.of(key):
            held = self.held_admissions[number]
            admission = held.admission
            if admission.state is not AdmissionState.OPEN or number in evictable:
                continue
            if (ending := ended.get(number)) is not None:
                held = self._shapes.hold(admission, ending)
            if held.holder is not holder:
                held.holder, held.ports = holder, ports_of(holder, held.seats)
            if held.seats:
                admissions.append(held)
        if not admissions or admissions[0].admission.queue not in self._tree.paths:
            return ()
        return _candidates_of(holder, tuple(admissions), self._tree)

    def budgets(self, snapshot: Snapshot) -> VictimCandidates:
        """No candidates yet, and what disruption budgets allow. Kubernetes may still count pods that leave already."""
        found = VictimCandidates()
        if not snapshot.budgets:
            return found
        leaving = Counter[WorkloadKey]()
        for number in self._open_admissions.evicting | set(snapshot.evictable):
            held = self.held_admissions.get(number)
            if held is not None and held.admission.workload in snapshot.holders:
                leaving[held.admission.workload] += len(held.admission.seats)
        for index, budget in enumerate(snapshot.budgets):
            uncounted = sum(min(leaving.get(key, 0), pods) for key, pods in budget.pods.items())
            found.disruptions_left.append(max(0, budget.allowed - uncounted))
            found.budget_names.append(budget.name)
            for key, pods in budget.pods.items():
                found.budgets.setdefault(key, []).append(BudgetedPods(index, pods))
        return found


def _protected_until(candidates: _Candidates) -> int:
    """The second from which on nothing protects a workload or a part of it."""
    return max([each.protected_until for each in candidates])


def _candidates_of(workload: Workload, admissions: tuple[HeldAdmission, ...], tree: QueueTree) -> _Candidates:
    """What of a workload can be evicted. ``admissions``: all that it holds, the oldest first."""
    whole = _candidate(workload, admissions, tree)
    if len(admissions) == 1:
        return (whole,)
    parts: list[Candidate] = []
    core = list(admissions)
    minimum = _admitted_minimum(workload, admissions)
    for held in reversed(admissions):
        if len(core) > 1 and minimum.holds_without(core, held):
            core.remove(held)
            parts.append(_part(whole, held, tree))
    if parts and all(part.priority == whole.priority for part in parts):
        whole.core = tuple(core)  # whatever lets the whole gang be evicted lets its parts
    return (*parts, whole)


@dataclass(frozen=True, slots=True)
class _Minimum:
    """What a gang cannot do without."""

    workload: Workload
    pods: int
    #: Whether the minimums of its pod sets count as well.
    of_sets: bool = True

    def holds_without(self, core: Sequence[HeldAdmission], left_out: HeldAdmission) -> bool:
        """True if the gang keeps its minimum, in all and of each pod set, without one of its admissions."""
        if self.pods >= sum(len(held.seats) for held in core):
            return False
        counts = Counter({pods.name: len(pods.done) for pods in self.workload.pod_sets})
        counts.update(seat.pod_set for held in core if held is not left_out for seat in held.seats)
        sets = self.workload.pod_sets if self.of_sets else ()
        return sum(counts.values()) >= max(1, self.pods) and all(
            counts[pods.name] >= pods.minimum for pods in sets
        )


def _admitted_minimum(workload: Workload, admissions: Iterable[HeldAdmission]) -> _Minimum:
    """The minimum that counts of a gang with several admissions: the one it was admitted with, or a lower one now.

    A user may raise ``minAvailable`` while the gang runs. What was admitted as elastic parts, perhaps on borrowed
    quota, stays reclaimable: a higher minimum counts when the gang is admitted the next time.
    """
    admitted = max(held.admission.minimum for held in admissions)
    if 0 < admitted < workload.gang_size():
        # Which pod sets had which minimum is not known; the oldest admission, which has them, is taken last.
        return _Minimum(workload, admitted, of_sets=False)
    return _Minimum(workload, workload.minimum)


def _candidate(workload: Workload, admissions: tuple[HeldAdmission, ...], tree: QueueTree) -> Candidate:
    """A workload with all that it holds."""
    oldest = admissions[0].admission
    started = oldest.held_since or oldest.opened_at  # as ``Admission.start``
    if len(admissions) > 1:
        started = min(held.admission.start for held in admissions)
    size = pods = 0
    for held in admissions:
        size += held.size
        pods += len(held.seats)
    policy = tree.policy(oldest.queue)
    return Candidate(
        workload,
        oldest.queue,
        admissions,
        True,
        size,
        pods,
        tree.counted_priority(oldest.queue, oldest.priority),
        started,
        evictable_from(workload, started, policy),
        reclaimable_from(workload, started, policy),
        wish_end(workload, started, policy),
    )


def _part(whole: Candidate, held: HeldAdmission, tree: QueueTree) -> Candidate:
    """One admission of a workload that its gang can do without."""
    return msgspec.structs.replace(
        whole,
        admissions=(held,),
        whole=False,
        size=held.size,
        pods=len(held.seats),
        disturbance=whole.disturbance * len(held.seats) // whole.pods,
        started=held.admission.opened_at,
        evictable_from=evictable_from(whole.workload, held.admission.opened_at, tree.policy(whole.queue)),
        reclaimable_from=held.admission.opened_at,
        priority=tree.counted_priority(whole.queue, held.admission.priority),
    )
