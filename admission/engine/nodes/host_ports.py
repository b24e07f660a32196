"""What pods are noted with on their nodes: host ports, the selections of rules about other pods, and volumes.

Two pods with one host port cannot share a node. Selections keep no pod off; they are counted by node. Of volumes of one
driver a node attaches as many as its CSINode says; a volume that several of its pods have is attached once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from admission.engine.nodes.table import Amounts, Mask
from queues.admissions import Seat
from queues.workload import ATTACHED, COUNTED, HostPort, NodeName, Workload

_NONE: Mapping[int, int] = {}
#: Pods that a node takes as far as nothing limits them.
_PLENTY: Final = 1 << 31


class NodePorts(NamedTuple):
    """Host ports of one pod on a node."""

    node: NodeName
    ports: tuple[HostPort, ...]


@dataclass(slots=True, eq=False)
class HostPorts:
    """Host ports that are taken, by column of the node."""

    #: Column of each node.
    position: Mapping[NodeName, int]
    #: (protocol, port) → column → addresses at which the port is taken, once per pod.
    _taken: dict[tuple[str, int], dict[int, list[str]]] = field(default_factory=dict)
    #: By driver: (N,) volumes that each node can attach.
    limits: Mapping[str, Amounts] = field(default_factory=dict)
    #: By name of a selection: number of its pods, by column.
    _counted: dict[str, dict[int, int]] = field(default_factory=dict)
    #: By driver: (N,) volumes that are attached, those of several pods once.
    _attached: dict[str, Amounts] = field(default_factory=dict)
    #: By driver and volume: number of its pods, by column.
    _shared: dict[str, dict[int, int]] = field(default_factory=dict)

    @classmethod
    def on(
        cls, position: Mapping[NodeName, int], limits: Mapping[NodeName, Mapping[str, int]]
    ) -> "HostPorts":
        """Nothing is taken on these nodes. ``limits``: volumes that a node can attach, by driver."""
        by_driver: dict[str, Amounts] = {}
        for node, of_node in limits.items():
            for driver, most in of_node.items() if node in position else ():
                if driver not in by_driver:
                    by_driver[driver] = np.full(len(position), _PLENTY, np.int64)
                by_driver[driver][position[node]] = most
        return cls(position, limits=by_driver)

    def copy(self) -> "HostPorts":
        """A copy, to be changed on its own."""
        taken = {
            port: {column: list(ips) for column, ips in columns.items()}
            for port, columns in self._taken.items()
        }
        return HostPorts(
            self.position,
            taken,
            self.limits,
            {name: dict(counts) for name, counts in self._counted.items()},
            {driver: volumes.copy() for driver, volumes in self._attached.items()},
            {name: dict(counts) for name, counts in self._shared.items()},
        )

    def counted(self, name: str) -> Mapping[int, int]:
        """Number of pods of a selection, by column; columns without any may be left out."""
        return self._counted.get(name, _NONE)

    def free(self, ports: Sequence[HostPort]) -> Mask:
        """(N,) nodes on which none of these ports is taken."""
        mask = np.ones(len(self.position), np.bool_)
        for port in ports:
            for column, addresses in self._taken.get((port.protocol, port.port), {}).items():
                if any(_collide(port.ip, address) for address in addresses):
                    mask[column] = False
        return mask

    def holders(self, ports: Sequence[HostPort], column: int) -> int:
        """Number of pods on a node that keep out a pod with these ports."""
        return sum(
            _collide(port.ip, address)
            for port in ports
            for address in self._taken.get((port.protocol, port.port), {}).get(column, ())
        )

    def attachable(self, attached: Sequence[HostPort]) -> Amounts:
        """(N,) pods with these volumes for which each node can attach them now."""
        room = np.full(len(self.position), _PLENTY, np.int64)
        for driver, own in own_volumes(attached).items():
            names = [port.ip for port in attached if not port.port and driver_of(port) == driver]
            first = np.full(len(self.position), len(names), np.int64)
            for name in names:
                first[[column for column, pods in self._shared.get(name, _NONE).items() if pods]] -= 1
            left = self.volumes_left(driver) - first
            # What a node has too many of keeps off only pods that bring more.
            pods = np.maximum(0, left // own) if own else np.where((first > 0) & (left < 0), 0, _PLENTY)
            room = np.minimum(room, pods)
        return room

    def volumes_left(self, driver: str) -> Amounts:
        """(N,) volumes of a driver that each node can attach besides those that it has; below 0: it has too many."""
        limit = self.limits.get(driver)
        if limit is None:
            return np.full(len(self.position), _PLENTY, np.int64)
        return limit - self._attached.get(driver, 0)

    def volumes_on(self, column: int, attached: Sequence[HostPort]) -> tuple[int, ...]:
        """What distinguishes a node from others for pods with some of these volumes."""
        left = [int(self.volumes_left(driver)[column]) for driver in own_volumes(attached)]
        there = [self._shared.get(port.ip, _NONE).get(column, 0) for port in attached if not port.port]
        return (*left, *there)

    def occupy(self, taken: Iterable[NodePorts]) -> None:
        """These ports are taken (again). Unknown nodes are passed over."""
        self._note(taken, 1)

    def vacate(self, taken: Iterable[NodePorts]) -> None:
        """One pod less has each of these ports. Ports that no pod has are passed over."""
        self._note(taken, -1)

    def _note(self, taken: Iterable[NodePorts], change: int) -> None:
        for node, ports in taken:
            column = self.position.get(node)
            if column is None:
                continue
            for port in ports:
                if port.protocol == COUNTED:
                    self._count(port.ip, column, change)
                elif port.protocol == ATTACHED:
                    self._attach(port, column, change)
                else:
                    taken_at = self._taken.setdefault((port.protocol, port.port), {})
                    addresses = taken_at.setdefault(column, [])
                    if change > 0:
                        addresses.append(port.ip)
                    elif port.ip in addresses:
                        addresses.remove(port.ip)

    def _count(self, name: str, column: int, change: int) -> None:
        counts = self._counted.setdefault(name, {})
        counts[column] = max(0, counts.get(column, 0) + change)

    def _attach(self, port: HostPort, column: int, change: int) -> None:
        more = change * port.port
        if not port.port:
            counts = self._shared.setdefault(port.ip, {})
            before = counts.get(column, 0)
            counts[column] = max(0, before + change)
            more = int(counts[column] > 0) - int(before > 0)
        driver = driver_of(port)
        if driver not in self._attached:
            self._attached[driver] = np.zeros(len(self.position), np.int64)
        self._attached[driver][column] += more


class NotedPorts:
    """What is noted by node, as a mapping that is changed: a port is taken or not, pods and volumes are counted."""

    def __init__(self, taken: Mapping[NodeName, tuple[HostPort, ...]] | None = None) -> None:
        self._taken = {node: Counter(ports) for node, ports in (taken or {}).items()}

    def add(self, node: NodeName, ports: Iterable[HostPort]) -> None:
        """A pod with these is on the node."""
        noted = self._taken.setdefault(node, Counter())
        for port in ports:
            noted[port] = noted[port] + 1 if port.protocol in (COUNTED, ATTACHED) else 1

    def remove(self, node: NodeName, ports: Iterable[HostPort]) -> None:
        """A pod with these leaves the node. What is not noted is passed over."""
        noted = self._taken.get(node)
        for port in ports if noted is not None else ():
            if noted is not None and noted[port] > 0:
                noted[port] -= 1

    def by_node(self) -> dict[NodeName, tuple[HostPort, ...]]:
        """All of it, sorted."""
        every = {
            node: tuple(
                sorted(self._taken[node].elements(), key=lambda port: (port.port, port.protocol, port.ip))
            )
            for node in sorted(self._taken)
        }
        return {node: ports for node, ports in every.items() if ports}


def ports_of(workload: Workload, seats: Iterable[Seat]) -> tuple[NodePorts, ...]:
    """What the pods in these seats of a workload are noted with on their nodes."""
    asked: dict[str, tuple[HostPort, ...]] = {}
    for pods in workload.pod_sets:
        if pods.ports or pods.counted or pods.attached:  # nearly none have any
            asked[pods.name] = pods.occupies
    if not asked:
        return ()
    return tuple(NodePorts(seat.node, asked[seat.pod_set]) for seat in seats if seat.pod_set in asked)


def driver_of(volume: HostPort) -> str:
    """The driver of a volume that a node attaches (``ATTACHED``)."""
    return volume.ip.partition("/")[0]


def own_volumes(attached: Iterable[HostPort]) -> Counter[str]:
    """By driver: number of volumes that only one pod has; 0 for a driver whose volumes other pods may have too."""
    own = Counter[str]()
    for volume in attached:
        own[driver_of(volume)] += volume.port
    return own


def volumes_by_driver(noted: Iterable[HostPort]) -> Counter[str]:
    """By driver: number of volumes of a pod that is noted with these."""
    volumes = Counter[str]()
    for volume in noted:
        if volume.protocol == ATTACHED:
            volumes[driver_of(volume)] += volume.port or 1
    return volumes


def colliding(ports: Sequence[HostPort], others: Sequence[HostPort]) -> int:
    """Number of the other ports that keep out a pod with these host ports."""
    return sum(
        (port.port, port.protocol) == (other.port, other.protocol) and _collide(port.ip, other.ip)
        for port in ports
        for other in others
    )


def _collide(ip: str, other: str) -> bool:
    """Whether two pods cannot have the same port at these addresses: no address means all of them."""
    anywhere = ("", "0.0.0.0", "::")
    return ip == other or ip in anywhere or other in anywhere
