"""Pods and their templates."""

import msgspec

from admission.objects.parts import Quantity, WireCondition, WireMetadata, WireStruct


class WireAmounts(WireStruct):
    """Requests and limits."""

    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class WireContainerPort(WireStruct):
    """A port of a container, perhaps of the node."""

    container_port: int = 0
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


class WireContainer(WireStruct):
    """A container."""

    resources: WireAmounts | None = None
    restart_policy: str | None = None
    ports: tuple[WireContainerPort, ...] | None = None


class WireExpression(WireStruct):
    """One expression over labels or fields of a node."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class WireNodeSelectorTerm(WireStruct):
    """Expressions that must all hold."""

    match_expressions: tuple[WireExpression, ...] | None = None
    match_fields: tuple[WireExpression, ...] | None = None


class WireNodeSelector(WireStruct):
    """Terms of which one must hold."""

    node_selector_terms: tuple[WireNodeSelectorTerm, ...] | None = None


class WirePreferredTerm(WireStruct):
    """A term that nodes should meet."""

    weight: int = 0
    preference: WireNodeSelectorTerm = msgspec.field(default_factory=WireNodeSelectorTerm)


class WireNodeAffinity(WireStruct):
    """Node affinity."""

    required_during_scheduling_ignored_during_execution: WireNodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[WirePreferredTerm, ...] | None = None


class WireAffinity(WireStruct):
    """Affinity, the node half."""

    node_affinity: WireNodeAffinity | None = None


class WireToleration(WireStruct):
    """A toleration."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


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
    affinity: WireAffinity | None = None
    tolerations: tuple[WireToleration, ...] | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    active_deadline_seconds: int | None = None
    scheduling_gates: tuple[WireSchedulingGate, ...] | None = None


class WireTerminated(WireStruct):
    """How a container ended."""

    exit_code: int = 0
    finished_at: str | None = None


class WireContainerState(WireStruct):
    """What a container does now."""

    terminated: WireTerminated | None = None


class WireContainerStatus(WireStruct):
    """A container's state and restarts."""

    restart_count: int = 0
    state: WireContainerState | None = None


class WirePodStatus(WireStruct):
    """How far a pod is."""

    phase: str = ""
    conditions: tuple[WireCondition, ...] | None = None
    container_statuses: tuple[WireContainerStatus, ...] | None = None
    init_container_statuses: tuple[WireContainerStatus, ...] | None = None


class WirePod(WireStruct):
    """A pod."""

    metadata: WireMetadata
    spec: WirePodSpec = msgspec.field(default_factory=WirePodSpec)
    status: WirePodStatus = msgspec.field(default_factory=WirePodStatus)


class WirePodTemplate(WireStruct):
    """A pod template: of a Job, of a task."""

    metadata: WireMetadata | None = None
    spec: WirePodSpec | None = None
