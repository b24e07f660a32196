"""Changes of what the world is told: an object appeared, changed or vanished, or an intent is to be stored."""

from dataclasses import dataclass
from enum import StrEnum

from admission.facts.cluster import BudgetFact, FlavorFact, HyperNodeFact, NodeFact, QueueFact, TopologyFact
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from queues.admissions import Recreation
from queues.workload import WorkloadKind


class FactKind(StrEnum):
    """Collections of facts: one per informer, and the intents that a writer hands in."""

    NODE = "nodes"
    POD = "pods"
    WORKLOAD = "workloads"
    QUEUE = "queues"
    FLAVOR = "flavors"
    TOPOLOGY = "topologies"
    HYPERNODE = "hypernodes"
    BUDGET = "poddisruptionbudgets"
    RECREATION = "recreations"


Fact = (
    NodeFact
    | PodFact
    | WorkloadFact
    | QueueFact
    | FlavorFact
    | TopologyFact
    | HyperNodeFact
    | BudgetFact
    | Recreation
)


@dataclass(frozen=True, slots=True)
class Change:
    """One object appeared, changed or vanished (``fact`` is None). ``key``: uid, or name for cluster-scoped ones.

    Of an intent to make a pod again ``key`` is the uid of the pod that goes; None: forget the intent.
    """

    kind: FactKind
    key: str
    fact: Fact | None
    workload_kind: WorkloadKind | None = None


def asks(before: Fact | None, after: Fact | None) -> bool:
    """True for a change that a turn should answer at once: a workload that is new or changed, a new gated pod."""
    match before, after:
        case WorkloadFact(), WorkloadFact():
            return before.generation != after.generation
        case None, WorkloadFact():
            return True
        case None, PodFact():
            return after.gated
    return False
