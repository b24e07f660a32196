"""What the cluster shows, in domain terms: the output of translation, the input of intake and the world.

A fact is about one object at one resource version. Facts are compared with ``==``: an update that changes nothing
that matters is no change.
"""

from admission.facts.changes import Change, Fact, FactKind, asks
from admission.facts.cluster import (
    BudgetFact,
    FlavorFact,
    HyperNodeFact,
    HyperNodeMember,
    NodeFact,
    QueueFact,
    TopologyFact,
)
from admission.facts.labels import holds
from admission.facts.pods import Conduct, PodFact, PodPhase, PodShape
from admission.facts.workloads import SubGroup, WorkloadFact

__all__ = [
    "BudgetFact",
    "Change",
    "Conduct",
    "Fact",
    "FactKind",
    "FlavorFact",
    "HyperNodeFact",
    "HyperNodeMember",
    "NodeFact",
    "PodFact",
    "PodPhase",
    "PodShape",
    "QueueFact",
    "SubGroup",
    "TopologyFact",
    "WorkloadFact",
    "asks",
    "holds",
]
