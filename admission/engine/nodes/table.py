"""Nodes as arrays, sorted so that a topology domain is a slice.

Amounts are int64 arrays of shape (R, N): one row per resource (units of ``queues.resources``), one column per
node.
A ``NodeTable`` is a value: ``with_used`` gives a new one that shares everything but the used amounts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.closed_nodes import ClosedNodes, open_to
from admission.engine.nodes.device_links import DeviceLinks, device_links
from admission.engine.nodes.levels import TopologyLevel, by_labels, by_name
from admission.engine.nodes.node_filters import Labels, TaintClasses, chosen, preferred
from queues.admissions import Seat
from queues.api.names import NVL_DOMAIN
from queues.flavor_growth import FlavorGrowth
from queues.resources import MOST_ON_NODE, NOTHING, Resources, is_device
from queues.workload import (
    NO_FLAVOR,
    NO_LOAD,
    DevicePlaces,
    FlavorName,
    HostPort,
    NodeFilter,
    NodeLoad,
    NodeName,
    Preference,
    Taint,
    Toleration,
    entry_to,
)

Amounts = NDArray[np.int64]
Mask = NDArray[np.bool_]

Chain = tuple[TopologyLevel, ...]

#: Masks of so many different node filters are remembered.
_FILTERS_KEPT: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node as it enters the table."""

    name: NodeName
    allocatable: Resources
    #: Foreign pods and the seats of admissions that are not closed.
    used: Resources = NOTHING
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    #: May take new pods: ready and schedulable.
    usable: bool = True
    #: Why it may not, in words ("not ready", "unschedulable"); "": it may.
    why_not: str = ""
    flavor: FlavorName = NO_FLAVOR
    #: How its devices are linked, by resource; empty: no agent reports it.
    devices: tuple[DevicePlaces, ...] = ()
    #: How busy and hot its devices are, for policies that score nodes.
    load: NodeLoad = NO_LOAD
    #: What it would offer besides if all of its devices were healthy.
    unhealthy: Resources = NOTHING


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What does not change with use: names, labels, levels. Shared by all tables of one build."""

    names: tuple[NodeName, ...]
    position: Mapping[NodeName, int]
    flavors: tuple[FlavorName, ...]
    #: Label keys of each chain's levels, outermost first; the last one is always the host.
    chains: tuple[Chain, ...]
    #: By label key: the first topology that has the level, and the level's index in it.
    levels: Mapping[str, tuple[Chain, int]]
    labels: Labels
    taints: TaintClasses
    usable: Mask
    why_not: tuple[str, ...]
    #: How the devices of the nodes are linked, of those that report it; the same as arrays, by resource.
    devices: Mapping[NodeName, tuple[DevicePlaces, ...]] = field(default_factory=dict)
    links: Mapping[str, DeviceLinks] = field(default_factory=dict)
    #: How busy and hot the devices of nodes are, of those that report it.
    loads: Mapping[NodeName, NodeLoad] = field(default_factory=dict)
    #: Nodes that Reservations and NodeDrains close in this turn.
    closed: tuple[ClosedNodes, ...] = ()
    #: All ResourceFlavors, with what can be added to them; empty: none states anything.
    growth: tuple[FlavorGrowth, ...] = ()
    #: What pods on nodes of a flavor tolerate besides, of queues that name it (``NodeFilter.enters``).
    tolerations: Mapping[FlavorName, tuple[Toleration, ...]] = field(default_factory=dict)
    _filters: dict[NodeFilter, Mask] = field(default_factory=dict)
    _flavors: dict[FlavorName, Mask] = field(default_factory=dict)
    _scores: dict[tuple[Preference, ...], Amounts] = field(default_factory=dict)

    def closing(self, closed: tuple[ClosedNodes, ...]) -> "Layout":
        """The same nodes, with these of them closed."""
        return replace(self, closed=closed, _filters={})

    def chain(self, level: str) -> tuple[Chain, int] | None:
        """The first topology with that level, and the level's index in it; None if no topology has it."""
        return self.levels.get(level)

    def level(self, key: str) -> TopologyLevel:
        """The level of a label key, in the first topology that has it. Raises KeyError."""
        chain, index = self.levels[key]
        return chain[index]

    def most_pods(self, pods: Amounts, level: str | None) -> int:
        """The sum of (N,) pods per node over all nodes, or over the best domain of a level; unknown level: 0."""
        if level is None:
            return int(pods.sum())
        return int(self.level(level).sums(pods).max(initial=0)) if level in self.levels else 0

    def allowed(self, nodes: NodeFilter) -> Mask:
        """(N,) nodes that a pod with this filter may use and that take pods at all."""
        mask = self._filters.get(nodes)
        if mask is None:
            if len(self._filters) >= _FILTERS_KEPT:
                self._filters.clear()
            mask = self.usable & self.chosen(nodes) & self.tolerated(nodes)
            if self.closed:
                mask = open_to(nodes, self.closed, mask)
            self._filters[nodes] = mask
        return mask

    def chosen(self, nodes: NodeFilter) -> Mask:
        """(N,) nodes that nodeSelector and required node affinity choose."""
        return chosen(nodes, self.labels)

    def score(self, prefers: tuple[Preference, ...]) -> Amounts | None:
        """(N,) sum of the weights of the preferences that each node meets; None if nothing is preferred."""
        if not prefers:
            return None
        score = self._scores.get(prefers)
        if score is None:
            if len(self._scores) >= _FILTERS_KEPT:
                self._scores.clear()
            score = self._scores[prefers] = preferred(prefers, self.labels)
        return score

    def tolerated(self, nodes: NodeFilter) -> Mask:
        """(N,) nodes with tolerated taints only."""
        mask = self.taints.tolerated(nodes.tolerations)
        for flavor, tolerations in self.tolerations.items():
            if entry_to(flavor) in nodes.enters:
                more = self.taints.tolerated((*nodes.tolerations, *tolerations))
                mask = mask | (self.of_flavor(flavor) & more)
        return mask

    def entries(self, flavors: Iterable[FlavorName]) -> tuple[str, ...]:
        """What pods of a queue with these flavors may enter by the tolerations of these."""
        return tuple(entry_to(flavor) for flavor in flavors if flavor in self.tolerations)

    def lasting(self) -> "Layout":
        """The same nodes without the taints that say how a node is now."""
        return replace(self, taints=self.taints.lasting(), _filters={})

    def seat(self, column: int, pod_set: str, ordinal: int, takes: Resources) -> Seat:
        """A seat on the node of a column."""
        node, flavor = self.names[column], self.flavors[column]
        return Seat(pod_set=pod_set, ordinal=ordinal, node=node, flavor=flavor, takes=takes)

    def names_in(self, mask: Mask) -> tuple[NodeName, ...]:
        """The nodes of a mask, in their order."""
        return tuple(self.names[column] for column in np.flatnonzero(mask).tolist())

    def of_flavor(self, flavor: FlavorName) -> Mask:
        """(N,) nodes of a flavor."""
        mask = self._flavors.get(flavor)
        if mask is None:
            mask = self._flavors[flavor] = np.array([name == flavor for name in self.flavors], dtype=np.bool_)
        return mask


