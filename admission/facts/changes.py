"""Changes of facts, as informers hand them on."""

from dataclasses import dataclass
from enum import StrEnum

from admission.facts.admission_checks import AdmissionCheckFact, CheckRequestFact
from admission.facts.cluster import (
    BudgetFact,
    ClosureFact,
    FlavorFact,
    HyperNodeFact,
    NamespaceFact,
    NodeFact,
    NodeRecoveryFact,
    QueueFact,
    TopologyFact,
)
from admission.facts.devices import DeviceClassFact, NodeDevicesFact, ResourceClaimFact, ResourceSliceFact
from admission.facts.pods import PodDefaultsFact, PodFact, TemplateFact
from admission.facts.volumes import CsiNodeFact, StorageClassFact, VolumeClaimFact, VolumeFact
from admission.facts.workloads import Child, WorkloadFact
from queues.admissions import Recreation
from queues.command import Command
from queues.kind_names import KindName
from queues.quota.namespace_quota import NamespaceQuota


class FactKind(StrEnum):
    """Collections of facts: one per informer, and those that a writer hands in: intents, answers to dry runs."""

    NODE = "nodes"
    POD = "pods"
    WORKLOAD = "workloads"
    QUEUE = "queues"
    FLAVOR = "flavors"
    TOPOLOGY = "topologies"
    HYPERNODE = "hypernodes"
    BUDGET = "poddisruptionbudgets"
    NAMESPACE = "namespaces"
    RECREATION = "recreations"
    TEMPLATE = "templates"
    POD_DEFAULTS = "pod defaults"
    DEVICE_CLASS = "deviceclasses"
    RESOURCE_SLICE = "resourceslices"
    NODE_DEVICES = "devices"
    NODE_RECOVERY = "recoveries of nodes"
    CLAIM_TEMPLATE = "resourceclaimtemplates"
    RESOURCE_CLAIM = "resourceclaims"
    RESOURCE_QUOTA = "resourcequotas"
    COMMAND = "commands"
    RESERVATION = "reservations"
    NODE_DRAIN = "nodedrains"
    ADMISSION_CHECK = "admissionchecks"
    CHECK_REQUEST = "checkrequests"
    VOLUME_CLAIM = "persistentvolumeclaims"
    VOLUME = "persistentvolumes"
    STORAGE_CLASS = "storageclasses"
    CSI_NODE = "csinodes"
    #: All of these four kinds were listed, or are not watched any more.
    VOLUMES_WATCHED = "volumes watched"


Fact = (
    NodeFact
    | PodFact
    | WorkloadFact
    | Child
    | QueueFact
    | FlavorFact
    | TopologyFact
    | ClosureFact
    | HyperNodeFact
    | BudgetFact
    | NamespaceFact
    | Recreation
    | TemplateFact
    | PodDefaultsFact
    | DeviceClassFact
    | ResourceSliceFact
    | NodeDevicesFact
    | NodeRecoveryFact
    | ResourceClaimFact
    | NamespaceQuota
    | Command
    | AdmissionCheckFact
    | CheckRequestFact
    | VolumeClaimFact
    | VolumeFact
    | StorageClassFact
    | CsiNodeFact
)


@dataclass(frozen=True, slots=True)
class Change:
    """One object appeared, changed or vanished (``fact`` is None). ``key``: uid, or name for cluster-scoped ones.

    Of an intent to make a pod again ``key`` is the uid of the pod that goes; without a fact the intent is forgotten.
    """

    kind: FactKind
    key: str
    fact: Fact | None
    workload_kind: KindName | None = None
