"""What pods are noted with on their nodes: host ports, and the selections of rules about other pods.

Two pods with one host port cannot share a node. Selections keep no pod off; they are counted by node.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from admission.engine.nodes.table import Mask
from queues.admissions import Seat
from queues.workload import COUNTED, HostPort, NodeName, Workload

_NONE: Mapping[int, int] = {}


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
    #: By name of a selection: number of its pods, by column.
    _counted: dict[str, dict[int, int]] = field(default_factory=dict)

    def copy(self) -> "HostPorts":
        """A copy, to be changed on its own."""
        taken = {
            port: {column: list(ips) for column, ips in columns.items()}
            for port, columns in self._taken.items()
        }
        return HostPorts(self.position, taken, {name: dict(counts) for name, counts in self._counted.items()})

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

    def occupy(self, taken: Iterable[NodePorts]) -> None:
        """These ports are taken (again). Unknown nodes are passed over."""
        for node, ports in taken:
            for port in ports if node in self.position else ():
                if port.protocol == COUNTED:
                    self._count(port.ip, self.position[node], 1)
                    continue
                taken_at = self._taken.setdefault((port.protocol, port.port), {})
                taken_at.setdefault(self.position[node], []).append(port.ip)

    def vacate(self, taken: Iterable[NodePorts]) -> None:
        """One pod less has each of these ports. Ports that no pod has are passed over."""
        for node, ports in taken:
            column = self.position.get(node)
            if column is None:
                continue
            for port in ports:
                if port.protocol == COUNTED:
                    self._count(port.ip, column, -1)
                    continue
                addresses = self._taken.get((port.protocol, port.port), {}).get(column, [])
                if port.ip in addresses:
                    addresses.remove(port.ip)

    def _count(self, name: str, column: int, change: int) -> None:
        counts = self._counted.setdefault(name, {})
        counts[column] = max(0, counts.get(column, 0) + change)


class NotedPorts:
    """What is noted by node, as a mapping that is changed: a host port is taken or not, pods are counted."""

    def __init__(self, taken: Mapping[NodeName, tuple[HostPort, ...]] | None = None) -> None:
        self._taken = {node: Counter(ports) for node, ports in (taken or {}).items()}

    def add(self, node: NodeName, ports: Iterable[HostPort]) -> None:
        """A pod with these is on the node."""
        noted = self._taken.setdefault(node, Counter())
        for port in ports:
            noted[port] = noted[port] + 1 if port.protocol == COUNTED else 1

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
        if pods.ports or pods.counted:
            asked[pods.name] = pods.occupies
    if not asked:
        return ()
    return tuple(NodePorts(seat.node, asked[seat.pod_set]) for seat in seats if seat.pod_set in asked)


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
