"""Host ports: which are taken on which node, and which pods cannot share a node."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from admission.engine.nodes.table import Mask
from queues.admissions import Seat
from queues.workload import HostPort, NodeName, Workload


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

    def copy(self) -> "HostPorts":
        """A copy, to be changed on its own."""
        taken = {
            port: {column: list(ips) for column, ips in columns.items()}
            for port, columns in self._taken.items()
        }
        return HostPorts(self.position, taken)

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
                taken_at = self._taken.setdefault((port.protocol, port.port), {})
                taken_at.setdefault(self.position[node], []).append(port.ip)

    def vacate(self, taken: Iterable[NodePorts]) -> None:
        """One pod less has each of these ports. Ports that no pod has are passed over."""
        for node, ports in taken:
            column = self.position.get(node)
            if column is None:
                continue
            for port in ports:
                addresses = self._taken.get((port.protocol, port.port), {}).get(column, [])
                if port.ip in addresses:
                    addresses.remove(port.ip)


def ports_of(workload: Workload, seats: Iterable[Seat]) -> tuple[NodePorts, ...]:
    """Host ports of the pods in these seats of a workload."""
    asked: dict[str, tuple[HostPort, ...]] = {}
    for pods in workload.pod_sets:
        if pods.ports:
            asked[pods.name] = pods.ports
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
