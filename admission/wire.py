"""Kubernetes objects as Muster reads them: only the needed fields, decoded by msgspec.

Attribute names are the snake_case forms of the API's, so what queues.api reads of pods it reads of these too.
``metadata.managedFields`` and everything else that is not named here is never materialised. Documents of administrators
(Queue, ResourceFlavor, Topology) are few and go through queues.api instead.
"""

from typing import Annotated, Any

import msgspec

Quantity = str | int | float

#: Numbers as the API server has them. In documents without a schema they may have any length.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class WireStruct(msgspec.Struct, rename="camel", gc=False):
    """Base of all wire structs. No struct refers to its container, so the garbage collector need not track them."""


class WireOwnerReference(WireStruct):
    """The owner of an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class WireMetadata(WireStruct):
    """ObjectMeta, the part that Muster reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[WireOwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None


class Bare(WireStruct):
    """Any object, by its identity only: what is left of one that cannot be read."""

    metadata: WireMetadata = msgspec.field(default_factory=WireMetadata)


class WireCondition(WireStruct):
    """A condition of a pod, node or Job."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class WireNetworkTopology(WireStruct):
    """How far apart pods may lie, in tiers."""

    mode: str | None = None
    highest_tier_allowed: Int32 | None = None
    highest_tier_name: str | None = None


class WireCommand(WireStruct):
    """A Command of Volcano."""

    metadata: WireMetadata
    action: str | None = None
    target: WireOwnerReference | None = None
    reason: str | None = None
    message: str | None = None


class WireSelectorRequirement(WireStruct):
    """One expression of a label selector, or over labels or fields of a node."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


# ── pods and their templates ─────────────────────────────────────────────────────────────────────────────────────


class WireAmounts(WireStruct):
    """Requests and limits."""

    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class WireContainerPort(WireStruct):
    """A port of a container, perhaps of the node."""

    container_port: Int32 = 0
    host_port: Int32 | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


class WireContainer(WireStruct):
    """A container."""

    name: str = ""
    image: str | None = None
    resources: WireAmounts | None = None
    restart_policy: str | None = None
    ports: tuple[WireContainerPort, ...] | None = None


class WireNodeSelectorTerm(WireStruct):
    """Expressions that must all hold."""

    match_expressions: tuple[WireSelectorRequirement, ...] | None = None
    match_fields: tuple[WireSelectorRequirement, ...] | None = None


class WireNodeSelector(WireStruct):
    """Terms: one of them must hold."""

    node_selector_terms: tuple[WireNodeSelectorTerm, ...] | None = None


class WirePreferredTerm(WireStruct):
    """A term that nodes should meet."""

    weight: Int32 = 0
    preference: WireNodeSelectorTerm = msgspec.field(default_factory=WireNodeSelectorTerm)


class WireNodeAffinity(WireStruct):
    """Node affinity."""

    required_during_scheduling_ignored_during_execution: WireNodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[WirePreferredTerm, ...] | None = None


class WireLabelSelector(WireStruct):
    """A label selector of Kubernetes."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[WireSelectorRequirement, ...] | None = None


class WirePodAffinityTerm(WireStruct):
    """A term about other pods: which these are, and in which namespaces."""

    label_selector: WireLabelSelector | None = None
    topology_key: str = ""
    namespaces: tuple[str, ...] | None = None
    namespace_selector: dict[str, msgspec.Raw] | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WireWeightedTerm(WireStruct):
    """A term about other pods that should be met."""

    weight: Int32 = 0
    pod_affinity_term: WirePodAffinityTerm = msgspec.field(default_factory=WirePodAffinityTerm)


class WirePodAffinity(WireStruct):
    """Pods that a pod has to be near to or kept away from, and those that it should."""

    required_during_scheduling_ignored_during_execution: tuple[WirePodAffinityTerm, ...] | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[WireWeightedTerm, ...] | None = None


class WireAffinity(WireStruct):
    """Affinity: to nodes, and to and against other pods."""

    node_affinity: WireNodeAffinity | None = None
    pod_affinity: WirePodAffinity | None = None
    pod_anti_affinity: WirePodAffinity | None = None


class WireSpreadConstraint(WireStruct):
    """A topologySpreadConstraint."""

    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: WireLabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class WireToleration(WireStruct):
    """A toleration."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class WirePodResourceClaim(WireStruct):
    """Devices that a pod claims; in its status: the claim that was made for it."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class WireClaimOfPod(WireStruct):
    """The PersistentVolumeClaim of a volume."""

    claim_name: str = ""


class WireEphemeralSpec(WireStruct):
    """What a claim asks for that is made for one pod."""

    storage_class_name: str | None = None


class WireEphemeralClaim(WireStruct):
    """A claim that is made for one pod."""

    spec: WireEphemeralSpec = msgspec.field(default_factory=WireEphemeralSpec)


class WireEphemeral(WireStruct):
    """A volume with a claim that is made for one pod."""

    volume_claim_template: WireEphemeralClaim | None = None


class WirePodVolume(WireStruct):
    """An entry of a pod's volumes, as far as it says something about nodes."""

    name: str = ""
    persistent_volume_claim: WireClaimOfPod | None = None
    ephemeral: WireEphemeral | None = None


class WireSchedulingGate(WireStruct):
    """A scheduling gate."""

    name: str


class WirePodSpec(WireStruct):
    """A pod's spec."""

    containers: tuple[WireContainer, ...] = ()
    init_containers: tuple[WireContainer, ...] | None = None
    resources: WireAmounts | None = None
    overhead: dict[str, Quantity] | None = None
    node_name: str | None = None
    host_network: bool | None = None
    node_selector: dict[str, str] | None = None
    #: Decoded where it is needed: it may be most of a document (``admission.decode.affinity``).
    affinity: msgspec.Raw = msgspec.Raw(b"null")
    #: The same (``admission.decode.pod_rules``).
    topology_spread_constraints: msgspec.Raw = msgspec.Raw(b"null")
    tolerations: tuple[WireToleration, ...] | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None
    active_deadline_seconds: Int64 | None = None
    scheduling_gates: tuple[WireSchedulingGate, ...] | None = None
    resource_claims: tuple[WirePodResourceClaim, ...] | None = None
    volumes: tuple[WirePodVolume, ...] | None = None


class WireTerminated(WireStruct):
    """How a container ended."""

    exit_code: Int32 = 0
    reason: str | None = None
    finished_at: str | None = None


class WireWaiting(WireStruct):
    """Why a container does not run."""

    reason: str | None = None
    message: str | None = None


class WireContainerState(WireStruct):
    """What a container does now."""

    waiting: WireWaiting | None = None
    terminated: WireTerminated | None = None


class WireContainerStatus(WireStruct):
    """A container's state and restarts, and what its kubelet gives it."""

    name: str = ""
    resources: WireAmounts | None = None
    allocated_resources: dict[str, Quantity] | None = None
    ready: bool = False
    restart_count: Int32 = 0
    state: WireContainerState | None = None


class WirePodStatus(WireStruct):
    """How far a pod is."""

    phase: str = ""
    conditions: tuple[WireCondition, ...] | None = None
    container_statuses: tuple[WireContainerStatus, ...] | None = None
    init_container_statuses: tuple[WireContainerStatus, ...] | None = None
    resources: WireAmounts | None = None
    allocated_resources: dict[str, Quantity] | None = None
    resource_claim_statuses: tuple[WirePodResourceClaim, ...] | None = None


class WirePod(WireStruct):
    """A pod."""

    metadata: WireMetadata
    spec: WirePodSpec = msgspec.field(default_factory=WirePodSpec)
    status: WirePodStatus = msgspec.field(default_factory=WirePodStatus)


class WirePodTemplate(WireStruct):
    """A pod template: of a Job, of a task."""

    metadata: WireMetadata | None = None
    spec: WirePodSpec | None = None


# ── what pods live among ────────────────────────────────────────────────────────────────────────────────────────


class WireTaint(WireStruct):
    """A taint."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class WireNodeSpec(WireStruct):
    """A node's spec."""

    taints: tuple[WireTaint, ...] | None = None
    unschedulable: bool | None = None


class WireNodeStatus(WireStruct):
    """A node's status."""

    allocatable: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: tuple[WireCondition, ...] | None = None


class WireNode(WireStruct):
    """A node."""

    metadata: WireMetadata
    spec: WireNodeSpec = msgspec.field(default_factory=WireNodeSpec)
    status: WireNodeStatus = msgspec.field(default_factory=WireNodeStatus)


class WireBudgetSpec(WireStruct):
    """The spec of a PodDisruptionBudget, the part that Muster reads."""

    selector: WireLabelSelector | None = None


class WireBudgetStatus(WireStruct):
    """What the disruption controller worked out."""

    disruptions_allowed: Int32 = 0


class WirePodDisruptionBudget(WireStruct):
    """A PodDisruptionBudget."""

    metadata: WireMetadata = msgspec.field(default_factory=WireMetadata)
    spec: WireBudgetSpec = msgspec.field(default_factory=WireBudgetSpec)
    status: WireBudgetStatus = msgspec.field(default_factory=WireBudgetStatus)


class WireQuotaSpec(WireStruct):
    """The spec of a ResourceQuota, the part that says which pods it counts."""

    scopes: tuple[str, ...] | None = None
    scope_selector: dict[str, msgspec.Raw] | None = None


class WireQuotaStatus(WireStruct):
    """What the API server enforces, and what it has counted."""

    hard: dict[str, Quantity] | None = None
    used: dict[str, Quantity] | None = None


class WireResourceQuota(WireStruct):
    """A ResourceQuota."""

    metadata: WireMetadata
    spec: WireQuotaSpec = msgspec.field(default_factory=WireQuotaSpec)
    status: WireQuotaStatus = msgspec.field(default_factory=WireQuotaStatus)


class WireNamespace(WireStruct):
    """A namespace."""

    metadata: WireMetadata


class WirePriorityClass(WireStruct):
    """A priority class."""

    metadata: WireMetadata
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


# ── devices ─────────────────────────────────────────────────────────────────────────────────────────────────────


class WireDeviceTopology(WireStruct):
    """Where a device sits in its machine."""

    #: NUMA node.
    node_id: Int64 = msgspec.field(name="nodeID", default=-1)
    pcie_id: str = msgspec.field(name="pcieID", default="")
    bus_id: str = msgspec.field(name="busID", default="")


class WireReportedDevice(WireStruct):
    """A device of a node, as its reporter sees it."""

    type: str = ""
    id: str = ""
    minor: Int64 = -1
    health: bool = False
    labels: dict[str, str] | None = None
    topology: WireDeviceTopology | None = None
    conditions: tuple[WireCondition, ...] | None = None


class WireNodeDevicesSpec(WireStruct):
    """The devices of a node."""

    devices: tuple[WireReportedDevice, ...] | None = None


class WireDeviceEntry(WireStruct):
    """Devices that one pod has."""

    uuid: str = ""
    minors: tuple[Int64, ...] | None = None


class WireDeviceAllocation(WireStruct):
    """Devices of one type that pods have."""

    type: str = ""
    entries: tuple[WireDeviceEntry, ...] | None = None


class WireNodeDevicesStatus(WireStruct):
    """Which pods have devices."""

    allocations: tuple[WireDeviceAllocation, ...] | None = None


class WireNodeDevices(WireStruct):
    """A Device object."""

    metadata: WireMetadata
    spec: WireNodeDevicesSpec = msgspec.field(default_factory=WireNodeDevicesSpec)
    status: WireNodeDevicesStatus = msgspec.field(default_factory=WireNodeDevicesStatus)


class WirePool(WireStruct):
    """The pool of a slice."""

    name: str = ""
    generation: Int64 = 0


class WireDeviceTaint(WireStruct):
    """A taint of a device."""

    effect: str = ""


class WireSliceDevice(WireStruct):
    """A device of a slice."""

    name: str = ""
    attributes: dict[str, dict[str, Any]] | None = None
    taints: tuple[WireDeviceTaint, ...] | None = None
    consumes_counters: tuple[msgspec.Raw, ...] | None = None
    node_name: str | None = None


class WireSliceSpec(WireStruct):
    """What a driver publishes of one node."""

    driver: str = ""
    pool: WirePool = msgspec.field(default_factory=WirePool)
    node_name: str | None = None
    devices: tuple[WireSliceDevice, ...] | None = None


class WireResourceSlice(WireStruct):
    """A ResourceSlice."""

    metadata: WireMetadata
    spec: WireSliceSpec = msgspec.field(default_factory=WireSliceSpec)


# ── pages of lists, lines of watches ────────────────────────────────────────────────────────────────────────────


class ListMetadata(WireStruct):
    """Where a list was cut and how old it is."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class Page(WireStruct):
    """One page of a list, its items not yet decoded."""

    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)
    items: list[msgspec.Raw] | None = None


class WatchEvent(WireStruct):
    """One line of a watch, its object not yet decoded."""

    type: str
    object: msgspec.Raw
