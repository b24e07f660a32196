"""Pods and pod templates as users write them: the fields that admission needs.

``queues.api.reading`` derives requests and node filters from a pod spec. It reads attributes by their snake_case
names, so it takes these models and any other decoding with the same names.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from queues.api.metadata import ObjectMeta
from queues.api.model import Flag, Int32, Labels, Model, Text, at_most
from queues.api.names import CORE
from queues.api.reading.user_values import (
    MOST_CONTAINERS,
    MOST_ENTRIES,
    MOST_EXPRESSIONS,
    MOST_LISTED,
    MOST_PORTS,
    MOST_RESOURCES,
    MOST_TOLERATIONS,
)


def _number_or_text(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise PydanticCustomError("quantity", "a quantity: a number, or text such as 500m or 32Gi")
    return value


#: The core API takes ``cpu: 0.5`` as a number too.
PodQuantities = Annotated[
    dict[str, Annotated[int | float | str, PlainValidator(_number_or_text)]], at_most(MOST_RESOURCES)
]


class ResourceRequirements(Model):
    """Requests and limits of a container or of a whole pod."""

    requests: PodQuantities = Field(default_factory=dict)
    limits: PodQuantities = Field(default_factory=dict)


class ContainerPort(Model):
    """A port of a container. Admission counts it if it is a port of the node too."""

    container_port: int = 0
    host_port: int | None = None
    protocol: Text = "TCP"
    host_ip: Text = Field(default="", alias="hostIP")


class Container(Model):
    """A container: the fields that admission needs."""

    name: Text = ""
    image: Text = ""
    #: Of init containers: ``Always`` makes a sidecar.
    restart_policy: Text | None = None
    resources: ResourceRequirements | None = None
    ports: Annotated[tuple[ContainerPort, ...], at_most(MOST_PORTS)] = ()


class SelectorRequirement(Model):
    """One expression over a node's labels or fields."""

    key: Text
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: Annotated[tuple[Text, ...], at_most(MOST_LISTED)] = ()


_Expressions = Annotated[tuple[SelectorRequirement, ...], at_most(MOST_EXPRESSIONS)]


class NodeSelectorTerm(Model):
    """Expressions that must all hold."""

    match_expressions: _Expressions = ()
    match_fields: _Expressions = ()


class NodeSelector(Model):
    """Terms: at least one must hold."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], at_most(MOST_EXPRESSIONS)] = ()


class PreferredTerm(Model):
    """A term that nodes should meet, with its weight (1 … 100)."""

    weight: int
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Model):
    """Node affinity: required terms keep a pod off a node, preferred terms only order the nodes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredTerm, ...], at_most(MOST_EXPRESSIONS)
    ] = ()


class PodAffinityTerm(Model):
    """A term about other pods: the namespaces that these are in. What else it says is kept and not read."""

    namespaces: Annotated[tuple[Text, ...], at_most(MOST_LISTED)] = ()
    namespace_selector: dict[str, Any] | None = None


class PodAntiAffinity(Model):
    """Pods from which a pod has to be kept away, and which are kept away from it."""

    required_during_scheduling_ignored_during_execution: Annotated[
        tuple[PodAffinityTerm, ...], at_most(MOST_EXPRESSIONS)
    ] = ()


class Affinity(Model):
    """Affinity of a pod: to nodes, and against other pods. Other affinity is kept and not read."""

    node_affinity: NodeAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class TolerationSpec(Model):
    """A toleration as users write it."""

    #: Key of the taint; empty: every taint.
    key: Text = ""
    #: ``Exists`` or ``Equal``.
    operator: Text = "Equal"
    #: Value of the taint.
    value: Text = ""
    #: Effect of the taint; empty: every effect.
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    #: How long a pod stays on a node with the taint.
    toleration_seconds: int | None = None


class SchedulingGate(Model):
    """Keeps a pod from being scheduled."""

    name: Text


class ResourceClaim(Model):
    """Devices that a pod claims (dynamic resource allocation)."""

    name: Text = ""
    resource_claim_name: Text = ""
    resource_claim_template_name: Text = ""


_Containers = Annotated[tuple[Container, ...], at_most(MOST_CONTAINERS)]


class PodSpec(Model):
    """A pod's spec: the fields that admission needs."""

    containers: _Containers = ()
    init_containers: _Containers = ()
    #: Pod-level requests and limits.
    resources: ResourceRequirements | None = None
    overhead: PodQuantities = Field(default_factory=dict)
    node_selector: Annotated[Labels, at_most(MOST_EXPRESSIONS)] = Field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: Annotated[tuple[TolerationSpec, ...], at_most(MOST_TOLERATIONS)] = ()
    node_name: Text = ""
    scheduler_name: Text = ""
    priority_class_name: Text = ""
    priority: Int32 | None = None
    restart_policy: Text = ""
    host_network: Flag = False
    dns_policy: Text = ""
    hostname: Text = ""
    subdomain: Text = ""
    scheduling_gates: Annotated[tuple[SchedulingGate, ...], at_most(MOST_ENTRIES)] = ()
    resource_claims: Annotated[tuple[ResourceClaim, ...], at_most(MOST_ENTRIES)] = ()
    active_deadline_seconds: int | None = None


class PodTemplate(Model):
    """A PodTemplateSpec."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class PodStatus(Model):
    """The phase of a pod."""

    phase: Text = ""


class Pod(Model):
    """A Pod."""

    api_version: Literal["v1"] = CORE
    kind: Literal["Pod"] = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
