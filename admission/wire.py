"""Kubernetes objects as Muster reads them: only the needed fields, decoded by msgspec.

Attribute names are the snake_case forms of the API's. ``metadata.managedFields`` and everything else that is not named
is never materialised. What pods and their templates ask for is in ``queues.api.types.pod``: validation reads that too.
Documents of administrators (Queue, ResourceFlavor, Topology) are few and go through queues.api instead.
"""

from typing import Any

import msgspec

from queues.api.types.pod import (
    Int32,
    Int64,
    Quantity,
    WireAmounts,
    WireLabelSelector,
    WireMetadata,
    WireOwnerReference,
    WirePodResourceClaim,
    WirePodSpec,
    WireStruct,
)

#: What other objects are made of as well.
__all__ = ["Int32", "Int64", "Quantity", "WireMetadata", "WireOwnerReference", "WireStruct"]


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


class WireCommand(WireStruct):
    """A Command of Volcano."""

    metadata: WireMetadata
    action: str | None = None
    target: WireOwnerReference | None = None
    reason: str | None = None
    message: str | None = None


# ── pods ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
