"""Pods and their templates."""

import msgspec

from admission.kube.objects.parts import Condition, Metadata, Part, Quantity


class Amounts(Part):
    """Requests and limits."""

    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class ContainerPort(Part):
    """A port of a container, perhaps of the node."""

    container_port: int = 0
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


class Container(Part):
    """A container."""

    resources: Amounts | None = None
    restart_policy: str | None = None
    ports: tuple[ContainerPort, ...] | None = None


class Expression(Part):
    """One expression over labels or fields of a node."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(Part):
    """Expressions that must all hold."""

    match_expressions: tuple[Expression, ...] | None = None
    match_fields: tuple[Expression, ...] | None = None


class NodeSelector(Part):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class PreferredTerm(Part):
    """A term that nodes should meet."""

    weight: int = 0
    preference: NodeSelectorTerm = msgspec.field(default_factory=NodeSelectorTerm)


class NodeAffinity(Part):
    """Node affinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] | None = None


class Affinity(Part):
    """Affinity, the node half."""

    node_affinity: NodeAffinity | None = None


class TolerationPart(Part):
    """A toleration."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Gate(Part):
    """A scheduling gate."""

    name: str


class PodSpec(Part):
    """A pod's spec."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    resources: Amounts | None = None
    overhead: dict[str, Quantity] | None = None
    node_name: str | None = None
    host_network: bool | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[TolerationPart, ...] | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    active_deadline_seconds: int | None = None
    scheduling_gates: tuple[Gate, ...] | None = None


class Terminated(Part):
    """How a container ended."""

    exit_code: int = 0
    finished_at: str | None = None


class ContainerState(Part):
    """What a container does now."""

    terminated: Terminated | None = None


class ContainerStatus(Part):
    """A container's state and restarts."""

    restart_count: int = 0
    state: ContainerState | None = None


class PodStatus(Part):
    """How far a pod is."""

    phase: str = ""
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(Part):
    """A pod."""

    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class PodTemplate(Part):
    """A pod template: of a Job, of a task."""

    metadata: Metadata | None = None
    spec: PodSpec | None = None
