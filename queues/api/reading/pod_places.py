"""Which nodes a pod may use and which it prefers, which ports of them it has, and what it has to be close to."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from queues.api.names import PARTITIONS, PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY
from queues.errors import InvalidDocument
from queues.workload import HostPort, NodeFilter, Partition, Preference, Requirement, Toleration

#: Matches no node: how the core API reads a term without expressions.
NO_NODE: Final = Requirement(key="metadata.name", operator="In", values=(), field=True)


class _ChoosesNodes(Protocol):
    """A pod spec that tells which nodes it may use."""

    @property
    def node_selector(self) -> Mapping[str, str] | None: ...
    @property
    def affinity(self) -> Any: ...
    @property
    def tolerations(self) -> Sequence[Any] | None: ...


class _HasPorts(Protocol):
    """A pod spec that tells its ports."""

    @property
    def containers(self) -> Sequence[Any]: ...
    @property
    def init_containers(self) -> Sequence[Any] | None: ...


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


def host_ports_of(spec: _HasPorts) -> tuple[HostPort, ...]:
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
