"""Where a pod may go, from its spec and annotations: nodes, preferred nodes, host ports, topology levels."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from queues.api.names import PARTITIONS, PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY
from queues.api.types.pod import WireAffinity, WireNodeSelectorTerm, WirePodSpec, WireSelectorRequirement
from queues.errors import InvalidDocument
from queues.text_format import excerpt
from queues.workload import HostPort, NodeFilter, Partition, Preference, Requirement, Toleration

#: Host ports of a pod that are read.
_PORTS_READ: Final = 4096

#: Required terms of anti-affinity.
_REQUIRED: Final = "podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"

_KEEPS_OFF: Final = (
    "while the pod runs, kube-scheduler would refuse pods of other namespaces on its nodes. Leave it out, so that the "
    "term is about pods of the same namespace, or make it preferredDuringSchedulingIgnoredDuringExecution; where the "
    "object cannot be changed, create it again"
)

#: In the annotations of topology, alone or next to a level: the devices of each pod, all joined by NVLinks.
NVLINK: Final = "muster.dev/nvlink"

#: Matches no node: how the core API reads a term without expressions.
NO_NODE: Final = Requirement(key="metadata.name", operator="In", values=(), field=True)


def node_filter_of(spec: WirePodSpec, affinity: WireAffinity | None) -> NodeFilter:
    """The filter for the nodes that a pod may use. ``affinity``: of the spec, read; None if it has none."""
    node_affinity = affinity.node_affinity if affinity is not None else None
    required = node_affinity and node_affinity.required_during_scheduling_ignored_during_execution
    return NodeFilter(
        selector=tuple(sorted(spec.node_selector.items())) if spec.node_selector else (),
        affinity=terms_of(required.node_selector_terms or ()) if required else (),
        tolerations=tuple(
            Toleration(
                key=toleration.key or "",
                operator=toleration.operator or "Equal",
                value=toleration.value or "",
                effect=toleration.effect or "",
            )
            for toleration in spec.tolerations or ()
        ),
    )


def preferences_of(affinity: WireAffinity | None) -> tuple[Preference, ...]:
    """Preferred node affinity. A term without expressions is ignored, as in the core API."""
    node_affinity = affinity.node_affinity if affinity is not None else None
    terms = node_affinity and node_affinity.preferred_during_scheduling_ignored_during_execution
    return tuple(
        Preference(term.weight, requirements)
        for term in terms or ()
        if (requirements := _requirements_of(term.preference))
    )


def cross_namespace_anti_affinity(
    affinity: WireAffinity | None, namespace: str
) -> tuple[str, str, str] | None:
    """Where an affinity keeps pods of other namespaces off nodes, what is found there, and what is expected.

    None if it does so nowhere. ``affinity``: of a spec, read; None if it has none. ``namespace``: of the pod; "": not
    known, so a single name may be it.

    kube-scheduler reads required anti-affinity in both directions: while such a pod runs, no pod that it selects gets
    onto a node of its domain, in whatever namespace that pod is (InterPodAffinity, existing anti-affinity terms).
    """
    against = affinity.pod_anti_affinity if affinity is not None else None
    if against is None:
        return None
    for index, term in enumerate(against.required_during_scheduling_ignored_during_execution or ()):
        where = f"affinity.{_REQUIRED}[{index}]"
        if term.namespace_selector is not None:
            found = (
                "a selector" if term.namespace_selector else "an empty selector, which is of all namespaces"
            )
            return f"{where}.namespaceSelector", found, f"none: {_KEEPS_OFF}"
        listed = term.namespaces or ()
        own = namespace or next(iter(listed), "")
        other = next((name for name in listed if name != own), None)
        if other is not None:
            return f"{where}.namespaces", excerpt(other), f"no namespace but its own: {_KEEPS_OFF}"
    return None


def host_ports_of(spec: WirePodSpec) -> tuple[HostPort, ...]:
    """Ports of its node that a pod takes, sorted. On the host's network every container port is a port of the node."""
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    found = (
        HostPort(number, port.protocol or "TCP", port.host_ip or "")
        for container in (*spec.containers, *sidecars)
        for port in container.ports or ()
        if (number := port.host_port or (port.container_port if spec.host_network else 0))
    )
    # Far more than can be used, so that the caller refuses them.
    first = set(islice(found, _PORTS_READ))
    return tuple(sorted(first, key=lambda port: (port.port, port.protocol, port.ip)))


def partitions_of(annotations: Mapping[str, str] | None) -> tuple[Partition, ...]:
    """Partitions of a template's pods, outermost first; (): none. Raises InvalidDocument."""
    text = (annotations or {}).get(PARTITIONS)
    if not text:
        return ()
    parts: list[Partition] = []
    for entry in text.split(","):
        size, _, level = (word.strip() for word in entry.partition("="))
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
    """The required and the preferred topology level of a pod template: node label keys; None if none is asked for.

    Without ``muster.dev/nvlink``, which may be written next to a level. It is no level (``asks_one_island``).
    """
    if not annotations:
        return None, None
    asked = (annotations.get(key) for key in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY))
    required, preferred = (None if not text else level_of(text) for text in asked)
    return required, preferred


def level_of(text: str) -> str | None:
    """The level in the value of a topology annotation; None if there is only ``muster.dev/nvlink``.

    Several levels stay together.
    """
    if NVLINK not in text:
        return text
    return ",".join(each for each in map(str.strip, text.split(",")) if each != NVLINK) or None


def asks_one_island(annotations: Mapping[str, str] | None) -> bool:
    """True if NVLinks have to join all devices of each pod. Preferred, they change nothing: that is the rule anyway."""
    text = (annotations or {}).get(REQUIRED_TOPOLOGY, "")
    return NVLINK in map(str.strip, text.split(","))


def terms_of(terms: Sequence[WireNodeSelectorTerm]) -> tuple[tuple[Requirement, ...], ...]:
    """Terms of a node selector: at least one must hold. A term that asks nothing matches no node."""
    return tuple(filter(None, map(_requirements_of, terms))) or ((NO_NODE,),)


def _requirements_of(term: WireNodeSelectorTerm) -> tuple[Requirement, ...]:
    return (
        *_requirements(term.match_expressions, field=False),
        *_requirements(term.match_fields, field=True),
    )


def _requirements(
    expressions: Sequence[WireSelectorRequirement] | None, *, field: bool
) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(key=each.key, operator=each.operator, values=tuple(each.values or ()), field=field)
        for each in expressions or ()
    )