@dataclass(frozen=True, slots=True, eq=False)
class NodeTable:
    """All nodes: their amounts, and what of these is used. Sorted by the first topology's levels, then name."""

    layout: Layout
    #: Names of the rows. Grows with the resources seen on nodes.
    resources: tuple[str, ...]
    #: (R, N) what nodes offer, whether usable or not.
    allocatable: Amounts
    #: (R, N) foreign pods and seats.
    used: Amounts
    #: Host ports that pods on a node have, or that seats there will have.
    ports: Mapping[NodeName, tuple[HostPort, ...]] = field(default_factory=dict)
    #: Volumes that a node can attach, by driver; nodes and drivers without a limit are left out.
    attach_limits: Mapping[NodeName, Mapping[str, int]] = field(default_factory=dict)
    #: What nodes would offer besides if all of their devices were healthy; only nodes with unhealthy ones.
    unhealthy: Mapping[NodeName, Resources] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        nodes: Iterable[Node],
        levels: Sequence[Sequence[str]] = (),
        tree: Sequence[tuple[str, Mapping[NodeName, str]]] = (),
        growth: tuple[FlavorGrowth, ...] = (),
        tolerations: Mapping[FlavorName, tuple[Toleration, ...]] = MappingProxyType({}),
    ) -> "NodeTable":
        """A table of these nodes, in any order.

        ``levels``: label keys of each Topology, outermost first. A domain is identified by the labels of all levels
        down to it, so rack r1 of block b1 is not rack r1 of block b2. The host level is added where it is missing.
        ``tree``: one more topology, by node name: key and domain of each node, outermost first. Where nodes say in
        which NVLink domain across nodes they are, that is a topology by itself, unless a Topology has the level.
        """
        main = tuple(levels[0]) if levels else ()
        beyond = [] if levels else tree
        ordered = sorted(
            nodes,
            key=lambda node: (
                _place(node, main),
                [(node.name not in domains, domains.get(node.name, "")) for _, domains in beyond],
                node.name,
            ),
        )
        resources = sorted(
            {name for node in ordered for name in (*node.allocatable, *node.used, *node.unhealthy)}
        )
        names, labels = [node.name for node in ordered], [node.labels for node in ordered]
        chains = (
            *(by_labels(names, labels, keys) for keys in levels),
            *((by_name(names, tree),) if tree or not levels else ()),
            *((by_labels(names, labels, [NVL_DOMAIN]),) if _has_nvl_domains(labels, levels) else ()),
        )
        layout = Layout(
            names=tuple(names),
            position={node.name: index for index, node in enumerate(ordered)},
            flavors=tuple(node.flavor for node in ordered),
            chains=chains,
            levels={
                level.key: (chain, index)
                for chain in reversed(chains)
                for index, level in reversed(list(enumerate(chain)))
            },
            labels=Labels(labels, names),
            taints=TaintClasses([node.taints for node in ordered]),
            usable=np.array([node.usable for node in ordered], dtype=np.bool_),
            why_not=tuple(node.why_not for node in ordered),
            devices={node.name: node.devices for node in ordered if node.devices},
            links=device_links([node.devices for node in ordered]),
            loads={node.name: node.load for node in ordered if node.load != NO_LOAD},
            growth=growth,
            tolerations=tolerations,
        )
        return cls(
            layout,
            tuple(resources),
            _matrix(resources, [node.allocatable for node in ordered]),
            _matrix(resources, [node.used for node in ordered]),
            unhealthy={node.name: node.unhealthy for node in ordered if node.unhealthy},
        )

    def with_used(self, changes: Mapping[NodeName, Resources]) -> "NodeTable":
        """A table in which the used amounts of some nodes changed by these deltas; the rest is shared.

        Unknown nodes are passed over: their seats are on no node.
        """
        table = self._with_rows({name for delta in changes.values() for name in delta})
        used = table.used.copy()
        rows = {name: row for row, name in enumerate(table.resources)}
        for node, delta in changes.items():
            column = self.layout.position.get(node)
            if column is not None:
                for name, units in delta.items():
                    used[rows[name], column] += units
        return replace(table, used=used)

    def emptied(self) -> "NodeTable":
        """The same nodes as if each were empty, healthy and open, with the taints that stay."""
        layout = self.layout
        allocatable, rows = self.allocatable, {name: row for row, name in enumerate(self.resources)}
        if self.unhealthy:
            allocatable = allocatable.copy()
            for node, amounts in self.unhealthy.items():
                for name, units in amounts.items():
                    allocatable[rows[name], layout.position[node]] += units
            np.minimum(allocatable, MOST_ON_NODE, out=allocatable)
        every = np.ones(len(self), np.bool_)
        return replace(
            self,
            layout=replace(layout.lasting(), usable=every, closed=()),
            allocatable=allocatable,
            used=np.zeros_like(allocatable),
            ports={},
            unhealthy={},
        )

    def with_ports(self, ports: Mapping[NodeName, tuple[HostPort, ...]]) -> "NodeTable":
        """The same nodes with these host ports taken; the same table if they are taken already."""
        return self if ports == self.ports else replace(self, ports=ports)

    def with_attach_limits(self, limits: Mapping[NodeName, Mapping[str, int]]) -> "NodeTable":
        """The same nodes with these limits of volumes; the same table if it has them already."""
        return self if limits == self.attach_limits else replace(self, attach_limits=limits)

    def __len__(self) -> int:
        return len(self.layout.names)

    def __contains__(self, node: object) -> bool:
        return node in self.layout.position

    def __getitem__(self, node: NodeName) -> tuple[Resources, Resources]:
        """What a node offers, and what of it is used. Raises KeyError."""
        column = self.layout.position[node]
        return self._vector(self.allocatable[:, column]), self._vector(self.used[:, column])

    def flavor(self, node: NodeName) -> FlavorName:
        """Flavor of a node; NO_FLAVOR for one that is not here."""
        column = self.layout.position.get(node)
        return NO_FLAVOR if column is None else self.layout.flavors[column]

    def capacity(self, flavor: FlavorName | None = None) -> Resources:
        """What all usable nodes (of a flavor) can allocate, and what is still held on the others.

        So use on a cordoned node does not count against the remaining nodes.
        """
        offered = np.where(self.layout.usable, self.allocatable, np.minimum(self.used, self.allocatable))
        mask = slice(None) if flavor is None else self.layout.of_flavor(flavor)
        sums = offered[:, mask].sum(axis=1, dtype=np.int64).tolist()
        return Resources(
            (name, units) for name, units in zip(self.resources, sums, strict=True) if not is_device(name)
        )

    def differs_in_use_only(self, other: "NodeTable") -> bool:
        """Whether this is the same table but for used amounts."""
        return (
            self.layout is other.layout
            and self.allocatable is other.allocatable
            and (self.ports is other.ports or self.ports == other.ports)
            and self.attach_limits == other.attach_limits
        )

    def _vector(self, amounts: Amounts) -> Resources:
        return Resources(zip(self.resources, amounts.tolist(), strict=True))

    def _with_rows(self, names: set[str]) -> "NodeTable":
        new = sorted(names - set(self.resources))
        if not new:
            return self
        more = np.zeros((len(new), len(self)), np.int64)
        return replace(
            self,
            resources=(*self.resources, *new),
            allocatable=np.concatenate([self.allocatable, more]),
            used=np.concatenate([self.used, more]),
        )


def _has_nvl_domains(labels: Sequence[Mapping[str, str]], levels: Sequence[Sequence[str]]) -> bool:
    """Whether a node is in an NVLink domain across nodes, and no Topology has that level."""
    return any(NVL_DOMAIN in of_node for of_node in labels) and not any(NVL_DOMAIN in keys for keys in levels)


def _place(node: Node, keys: Sequence[str]) -> tuple[tuple[bool, str], ...]:
    """Sort key: nodes with labels first, level by level."""
    return tuple((key not in node.labels, node.labels.get(key, "")) for key in keys)


def _matrix(resources: Sequence[str], columns: Sequence[Resources]) -> Amounts:
    rows = [[column.get(name) for column in columns] for name in resources]
    return np.array(rows, dtype=np.int64).reshape(len(resources), len(columns))
