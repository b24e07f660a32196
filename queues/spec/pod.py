"""Pods: what they take, and which nodes they may use.

The functions read attributes, so the pydantic models of this module and any other decoding with the same
snake_case names serve alike. Rules are those of the core API (k8s.io/component-helpers/resource PodRequests).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from queues.errors import InvalidDocument
from queues.resources import BEYOND_NODES, PODS, Resources, request
from queues.spec.metadata import ObjectMeta
from queues.spec.model import Flag, Int32, Labels, Model, Text
from queues.spec.names import CORE, PARTITIONS, PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY
from queues.workload import HostPort, NodeFilter, Partition, Preference, Requirement, Toleration


def _number_or_text(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise PydanticCustomError("quantity", "a quantity: a number, or text such as 500m or 32Gi")
    return value


#: The core API takes ``cpu: 0.5`` as a number too.
PodQuantities = dict[str, Annotated[int | float | str, PlainValidator(_number_or_text)]]

#: Matches no node: how the core API reads a term without expressions.
NO_NODE = Requirement(key="metadata.name", operator="In", values=(), field=True)


class ResourceRequirements(Model):
    """Requests and limits of a container or of a whole pod."""

    requests: PodQuantities = Field(default_factory=dict)
    limits: PodQuantities = Field(default_factory=dict)


class ContainerPort(Model):
    """A port of a container; of interest if it is one of the node too."""

    container_port: int = 0
    host_port: int | None = None
    protocol: Text = "TCP"
    host_ip: Text = Field(default="", alias="hostIP")


class Container(Model):
    """A container, as far as admission needs it."""

    name: Text = ""
    image: Text = ""
    #: Of init containers: ``Always`` makes a sidecar.
    restart_policy: Text | None = None
    resources: ResourceRequirements | None = None
    ports: tuple[ContainerPort, ...] = ()


class SelectorRequirement(Model):
    """One expression over a node's labels or fields."""

    key: Text
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[Text, ...] = ()


class NodeSelectorTerm(Model):
    """Expressions that must all hold."""

    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(Model):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredTerm(Model):
    """A term that nodes should meet, and how much that counts."""

    weight: int
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Model):
    """Node affinity; only what is required keeps a pod off a node."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


class Affinity(Model):
    """Affinity of a pod; pod (anti-)affinity is kept, not read."""

    node_affinity: NodeAffinity | None = None


class TolerationSpec(Model):
    """A toleration as users write it."""

    key: Text = ""
    operator: Text = "Equal"
    value: Text = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    toleration_seconds: int | None = None


class SchedulingGate(Model):
    """Keeps a pod from being scheduled."""

    name: Text


class PodSpec(Model):
    """A pod's spec, as far as admission needs it."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    #: Pod-level requests and limits.
    resources: ResourceRequirements | None = None
    overhead: PodQuantities = Field(default_factory=dict)
    node_selector: Labels = Field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[TolerationSpec, ...] = ()
    node_name: Text = ""
    scheduler_name: Text = ""
    priority_class_name: Text = ""
    priority: Int32 | None = None
    restart_policy: Text = ""
    host_network: Flag = False
    dns_policy: Text = ""
    hostname: Text = ""
    subdomain: Text = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    active_deadline_seconds: int | None = None


class PodTemplate(Model):
    """A PodTemplateSpec."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class PodStatus(Model):
    """How far a pod is."""

    phase: Text = ""


class Pod(Model):
    """A Pod."""

    api_version: Literal["v1"] = CORE
    kind: Literal["Pod"] = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class _Amounts(Protocol):
    @property
    def requests(self) -> Mapping[str, str | int | float] | None: ...
    @property
    def limits(self) -> Mapping[str, str | int | float] | None: ...


class _Container(Protocol):
    @property
    def resources(self) -> _Amounts | None: ...
    @property
    def restart_policy(self) -> str | None: ...


class _TakesResources(Protocol):
    """A pod spec that tells its requests."""

    @property
    def containers(self) -> Sequence[Any]: ...
    @property
    def init_containers(self) -> Sequence[Any] | None: ...
    @property
    def resources(self) -> Any: ...
    @property
    def overhead(self) -> Mapping[str, str | int | float] | None: ...


class _ChoosesNodes(Protocol):
    """A pod spec that tells which nodes it may use."""

    @property
    def node_selector(self) -> Mapping[str, str] | None: ...
    @property
    def affinity(self) -> Any: ...
    @property
    def tolerations(self) -> Sequence[Any] | None: ...


def requests_of(spec: _TakesResources) -> Resources:
    """What one pod takes of a node, ``pods: 1`` included, in the units of queues.resources.

    The larger of (containers and sidecars together) and (each init container with the sidecars before it);
    for cpu, memory and huge pages the pod's own requests instead, where it has any; plus overhead. A limit
    without a request is the request. What is beyond any node counts as BEYOND_NODES. Raises InvalidQuantity.
    """
    sums: dict[str, int] = {}
    for container in spec.containers:
        _add(sums, _container(container))
    if spec.init_containers:
        sums = _with_init_containers(sums, spec.init_containers)
    if spec.resources is not None:
        _prefer_pod_level(sums, spec.resources)
    if spec.overhead:
        _add(sums, {name: request(name, text) for name, text in spec.overhead.items()})
    sums[PODS] = 1
    if max(sums.values()) > BEYOND_NODES:
        sums = {name: min(units, BEYOND_NODES) for name, units in sums.items()}
    return Resources(sums)


def node_filter_of(spec: _ChoosesNodes) -> NodeFilter:
    """Which nodes one pod may use."""
    return NodeFilter(
        selector=tuple(sorted(spec.node_selector.items())) if spec.node_selector else (),
        affinity=_terms(spec.affinity) if spec.affinity is not None else (),
        tolerations=tuple(
            Toleration(
                key=one.key or "",
                operator=one.operator or "Equal",
                value=one.value or "",
                effect=one.effect or "",
            )
            for one in spec.tolerations or ()
        ),
    )


def preferences_of(affinity: Any) -> tuple[Preference, ...]:
    """Preferred node affinity. A term without expressions says nothing, as in the core API."""
    node_affinity = affinity.node_affinity if affinity is not None else None
    terms = node_affinity and node_affinity.preferred_during_scheduling_ignored_during_execution
    return tuple(
        Preference(one.weight, requirements)
        for one in terms or ()
        if (
            requirements := _requirements(one.preference.match_expressions, field=False)
            + _requirements(one.preference.match_fields, field=True)
        )
    )


def host_ports_of(spec: _TakesResources) -> tuple[HostPort, ...]:
    """Ports of the node that one pod has, sorted. On the host's network every port is one of the node."""
    host_network = bool(getattr(spec, "host_network", False))
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    found = {
        HostPort(number, port.protocol or "TCP", port.host_ip or "")
        for container in (*spec.containers, *sidecars)
        for port in container.ports or ()
        if (number := port.host_port or (port.container_port if host_network else 0))
    }
    return tuple(sorted(found, key=lambda port: (port.port, port.protocol, port.ip)))


