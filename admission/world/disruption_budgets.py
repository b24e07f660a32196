"""PodDisruptionBudgets, and how many pods of each admitted workload they select."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from admission.engine.snapshot import Budget
from admission.facts import BudgetFact, PodFact
from admission.workloads.seats import is_live
from queues.workload import WorkloadKey

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Budgets:
    """Pods of admitted workloads by budget, counted when the pods of a workload change."""

    _facts: dict[str, BudgetFact] = field(default_factory=dict)
    #: By workload: pods by namespace and labels. Pods of one template share them.
    _pods: dict[WorkloadKey, Counter[tuple[str, Labels]]] = field(default_factory=dict)
    _under: dict[str, dict[WorkloadKey, int]] = field(default_factory=dict)
    _all: tuple[Budget, ...] | None = ()

    def put(self, uid: str, fact: BudgetFact | None) -> None:
        """A budget appeared, changed (None: vanished)."""
        before = self._facts.pop(uid, None)
        if fact is not None:
            self._facts[uid] = fact
        if fact is None:
            self._under.pop(uid, None)
        elif before is None or before.selector != fact.selector:
            counts = ((key, self._count(fact, pods)) for key, pods in self._pods.items())
            self._under[uid] = {key: count for key, count in counts if count}
        self._all = None

    def update(self, key: WorkloadKey, pods: Sequence[PodFact]) -> None:
        """These are the pods of an admitted workload now."""
        shapes = Counter((pod.namespace, pod.labels) for pod in pods if is_live(pod) and pod.node is not None)
        before = self._pods.pop(key, None)
        if shapes:
            self._pods[key] = shapes
        if (before or Counter()) == shapes:
            return
        for uid, fact in self._facts.items():
            count = self._count(fact, shapes)
            if count != self._under[uid].get(key, 0):
                self._under[uid].pop(key, None)
                if count:
                    self._under[uid][key] = count
                self._all = None

    def all(self) -> tuple[Budget, ...]:
        """Budgets that pods of admitted workloads are under, by name. The same tuple as long as nothing changes."""
        if self._all is None:
            self._all = tuple(
                Budget(
                    namespace=fact.namespace,
                    name=fact.name,
                    allowed=fact.allowed,
                    pods=dict(sorted(self._under[uid].items())),
                )
                for uid, fact in sorted(
                    self._facts.items(), key=lambda each: (each[1].namespace, each[1].name)
                )
                if self._under[uid]
            )
        return self._all

    @staticmethod
    def _count(fact: BudgetFact, pods: Counter[tuple[str, Labels]]) -> int:
        return sum(
            count
            for (namespace, labels), count in pods.items()
            if namespace == fact.namespace and fact.selects(dict(labels))
        )
