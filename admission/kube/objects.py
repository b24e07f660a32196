"""Kubernetes objects as Muster reads them: only the needed fields, decoded by msgspec.

Attribute names are the snake_case forms of the API's, so the functions of queues.spec.pod work on them.
``metadata.managedFields`` and everything else that is not named here is never materialised. Documents of
administrators (Queue, ResourceFlavor, Topology) are few and go through queues.spec instead.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from queues.spec.names import BATCH_VOLCANO, BUS_VOLCANO, MUSTER, SCHEDULING_VOLCANO, TOPOLOGY_VOLCANO

Quantity = str | int | float


class Part(msgspec.Struct, rename="camel", gc=False):
    """Base of everything here. Nothing refers back to its container, so the collector need not look."""


class OwnerReference(Part):
    """Who owns an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class Metadata(Part):
    """ObjectMeta, the part that Muster reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None


class Bare(Part):
    """Any object, by its identity only: what is left of one that cannot be read."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


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


class Condition(Part):
    """A condition of a pod, node or Job."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


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


class JobSpec(Part):
    """The spec of a Job of batch/v1; the template is decoded by who needs it."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    active_deadline_seconds: int | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")


class JobStatus(Part):
    """The status of a Job of batch/v1."""

    active: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    completed_indexes: str | None = None
    failed_indexes: str | None = None
    conditions: tuple[Condition, ...] | None = None


class Job(Part):
    """A Job of batch/v1."""

    metadata: Metadata
    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)


class NetworkTopology(Part):
    """How far apart pods may lie, in tiers."""

    mode: str | None = None
    highest_tier_allowed: int | None = None
    highest_tier_name: str | None = None


class VolcanoJobSpec(Part):
    """The spec of a Volcano Job, but for what admission.jobs reads from the document."""

    queue: str | None = None
    priority_class_name: str | None = None
    network_topology: NetworkTopology | None = None


class VolcanoJobState(Part):
    """The phase of a Volcano Job."""

    phase: str | None = None


class VolcanoJobStatus(Part):
    """The status of a Volcano Job."""

    state: VolcanoJobState | None = None
    version: int | None = None


class VolcanoJob(Part):
    """A Volcano Job."""

    metadata: Metadata
    spec: VolcanoJobSpec = msgspec.field(default_factory=VolcanoJobSpec)
    status: VolcanoJobStatus | None = None


class PodGroupSpec(Part):
    """The spec of a PodGroup."""

    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[msgspec.Raw] | None = None


class PodGroupStatus(Part):
    """The status of a PodGroup."""

    phase: str | None = None


class PodGroup(Part):
    """A PodGroup."""

    metadata: Metadata
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus | None = None


class Namespace(Part):
    """A namespace."""

    metadata: Metadata


class PriorityClass(Part):
    """A priority class."""

    metadata: Metadata
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class ListMetadata(Part):
    """Where a list was cut and how old it is."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class Page(Part):
    """One page of a list, its items not yet decoded."""

    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)
    items: list[msgspec.Raw] | None = None


class WatchEvent(Part):
    """One line of a watch, its object not yet decoded."""

    type: str
    object: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Resource:
    """Where the API server keeps a kind of object."""

    #: ``v1`` or ``group/version``.
    api_version: str
    plural: str
    kind: str
    namespaced: bool = True

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """URL path: of all, of a namespace's, of one object, of a subresource of it."""
        parts = ["/api" if "/" not in self.api_version else "/apis", self.api_version]
        if namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


PODS: Final = Resource("v1", "pods", "Pod")
NODES: Final = Resource("v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("v1", "namespaces", "Namespace", namespaced=False)
JOBS: Final = Resource("batch/v1", "jobs", "Job")
VOLCANO_JOBS: Final = Resource(BATCH_VOLCANO, "jobs", "Job")
POD_GROUPS: Final = Resource(SCHEDULING_VOLCANO, "podgroups", "PodGroup")
QUEUES: Final = Resource(SCHEDULING_VOLCANO, "queues", "Queue", namespaced=False)
COMMANDS: Final = Resource(BUS_VOLCANO, "commands", "Command")
FLAVORS: Final = Resource(MUSTER, "resourceflavors", "ResourceFlavor", namespaced=False)
TOPOLOGIES: Final = Resource(MUSTER, "topologies", "Topology", namespaced=False)
BUDGETS: Final = Resource("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")
HYPERNODES: Final = Resource(TOPOLOGY_VOLCANO, "hypernodes", "HyperNode", namespaced=False)
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False
)
EVENTS: Final = Resource("events.k8s.io/v1", "events", "Event")
SERVICES: Final = Resource("v1", "services", "Service")
SECRETS: Final = Resource("v1", "secrets", "Secret")
CONFIG_MAPS: Final = Resource("v1", "configmaps", "ConfigMap")