def partitions_of(annotations: Mapping[str, str] | None) -> tuple[Partition, ...]:
    """Parts of the pods of a template, outermost first. Raises InvalidDocument."""
    text = (annotations or {}).get(PARTITIONS)
    if not text:
        return ()
    parts: list[Partition] = []
    for one in text.split(","):
        size, _, level = (word.strip() for word in one.partition("="))
        number = int(size) if size.isdecimal() and len(size) < 10 else 0
        if not number or not level or (parts and (parts[-1].size % number or parts[-1].size == number)):
            raise InvalidDocument(
                where=f"metadata.annotations[{PARTITIONS}]",
                found=repr(text),
                expected="parts such as 8=topology.muster.dev/rack,2=kubernetes.io/hostname, "
                "the larger first, each size dividing the one before",
            )
        parts.append(Partition(size=number, level=level))
    return tuple(parts)


def topology_of(annotations: Mapping[str, str] | None) -> tuple[str | None, str | None]:
    """The required and the preferred level of a pod template: node label keys, None without."""
    if not annotations:
        return None, None
    return annotations.get(REQUIRED_TOPOLOGY) or None, annotations.get(PREFERRED_TOPOLOGY) or None


def _container(container: _Container) -> dict[str, int]:
    resources = container.resources
    if resources is None:
        return {}
    requests = resources.requests or {}
    amounts = {name: request(name, text) for name, text in requests.items()}
    for name, text in (resources.limits or {}).items():
        if name not in amounts:
            amounts[name] = request(name, text)
    return amounts


def _add(sums: dict[str, int], more: Mapping[str, int]) -> None:
    for name, units in more.items():
        sums[name] = sums.get(name, 0) + units


def _with_init_containers(sums: dict[str, int], init_containers: Sequence[_Container]) -> dict[str, int]:
    sidecars: dict[str, int] = {}
    highest: dict[str, int] = {}
    for container in init_containers:
        amounts = _container(container)
        if container.restart_policy == "Always":
            _add(sidecars, amounts)
            continue
        for name in amounts.keys() | sidecars.keys():
            during = amounts.get(name, 0) + sidecars.get(name, 0)
            highest[name] = max(highest.get(name, 0), during)
    _add(sums, sidecars)
    return {name: max(sums.get(name, 0), highest.get(name, 0)) for name in sums.keys() | highest.keys()}


def _prefer_pod_level(sums: dict[str, int], resources: _Amounts) -> None:
    requests = resources.requests or {}
    for name, text in requests.items():
        if _pod_level(name):
            sums[name] = request(name, text)
    for name, text in (resources.limits or {}).items():
        # A pod-level limit stands in for a request that neither the pod nor a container makes; huge pages
        # cannot be overcommitted, so there the pod's limit always does.
        if name not in requests and _pod_level(name) and (name not in sums or name.startswith("hugepages-")):
            sums[name] = request(name, text)


def _pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _terms(affinity: Any) -> tuple[tuple[Requirement, ...], ...]:
    node_affinity = affinity.node_affinity
    required = node_affinity and node_affinity.required_during_scheduling_ignored_during_execution
    if not required:
        return ()
    terms = tuple(
        term
        for one in required.node_selector_terms or ()
        if (
            term := _requirements(one.match_expressions, field=False)
            + _requirements(one.match_fields, field=True)
        )
    )
    return terms or ((NO_NODE,),)


def _requirements(expressions: Sequence[Any] | None, *, field: bool) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(key=one.key, operator=one.operator, values=tuple(one.values or ()), field=field)
        for one in expressions or ()
    )
