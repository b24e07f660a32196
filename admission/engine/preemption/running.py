"""Running workloads as candidates for eviction, followed from turn to turn, since a turn changes few of them.

Built from nothing, the candidates are the same.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from admission.engine.forced_changes import OpenAdmissions
from admission.engine.nodes.host_ports import ports_of
from admission.engine.preemption.candidates import (
    BudgetedPods,
    RunningWorkload,
    VictimCandidates,
    candidates_of,
)
from admission.engine.preemption.held_admission import ChargesByShape, HeldAdmission
from admission.engine.preemption.protection import administrators_end, protection_of, wish_end
from admission.engine.snapshot import Snapshot
from queues.admissions import AdmissionState
from queues.quota.tree import QueueTree
from queues.workload import AdmissionId, QueueName, WorkloadKey


class RunningWorkloads:
    """Workloads with open admissions in queues of one tree."""

    def __init__(
        self,
        tree: QueueTree,
        open_admissions: OpenAdmissions,
        held_admissions: Mapping[AdmissionId, HeldAdmission],
    ) -> None:
        """``open_admissions``, ``held_admissions``: of the snapshot. Their changes are told by ``mark_dirty``."""
        self.held_admissions = held_admissions
        self._tree = tree
        self._open_admissions = open_admissions
        self._shapes = ChargesByShape()
        self._dirty: dict[WorkloadKey, None] = {}
        self._by_queue: dict[QueueName, dict[WorkloadKey, RunningWorkload]] = {}
        self._running: dict[WorkloadKey, RunningWorkload] = {}
        #: Those that something may protect still, as far as was known at ``_now``.
        self._protectable: dict[WorkloadKey, RunningWorkload] = {}
        self._now = 0

    def mark_dirty(self, keys: Iterable[WorkloadKey]) -> None:
        """Admissions or the holder of these workloads are other ones now."""
        self._dirty.update(dict.fromkeys(keys))

    def candidates(self, snapshot: Snapshot) -> VictimCandidates:
        """Candidates that may be evicted now. Seats that end in this turn (``Snapshot.ended``) are left out."""
        self._follow(snapshot)
        changing = self._changing(snapshot)
        protectable = [each for key, each in self._protectable.items() if key not in changing]
        protectable += [each for each in changing.values() if each is not None]
        protection = protection_of(protectable, self._tree, snapshot.now)
        found = VictimCandidates(until=protection.until)
        left_out = changing.keys() | protection.whole
        for queue, running in self._by_queue.items():
            allowed = [
                candidate
                for key, each in running.items()
                if key not in left_out
                for candidate in each.candidates
            ]
            if allowed:
                found.of_queue[queue] = allowed
        for key, changed in changing.items():
            if changed is not None and key not in protection.whole:
                found.of_queue.setdefault(changed.queue, []).extend(changed.candidates)
        for candidates in found.of_queue.values():
            for candidate in candidates:
                candidate.count_cost(snapshot.now)
        for each in protectable:
            if each.workload.key in protection.in_own_queue:
                for candidate in each.candidates:
                    candidate.protected_in_queue = True
        self._count_budgets(found, snapshot)
        return found

    def _follow(self, snapshot: Snapshot) -> None:
        """Bring dirty workloads up to date, and drop from the protectable ones what nothing protects any more."""
        for key in self._dirty:
            if (was := self._running.pop(key, None)) is not None:
                del self._by_queue[was.queue][key]
                self._protectable.pop(key, None)
            each = self._read(key, snapshot, {}, frozenset())
            if each is not None:
                self._running[key] = self._protectable[key] = each
                self._by_queue.setdefault(each.queue, {})[key] = each
        self._dirty.clear()
        now, before = snapshot.now, self._now
        self._now = now
        protectable = self._running if now < before else self._protectable
        self._protectable = {
            key: each
            for key, each in protectable.items()
            if max(each.administrators_end, each.wish_end) > now
        }

    def _changing(self, snapshot: Snapshot) -> dict[WorkloadKey, RunningWorkload | None]:
        """Workloads that lose seats or pods in this turn, as they are then. None: nothing of them can be evicted."""
        numbers = snapshot.ended.keys() | snapshot.evictable
        held = self.held_admissions
        keys = dict.fromkeys(held[number].admission.workload for number in sorted(numbers) if number in held)
        return {key: self._read(key, snapshot, snapshot.ended, snapshot.evictable) for key in keys}

    def _read(
        self,
        key: WorkloadKey,
        snapshot: Snapshot,
        ended: Mapping[AdmissionId, frozenset[int]],
        evictable: Iterable[AdmissionId],
    ) -> RunningWorkload | None:
        holder = snapshot.holders.get(key)
        if holder is None:
            return None
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
        if not admissions or (queue := admissions[0].admission.queue) not in self._tree.paths:
            return None
        policy = self._tree.policy(queue)
        opened = [held.admission.opened_at for held in admissions]
        return RunningWorkload(
            holder,
            queue,
            tuple(admissions),
            candidates_of(holder, queue, admissions, self._tree),
            administrators_end(holder, max(opened), policy),
            wish_end(holder, min(opened), max(opened), policy),
        )

    def _count_budgets(self, found: VictimCandidates, snapshot: Snapshot) -> None:
        """Enter what the disruption budgets allow. Kubernetes may still count pods that are leaving already."""
        if not snapshot.budgets:
            return
        leaving = Counter[WorkloadKey]()
        for number in self._open_admissions.evicting | set(snapshot.evictable):
            held = self.held_admissions.get(number)
            if held is not None and held.admission.workload in snapshot.holders:
                leaving[held.admission.workload] += len(held.admission.seats)
        for index, budget in enumerate(snapshot.budgets):
            uncounted = sum(min(leaving.get(key, 0), pods) for key, pods in budget.pods.items())
            found.disruptions_left.append(max(0, budget.allowed - uncounted))
            for key, pods in budget.pods.items():
                found.budgets.setdefault(key, []).append(BudgetedPods(index, pods))
