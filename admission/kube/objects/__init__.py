"""Kubernetes objects as Muster reads them: only the needed fields, decoded by msgspec.

Attribute names are the snake_case forms of the API's, so what queues.api tells of pods it tells of these too.
``metadata.managedFields`` and everything else that is not named here is never materialised. Documents of
administrators (Queue, ResourceFlavor, Topology) are few and go through queues.api instead.
"""

from admission.kube.objects.api_resources import (
    BUDGETS,
    EVENTS,
    FLAVORS,
    HYPERNODES,
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    TOPOLOGIES,
    VOLCANO_JOBS,
    Resource,
)
from admission.kube.objects.cluster import (
    BudgetSpec,
    BudgetStatus,
    LabelSelector,
    Namespace,
    Node,
    PodDisruptionBudget,
    PriorityClass,
    SelectorRequirement,
)
from admission.kube.objects.jobs import Job, NetworkTopology, PodGroup, VolcanoJob
from admission.kube.objects.lists import Page, WatchEvent
from admission.kube.objects.parts import Bare, Condition, Metadata, Part
from admission.kube.objects.pods import Pod, PodSpec, PodStatus, PodTemplate

__all__ = [
    "BUDGETS",
    "EVENTS",
    "FLAVORS",
    "HYPERNODES",
    "JOBS",
    "NAMESPACES",
    "NODES",
    "PODS",
    "POD_GROUPS",
    "PRIORITY_CLASSES",
    "QUEUES",
    "TOPOLOGIES",
    "VOLCANO_JOBS",
    "Bare",
    "BudgetSpec",
    "BudgetStatus",
    "Condition",
    "Job",
    "LabelSelector",
    "Metadata",
    "Namespace",
    "NetworkTopology",
    "Node",
    "Page",
    "Part",
    "Pod",
    "PodDisruptionBudget",
    "PodGroup",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "PriorityClass",
    "Resource",
    "SelectorRequirement",
    "VolcanoJob",
    "WatchEvent",
]
