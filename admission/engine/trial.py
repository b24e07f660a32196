"""The world as it would be: free amounts and books that a turn tries things on. Mutable, and only here."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.capacity import Capacity
from admission.engine.nodes.devices import Devices, devices_of
from admission.engine.nodes.fragmentation import FragmentationGauge
from admission.engine.nodes.host_ports import HostPorts, NodePorts
from admission.engine.nodes.levels import TopologyLevel
from admission.engine.nodes.table import Amounts, Layout, Mask, NodeTable
from queues.admissions import Seat
from queues.quota.accounts import Account
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import WHOLE, Resources
from queues.workload import DeviceShare, HostPort, NodeFilter, QueueName

Columns = NDArray[np.intp]

#: Pods of no requests at all fit a node this many times.
_PLENTY = 1 << 31


@dataclass(slots=True)
class TrialStep:
    """What one placement took, so that it can be undone."""

    columns: Columns
    taken: Amounts
    queue: QueueName
    accounts: Mapping[Account, int]
    ports: Sequence[HostPort] = ()


@dataclass(slots=True, eq=False)
class _Standing:
    """Room of one shape on the nodes of a mask, and its sums over domains, as of so many changes."""

    mask: Mask
    room: Amounts
    seen: int
    #: By identity of the chain: sums by index of the level.
    levels: dict[int, tuple[Sequence[TopologyLevel], dict[int, Amounts]]] = field(default_factory=dict)

    def update(self, columns: Columns, room: Amounts) -> None:
        """The room of these columns (each once) is another now."""
        delta = room * self.mask[columns] - self.room[columns]
        self.room[columns] += delta
        for chain, sums_of in self.levels.values():
            for index, sums in sums_of.items():
                if sums is not self.room:
                    domains = chain[index].of[columns]
                    inside = domains >= 0
                    np.add.at(sums, domains[inside], delta[inside])


@dataclass(slots=True, eq=False)
class Trial:
    """Free amounts (R, N) and books of queues, as the turn goes on."""

    table: NodeTable
    free: Amounts
    usage: Usage
    ports: HostPorts
    #: What was placed since the last ``keep`` or ``undo``.
    steps: list[TrialStep] = field(default_factory=list)
    _rows: dict[str, int] = field(default_factory=dict)
    _requests: dict[Resources, Amounts] = field(default_factory=dict)
    _when_empty: dict[tuple[Resources, NodeFilter], Amounts] = field(default_factory=dict)
    #: Columns whose free amounts changed, in order: rooms are brought up to date when they are asked for.
    _dirty_columns: list[Columns] = field(default_factory=list)
    _rooms: dict[tuple[Resources, Hashable], _Standing] = field(default_factory=dict)
    #: Resources whose devices are shared on some node.
    devices: Mapping[str, Devices] = field(default_factory=dict)
    #: Tells where a single pod fragments devices least; None: packing alone decides.
    fragmentation: FragmentationGauge | None = None

    @classmethod
    def open(cls, table: NodeTable, usage: Usage) -> "Trial":
        """Start from what is free now. ``usage`` is changed in place."""
        rows = {name: row for row, name in enumerate(table.resources)}
        devices = devices_of(table.resources, table.allocatable)
        ports = HostPorts(table.layout.position)
        ports.occupy(NodePorts(*each) for each in table.ports.items())
        return cls(table, table.allocatable - table.used, usage, ports, _rows=rows, devices=devices)

    def fork(self) -> "Trial":
        """The same state, to be changed on its own."""
        return replace(
            self,
            free=self.free.copy(),
            usage=self.usage.copy(),
            ports=self.ports.copy(),
            steps=[],
            fragmentation=None,
            _dirty_columns=[],
            _rooms={},
        )

    @property
    def layout(self) -> Layout:
        """Names, labels and levels of the nodes."""
        return self.table.layout

    @property
    def tree(self) -> QueueTree:
        """The queues."""
        return self.usage.tree

    def vector(self, takes: Resources) -> Amounts:
        """(R,) what one pod takes. Resources that no node has are left out; ``unknown`` tells them."""
        vector = self._requests.get(takes)
        if vector is None:
            vector = np.zeros(len(self._rows), np.int64)
            for name, units in takes.items():
                if name in self._rows:
                    vector[self._rows[name]] = units
            self._requests[takes] = vector
        return vector

    def unknown_resource(self, takes: Resources) -> str | None:
        """A resource that is asked for and that no node offers, usable or not; None: there is none."""
        for name in sorted(takes):
            row = self._rows.get(name)
            if takes[name] > 0 and (row is None or not self.table.allocatable[row].any()):
                return name
        return None

    def pods_per_node(self, takes: Resources, mask: Mask) -> Amounts:
        """(N,) how many such pods each node takes now; 0 outside the mask."""
        return self._standing(takes, None, None).room * mask

    def pods_per_domain(
        self, takes: Resources, chain: Sequence[TopologyLevel], mask: Mask, named: Hashable
    ) -> Capacity:
        """Pods per domain of a chain on the nodes of a mask, good until the next change of the trial.

        ``named``: equal names stand for equal masks, so that nothing has to be counted twice.
        """
        standing = self._standing(takes, mask, named)
        levels = standing.levels.setdefault(id(chain), (chain, {}))
        return Capacity(chain, standing.room, _levels=levels[1])

    def _standing(self, takes: Resources, mask: Mask | None, named: Hashable) -> _Standing:
        known = self._rooms.get((takes, named))
        if known is None:
            room = self._count_pods(self.free, self.vector(takes))
            if mask is None:
                mask = np.ones(len(self.table), np.bool_)
            known = self._rooms[takes, named] = _Standing(mask, room * mask, len(self._dirty_columns))
        elif known.seen < len(self._dirty_columns):
            behind = self._dirty_columns[known.seen :]
            columns = behind[0] if len(behind) == 1 else np.unique(np.concatenate(behind))
            known.update(columns, self._count_pods(self.free[:, columns], self.vector(takes)))
            known.seen = len(self._dirty_columns)
        return known

    def pods_per_node_beside(self, takes: Resources, other: Resources) -> Amounts:
        """(N,) how many such pods each node would take if one pod of another shape were put there first."""
        return self._count_pods(self.free - self.vector(other)[:, None], self.vector(takes))

    def shares_per_node(self, share: DeviceShare) -> Amounts:
        """(N,) how many pods with that share the devices of each node take, whatever else they need."""
        devices = self.devices.get(share.resource)
        return np.zeros(len(self.table), np.int64) if devices is None else devices.room(self.free, share)

    def _count_pods(self, free: Amounts, request: Amounts) -> Amounts:
        """Pods of that request per column. Whole devices are none that somebody has a share of."""
        room: Amounts | None = None
        shared = {devices.total: devices for devices in self.devices.values()}
        for row in np.flatnonzero(request).tolist():
            whole = row in shared and request[row] % WHOLE == 0
            left = free[row] - shared[row].slack(free) if whole else free[row]
            pods = left // request[row]
            room = pods if room is None else np.minimum(room, pods, out=room)
        if room is None:
            return np.full(free.shape[1], _PLENTY, np.int64)
        return np.maximum(room, 0, out=room)

    def mark_dirty(self, columns: Columns) -> None:
        """Say that ``free`` was changed in these columns, by whoever does not go through take and undo."""
        self._dirty_columns.append(np.unique(columns))

    def pods_per_empty_node(self, takes: Resources, nodes: NodeFilter) -> Amounts:
        """(N,) how many such pods each node would take if nothing was on it."""
        key = (takes, nodes)
        room = self._when_empty.get(key)
        if room is None:
            room = self._count_pods(self.table.allocatable, self.vector(takes)) * self.layout.allowed(nodes)
            self._when_empty[key] = room
        return room

    def remove_seats(
        self,
        queue: QueueName,
        accounts: Mapping[Account, int],
        seats: Iterable[Seat],
        ports: Iterable[NodePorts] = (),
    ) -> None:
        """Seats that are freed: their amounts return to queue and nodes, their host ports to the nodes."""
        self.usage.remove(queue, accounts)
        self._move(seats, 1)
        self.ports.vacate(ports)

    def restore_seats(
        self,
        queue: QueueName,
        accounts: Mapping[Account, int],
        seats: Iterable[Seat],
        ports: Iterable[NodePorts] = (),
    ) -> None:
        """The contrary of ``give_back``."""
        self.usage.add(queue, accounts)
        self._move(seats, -1)
        self.ports.occupy(ports)

    def _move(self, seats: Iterable[Seat], sign: int) -> None:
        columns = []
        for seat in seats:
            column = self.layout.position.get(seat.node)
            if column is not None:
                self.free[:, column] += sign * self.vector(seat.takes)
                columns.append(column)
        if columns:
            self.mark_dirty(np.array(columns, np.intp))

    def take(
        self,
        columns: Columns,
        counts: Amounts,
        takes: Resources,
        queue: QueueName,
        accounts: Mapping[Account, int],
        ports: Sequence[HostPort] = (),
        exactly: Amounts | None = None,
    ) -> None:
        """Put pods of one shape onto nodes (columns without repetition) and into the books.

        ``exactly``: (R, n) what they take of each node, if that is not the same for each.
        """
        taken = self.vector(takes)[:, None] * counts if exactly is None else exactly
        self.free[:, columns] -= taken
        self._dirty_columns.append(columns)
        self.usage.add(queue, accounts)
        self.steps.append(TrialStep(columns, taken, queue, accounts, ports))
        for column in columns.tolist() if ports else ():
            self.ports.take(column, ports)

    def mark(self) -> int:
        """A point that ``undo`` can go back to, until the next ``keep``."""
        return len(self.steps)

    def undo(self, to: int = 0) -> None:
        """Take back everything since the last ``keep``, or since a mark."""
        while len(self.steps) > to:
            step = self.steps.pop()
            self.free[:, step.columns] += step.taken
            self._dirty_columns.append(step.columns)
            self.usage.remove(step.queue, step.accounts)
            for column in step.columns.tolist() if step.ports else ():
                self.ports.give_back(column, step.ports)

    def keep(self) -> None:
        """What was placed stays."""
        self.steps.clear()
