"""Kueue's ResourceFlavors and Topologies as Muster's."""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from queues.api.api_resources import FLAVORS, TOPOLOGIES
from queues.api.check.finding import Finding, Subject
from queues.api.convert.conversion import Conversion, document_of
from queues.api.convert.kueue_types import ClusterQueue, KueueFlavor, KueueTopology, ResourceGroup
from queues.text_format import listed

Flavors = Mapping[str, tuple[Subject, KueueFlavor]]


def convert_flavors(
    flavors: Flavors, queues: Mapping[str, tuple[Subject, ClusterQueue]], done: Conversion
) -> frozenset[str]:
    """Names of the flavors that node labels distinguish. Quota in others is a limit over all nodes.

    A node has one flavor in Muster. So of a ClusterQueue that has flavors in several resource groups, those of one
    group stay: of the group with devices, if there is one.
    """
    with_labels = {name for name, (_, flavor) in flavors.items() if flavor.spec.node_labels}
    for name in sorted(queues):
        subject, queue = queues[name]
        undefined = _names(queue.spec.resource_groups) - flavors.keys()
        with_labels |= undefined  # they may be in the cluster
        if undefined:
            instead = "give it node labels in a ResourceFlavor of Muster, or its quota counts on no node"
            found = f"flavors that are not among the documents: {listed(sorted(undefined))}"
            done.tell("warning", subject, "spec.resourceGroups", found, instead)
    left_out: set[str] = set()
    for name in sorted(queues):
        subject, queue = queues[name]
        groups = [group for group in queue.spec.resource_groups if _names([group]) & (with_labels - left_out)]
        if len(groups) < 2:
            continue
        with_devices = (group for group in groups if any("/" in name for name in group.covered_resources))
        kept = next(with_devices, groups[0])
        others = {each for group in groups if group is not kept for each in _names([group]) & with_labels}
        left_out |= others
        found = f"flavors with node labels for {listed(kept.covered_resources)} and for other resources"
        instead = (
            f"a node has one flavor: quota in {listed(sorted(others))} is a limit over all nodes, "
            "whose labels do not choose any"
        )
        done.tell("warning", subject, "spec.resourceGroups", found, instead)
    for _, (subject, flavor) in sorted(flavors.items()):
        done.differences += _flavor_differences(subject, flavor)
    kept_flavors = {name: flavors[name] for name in sorted(with_labels - left_out) if name in flavors}
    done.documents += [
        document_of(FLAVORS, name, spec=_spec(flavor)) for name, (_, flavor) in kept_flavors.items()
    ]
    done.differences += _overlaps(kept_flavors)
    return frozenset(with_labels - left_out)


def _spec(flavor: KueueFlavor) -> dict[str, Any]:
    tolerations = list(flavor.spec.tolerations)
    return {
        "nodeLabels": dict(flavor.spec.node_labels),
        **({"tolerations": tolerations} if tolerations else {}),
    }


def convert_topology(topology: KueueTopology) -> dict[str, Any]:
    """A Topology with the same levels."""
    levels = [{"nodeLabel": level.node_label} for level in topology.spec.levels]
    return document_of(TOPOLOGIES, topology.metadata.name, spec={"levels": levels})


def _names(groups: Iterable[ResourceGroup]) -> set[str]:
    return {flavor.name for group in groups for flavor in group.flavors}


def _flavor_differences(subject: Subject, flavor: KueueFlavor) -> Iterable[Finding]:
    spec = flavor.spec
    if not spec.node_labels:
        instead = "no ResourceFlavor is made of it: its quota is a limit over all nodes"
        yield subject.finding("note", "spec.nodeLabels", "nothing", instead)
    if spec.node_taints:
        instead = "left out: Muster looks at the taints of the nodes themselves"
        yield subject.finding("note", "spec.nodeTaints", "taints", instead)
    if spec.topology_name:
        instead = "left out: the levels of a Topology count for all nodes that have its labels"
        yield subject.finding("note", "spec.topologyName", spec.topology_name, instead)


def _overlaps(flavors: Flavors) -> Iterable[Finding]:
    """Flavors whose labels one node can have at a time: it counts as the first of them by name."""
    for first, second in combinations(sorted(flavors), 2):
        one, other = flavors[first][1].spec.node_labels, flavors[second][1].spec.node_labels
        if all(other.get(key, value) == value for key, value in one.items()):
            instead = (
                f"a node with the labels of both is of {first} only: give each labels that exclude the other"
            )
            found = f"labels that a node may have beside those of {first}"
            yield flavors[second][0].finding("warning", "spec.nodeLabels", found, instead)
