"""What pods live among: nodes, namespaces, priority classes, disruption budgets."""

import msgspec

from admission.kube.objects.parts import Condition, Metadata, Part, Quantity


class TaintPart(Part):
    """A taint."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(Part):
    """A node's spec."""

    taints: tuple[TaintPart, ...] | None = None
    unschedulable: bool | None = None


class NodeStatus(Part):
    """A node's status."""

    allocatable: dict[str, Quantity] | None = None
    conditions: tuple[Condition, ...] | None = None


class Node(Part):
    """A node."""

    metadata: Metadata
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class SelectorRequirement(Part):
    """One expression of a LabelSelector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(Part):
    """Which pods a PodDisruptionBudget is about."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[SelectorRequirement, ...] | None = None


class BudgetSpec(Part):
    """The spec of a PodDisruptionBudget, the part that Muster reads."""

    selector: LabelSelector | None = None


class BudgetStatus(Part):
    """What the disruption controller worked out."""

    disruptions_allowed: int = 0


class PodDisruptionBudget(Part):
    """A PodDisruptionBudget."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


class Namespace(Part):
    """A namespace."""

    metadata: Metadata


class PriorityClass(Part):
    """A priority class."""

    metadata: Metadata
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
