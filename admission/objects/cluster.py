"""What pods live among: nodes, namespaces, priority classes, disruption budgets."""

import msgspec

from admission.objects.parts import Quantity, WireCondition, WireMetadata, WireStruct


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
    conditions: tuple[WireCondition, ...] | None = None


class WireNode(WireStruct):
    """A node."""

    metadata: WireMetadata
    spec: WireNodeSpec = msgspec.field(default_factory=WireNodeSpec)
    status: WireNodeStatus = msgspec.field(default_factory=WireNodeStatus)


class WireSelectorRequirement(WireStruct):
    """One expression of a LabelSelector."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class WireLabelSelector(WireStruct):
    """A label selector of Kubernetes."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[WireSelectorRequirement, ...] | None = None


class WireBudgetSpec(WireStruct):
    """The spec of a PodDisruptionBudget, the part that Muster reads."""

    selector: WireLabelSelector | None = None


class WireBudgetStatus(WireStruct):
    """What the disruption controller worked out."""

    disruptions_allowed: int = 0


class WirePodDisruptionBudget(WireStruct):
    """A PodDisruptionBudget."""

    metadata: WireMetadata = msgspec.field(default_factory=WireMetadata)
    spec: WireBudgetSpec = msgspec.field(default_factory=WireBudgetSpec)
    status: WireBudgetStatus = msgspec.field(default_factory=WireBudgetStatus)


class WireNamespace(WireStruct):
    """A namespace."""

    metadata: WireMetadata


class WirePriorityClass(WireStruct):
    """A priority class."""

    metadata: WireMetadata
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
