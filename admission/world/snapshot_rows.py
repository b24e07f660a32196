"""Rows of the next snapshot about workloads, and about PodDisruptionBudgets with the pods that they select. Pure.

They are kept up to date, so that a frozen copy costs what changed.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from admission.engine.snapshot import Budget, Rollback, Unbooked
from admission.facts.cluster import BudgetFact
from admission.facts.pods import PodFact
from admission.workloads.seats import is_live
from admission.workloads.state import WorkloadState
from admission.world.admissions import replaced
from admission.world.attached_volumes import AttachedVolumes
from admission.world.nodes import NodeInventory, Place
from admission.world.pod_relations import PodRelations
from queues.admissions import Admission
from queues.versioned_map import VersionedMap
from queues.workload import AdmissionId, Workload, WorkloadKey

Labels = tuple[tuple[str, str], ...]

#: Budgets of one namespace that are counted, the first ones by uid. Each costs a comparison at every change of a
#: workload there; the API server itself holds every budget when a pod is evicted.
MOST_BUDGETS: Final = 100


@dataclass(slots=True)
class _Namespace:
    """Budgets and pods of one namespace: a budget is about pods of its own namespace only."""

    facts: dict[str, BudgetFact] = field(default_factory=dict)
    #: By workload: pods by labels. Pods of one template share them.
    pods: dict[WorkloadKey, Counter[Labels]] = field(default_factory=dict)
    #: By budget that is counted: pods of each workload under it.
    under: dict[str, dict[WorkloadKey, int]] = field(default_factory=dict)

    def put(self, uid: str, fact: BudgetFact | None) -> None:
        before = replaced(self.facts, uid, fact)
        full = len(self.under) == MOST_BUDGETS
        if uid not in self.under and (fact is None or (full and uid > max(self.under))):
            return
        if fact is None or before is None or before.selector != fact.selector:
            self.under.pop(uid, None)
        counted = sorted(self.facts)[:MOST_BUDGETS]
        for other in self.under.keys() - set(counted):
            del self.under[other]
        for each in counted:
            if each not in self.under:
                counts = ((key, _count(self.facts[each], pods)) for key, pods in self.pods.items())
                self.under[each] = {key: count for key, count in counts if count}

    def update(self, key: WorkloadKey, shapes: Counter[Labels]) -> bool:
        """Whether that changed a count."""
        before = self.pods.pop(key, None)
        if shapes:
            self.pods[key] = shapes
        if (before or Counter()) == shapes:
            return False
        changed = False
        for uid, under in self.under.items():
            count = _count(self.facts[uid], shapes)
            if count != under.get(key, 0):
                under.pop(key, None)
                if count:
                    under[key] = count
                changed = True
        return changed


@dataclass(slots=True)
class Budgets:
    """Pods of admitted workloads by budget, counted when the pods of a workload change."""

    _namespaces: dict[str, _Namespace] = field(default_factory=dict)
    #: Namespace of each budget, and of the pods of each workload.
    _namespace_of: dict[str, str] = field(default_factory=dict)
    _pods_in: dict[WorkloadKey, tuple[str, ...]] = field(default_factory=dict)
    _all: tuple[Budget, ...] | None = ()

    def put(self, uid: str, fact: BudgetFact | None) -> None:
        """A budget appeared or changed; None if it vanished."""
        name = self._namespace_of.pop(uid, None) if fact is None else fact.namespace
        if name is None:
            return
        if fact is not None:
            self._namespace_of[uid] = name
        self._in(name).put(uid, fact)
        self._forget_if_empty(name)
        self._all = None

    def update(self, key: WorkloadKey, pods: Sequence[PodFact]) -> None:
        """These are the pods of an admitted workload now."""
        found: dict[str, Counter[Labels]] = {}
        for pod in pods:
            if is_live(pod) and pod.node is not None:
                found.setdefault(pod.namespace, Counter())[pod.labels] += 1
        for name in sorted({*self._pods_in.pop(key, ()), *found}):
            if self._in(name).update(key, found.get(name, Counter())):
                self._all = None
            self._forget_if_empty(name)
        if found:
            self._pods_in[key] = tuple(found)

    def all(self) -> tuple[Budget, ...]:
        """Budgets that pods of admitted workloads are under, by name. The same tuple as long as nothing changes."""
        if self._all is None:
            under = [
                (space.facts[uid], pods)
                for space in self._namespaces.values()
                for uid, pods in space.under.items()
                if pods
            ]
            self._all = tuple(
                Budget(
                    namespace=fact.namespace,
                    name=fact.name,
                    allowed=fact.allowed,
                    pods=dict(sorted(pods.items())),
                )
                for fact, pods in sorted(under, key=lambda each: (each[0].namespace, each[0].name))
            )
        return self._all

    def _in(self, name: str) -> _Namespace:
        return self._namespaces.setdefault(name, _Namespace())

    def _forget_if_empty(self, name: str) -> None:
        space = self._namespaces[name]
        if not space.facts and not space.pods:
            del self._namespaces[name]


def _count(fact: BudgetFact, pods: Counter[Labels]) -> int:
    return sum(count for labels, count in pods.items() if fact.selects(dict(labels)))


class SnapshotRows:
    """Part of the world: the rows of the next snapshot that follow from states and admissions."""

    def __init__(
        self,
        node_inventory: NodeInventory,
        pod_relations: PodRelations,
        attached_volumes: AttachedVolumes,
    ) -> None:
        self.pod_relations = pod_relations
        self.attached_volumes = attached_volumes
        #: What notes on nodes what pods are counted by.
        self._noting = (pod_relations, attached_volumes)
        self.budgets = Budgets()
        self._node_inventory = node_inventory
        self.pending: VersionedMap[WorkloadKey, Workload] = VersionedMap()
        self.holders: VersionedMap[WorkloadKey, Workload] = VersionedMap()
        self.admissions: VersionedMap[AdmissionId, Admission] = VersionedMap()
        self.ended: dict[AdmissionId, frozenset[int]] = {}
        self.evictable: dict[AdmissionId, Rollback] = {}
        self.leaving: dict[AdmissionId, int] = {}
        self.started: dict[AdmissionId, None] = {}
        self.ready: dict[AdmissionId, None] = {}
        self.unbooked: dict[WorkloadKey, Unbooked] = {}

    def replace(
        self, before: WorkloadState | None, after: WorkloadState | None, numbered: Collection[WorkloadKey]
    ) -> bool:
        """One state takes another's place. Whether a decision may come out differently.

        ``numbered``: workloads that have arrived; others wait for their number before they are shown.
        """
        if before is not None:
            self._remove(before, after)
        if after is not None:
            self._put(after, numbered)
        return _decisive(before) != _decisive(after)

    def _remove(self, before: WorkloadState, after: WorkloadState | None) -> None:
        self._node_inventory.ports.update(before.key, ())
        if after is None:
            self._resolved(before, None)
        if after is None or not after.seat_maps:
            self.budgets.update(before.key, ())
        self.unbooked.pop(before.key, None)
        for place in before.seat_maps:
            self.ended.pop(place.admission.id, None)
            self.evictable.pop(place.admission.id, None)
            self.leaving.pop(place.admission.id, None)
            self.started.pop(place.admission.id, None)
            self.ready.pop(place.admission.id, None)
        if after is None:
            self.pending.pop(before.key)
            self.holders.pop(before.key)
            self._node_inventory.demand.update(before.key, ())

    def _put(self, after: WorkloadState, numbered: Collection[WorkloadKey]) -> None:
        asks = after.workload.pod_sets if after.needs_seats or after.seat_maps else ()
        self._node_inventory.demand.update(after.key, asks)
        workload = self._resolved(after, after if asks else None)
        self._node_inventory.ports.update(after.key, workload.pod_sets)
        if after.needs_seats and after.key in numbered:
            self.pending.put(after.key, workload)
        else:
            self.pending.pop(after.key)
        if after.unbooked is not None:
            self.unbooked[after.key] = after.unbooked
        self.ended.update(after.ended)
        self.evictable.update(after.evictable)
        self.leaving.update(dict.fromkeys(after.leaving(), after.remembered.over_since))
        if after.seat_maps:
            self.holders.put(after.key, workload)
            self.budgets.update(after.key, after.pods)
        else:
            self.holders.pop(after.key)
        self.started.update(dict.fromkeys(after.started))
        self.ready.update(dict.fromkeys(after.ready))

    def put_pod(self, uid: str, fact: PodFact | None) -> bool:
        """A bound pod without a seat appeared or changed; None if it is gone, or has a seat. True if what counts
        changed."""
        changed = [part.put_pod(uid, fact) or part.is_stale for part in self._noting]
        return any(changed)

    def noted_pods(self) -> Iterator[Place]:
        """Pods without a seat: their node, what they count as for rules of others, and their volumes."""
        return chain.from_iterable(part.noted_pods() for part in self._noting)

    def recount(self) -> None:
        """Give the workloads what their pods count as where the rules of other pods have changed, and their volumes
        where these have."""
        stale = dict(chain.from_iterable([part.refresh() for part in self._noting]))
        for key, state in stale.items():
            if not (state.needs_seats or state.seat_maps):
                continue
            workload = self._resolved(state, state)
            self._node_inventory.ports.update(key, workload.pod_sets)
            for rows in (self.pending, self.holders):
                before = rows.get(key)
                if before is not None and before != workload:
                    rows.put(key, workload)

    def _resolved(self, state: WorkloadState, relevant: WorkloadState | None) -> Workload:
        """The workload of a state with what its pods count as, and with their volumes.

        ``relevant``: the state; None if it neither waits nor has seats.
        """
        workload = state.workload
        for part in self._noting:
            workload = part.put_workload(state.key, relevant, workload)
        if workload is not state.workload:
            for rows in (self.pending, self.holders):
                if (known := rows.get(state.key)) == workload and known is not None:
                    return known  # the engine's memo goes by identity
        return workload


def _decisive(state: WorkloadState | None) -> tuple[object, ...] | None:
    """What a decision may depend on; None for nothing. What ended and holds nothing is as if it were not there."""
    seen = () if state is None else state.decisive()
    return seen if any(seen) else None
