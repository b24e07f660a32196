"""Kubernetes objects as Muster reads them: only the needed fields, decoded by msgspec.

Attribute names are the snake_case forms of the API's, so what queues.api tells of pods it tells of these too.
``metadata.managedFields`` and everything else that is not named here is never materialised. Documents of
administrators (Queue, ResourceFlavor, Topology) are few and go through queues.api instead.
"""

from admission.objects.cluster import (
    WireBudgetSpec,
    WireBudgetStatus,
    WireLabelSelector,
    WireNamespace,
    WireNode,
    WirePodDisruptionBudget,
    WirePriorityClass,
    WireSelectorRequirement,
)
from admission.objects.lists import Page, WatchEvent
from admission.objects.parts import Bare, WireCondition, WireMetadata, WireNetworkTopology, WireStruct
from admission.objects.pods import WirePod, WirePodSpec, WirePodStatus, WirePodTemplate

__all__ = [
    "Bare",
    "Page",
    "WatchEvent",
    "WireBudgetSpec",
    "WireBudgetStatus",
    "WireCondition",
    "WireLabelSelector",
    "WireMetadata",
    "WireNamespace",
    "WireNetworkTopology",
    "WireNode",
    "WirePod",
    "WirePodDisruptionBudget",
    "WirePodSpec",
    "WirePodStatus",
    "WirePodTemplate",
    "WirePriorityClass",
    "WireSelectorRequirement",
    "WireStruct",
]
