"""PodDisruptionBudgets, and how many pods of each admitted workload they select."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from admission.engine.snapshot import Budget
from admission.facts.cluster import BudgetFact
from admission.facts.pods import PodFact
from admission.workloads.seats import is_live
from queues.workload import WorkloadKey

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
        before = self.facts.pop(uid, None)
        if fact is not None:
            self.facts[uid] = fact
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
