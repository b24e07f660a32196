"""The world as it would be: free amounts, host ports and use of queues, on which a turn tries its answers."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.capacity import Capacity
from admission.engine.nodes.demand import ACCELERATORS
from admission.engine.nodes.devices import Devices, devices_of
from admission.engine.nodes.fragmentation import FragmentationGauge
from admission.engine.nodes.host_ports import HostPorts, NodePorts
from admission.engine.nodes.kept_nodes import KeptNodes
from admission.engine.nodes.levels import TopologyLevel
from admission.engine.nodes.table import Amounts, Layout, Mask, NodeTable
from admission.engine.plan_limit import Progress
from queues.admissions import Seat
from queues.quota.accounts import Account
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage, UserLimitHit, UserUse
from queues.resources import WHOLE, Resources
from queues.workload import DeviceShare, HostPort, NodeFilter, PodSet, QueueName, Workload

Columns = NDArray[np.intp]

#: Sets of columns from which on they are joined by marks, whatever the number of nodes.
_MANY: Final = 64
#: All columns.
_EVERY: Final = slice(None)
#: Number of pods without any requests that a node takes.
_PLENTY = 1 << 31


@dataclass(slots=True)
class TrialStep:
    """What one placement took, so that it can be undone."""

    columns: Columns
    taken: Amounts
    queue: QueueName
    accounts: Mapping[Account, int]
    ports: Sequence[NodePorts]


@dataclass(slots=True, eq=False)
class _PodCounts:
    """Pods of one shape that the nodes of a mask take, and their sums over domains."""

    mask: Mask
    #: (N,) 0 outside the mask.
    room: Amounts
    #: How many of the trial's ``_dirty_columns`` are in it.
    seen: int
    #: By identity of the chain: sums by index of the level.
    levels: dict[int, tuple[Sequence[TopologyLevel], dict[int, Amounts]]] = field(default_factory=dict)

    def update(self, columns: Columns, room: Amounts) -> None:
        """The room of these columns (each once) is another now. ``room``: of these columns, whatever the mask."""
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
    """Free amounts (R, N), host ports and use of queues, as the turn goes on. Mutable, and only here."""

    table: NodeTable
    free: Amounts
    usage: Usage
    ports: HostPorts
    #: Placements since the last ``keep``, to be undone.
    steps: list[TrialStep] = field(default_factory=list)
    _rows: dict[str, int] = field(default_factory=dict)
    _requests: dict[Resources, Amounts] = field(default_factory=dict)
    _when_empty: dict[tuple[Resources, NodeFilter], Amounts] = field(default_factory=dict)
    #: Columns in which free amounts changed, in order: counts of pods are brought up to date when they are asked for.
    _dirty_columns: list[Columns] = field(default_factory=list)
    _counts: dict[tuple[Resources, bool, Hashable], _PodCounts] = field(default_factory=dict)
    #: By resource, if its devices have rows of their own on some node, or are reported to be linked.
    devices: Mapping[str, Devices] = field(default_factory=dict)
    #: The measure of where a single pod fragments devices least; None if packing alone decides.
    fragmentation: FragmentationGauge | None = None
    progress: Progress = field(default_factory=Progress)
    #: Use by user, where queues limit it; copies share it. None if it is not looked at.
    user_use: UserUse | None = None
    #: Nodes that tenants keep; what is idle there is in ``usage``. None if there are none.
    kept: KeptNodes | None = None
    #: (R, N) what claims hold of free space; for reasons only. None if there are no claims.
    withheld: Callable[[], Amounts] | None = None

    @classmethod
    def open(cls, table: NodeTable, usage: Usage) -> "Trial":
        """A trial of what is free now. ``usage`` is changed in place."""
        rows = {name: row for row, name in enumerate(table.resources)}
        devices = devices_of(table.resources, table.allocatable, table.layout.links)
        ports = HostPorts.on(table.layout.position, table.attach_limits)
        ports.occupy(NodePorts(*each) for each in table.ports.items())
        return cls(table, table.allocatable - table.used, usage, ports, _rows=rows, devices=devices)

    def charge_kept_nodes(self) -> None:
        """Enter what tenants keep idle as use of their queues, and follow it from now on."""
        self.kept = KeptNodes.on(self.table) if self.table.layout.closed else None
        if self.kept is not None:
            columns = self.kept.columns()
            free = self.free[:, columns]
            for queue, amounts in self.kept.idle_more(columns, np.zeros_like(free), free):
                self.usage.keep(queue, amounts)

    def add_free(self, columns: Columns, amounts: Amounts) -> None:
        """(R, n) more is free on these nodes, each given once. ``mark_dirty`` is not done."""
        if self.kept is None:
            self.free[:, columns] += amounts
            return
        before = self.free[:, columns]
        after = self.free[:, columns] = before + amounts
        for queue, idle in self.kept.idle_more(columns, before, after):
            self.usage.keep(queue, idle)

    def fork(self) -> "Trial":
        """A copy, to be changed on its own."""
        return replace(
            self,
            free=self.free.copy(),
            usage=self.usage.copy(),
            ports=self.ports.copy(),
            steps=[],
            fragmentation=None,
            _dirty_columns=[],
            _counts={},
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
        """(R,) what one pod takes, without resources that no node has (``unknown_resource``)."""
        vector = self._requests.get(takes)
        if vector is None:
            vector = np.zeros(len(self._rows), np.int64)
            for name, units in takes.items():
                if name in self._rows:
                    vector[self._rows[name]] = units
            self._requests[takes] = vector
        return vector

    def unknown_resource(self, takes: Resources) -> str | None:
        """A requested resource that no node offers, usable or not; None if there is none."""
        for name in sorted(takes):
            row = self._rows.get(name)
            if takes[name] > 0 and (row is None or not self.table.allocatable[row].any()):
                return name
        return None

    def pods_per_node(self, takes: Resources, mask: Mask, in_one_island: bool = False) -> Amounts:
        """(N,) pods of that shape that each node takes now; 0 outside the mask.

        ``in_one_island``: NVLinks have to join all devices of each pod. No such pod fits on a node that does not report
        how its devices are linked.
        """
        return self._counts_for(takes, in_one_island, None, None).room * mask

    def pods_per_domain(
        self,
        pods: PodSet,
        chain: Sequence[TopologyLevel],
        mask: Mask,
        cache_key: Hashable,
    ) -> Capacity:
        """Pods per domain of a chain on the nodes of a mask, valid until the next change of the trial. For pods without
        parts of devices and without host ports.

        ``cache_key``: equal keys stand for equal masks, so that nothing has to be counted twice.
        """
        counts = self._counts_for(pods.takes, pods.in_one_island, mask, cache_key)
        levels = counts.levels.setdefault(id(chain), (chain, {}))
        return Capacity(chain, counts.room, _levels=levels[1])

    def _counts_for(
        self, takes: Resources, in_one_island: bool, mask: Mask | None, cache_key: Hashable
    ) -> _PodCounts:
        key = (takes, in_one_island, cache_key)
        known = self._counts.get(key)
        if known is None:
            room = self._count_pods(self.free, self.vector(takes))
            if in_one_island:
                room = np.minimum(room, self.pods_in_islands(self.free, takes, _EVERY))
            if mask is None:
                mask = np.ones(len(self.table), np.bool_)
            known = self._counts[key] = _PodCounts(mask, room * mask, len(self._dirty_columns))
        elif known.seen < len(self._dirty_columns):
            behind = self._dirty_columns[known.seen :]
            columns = behind[0] if len(behind) == 1 else self._together(behind)
            free = self.free[:, columns]
            room = self._count_pods(free, self.vector(takes))
            if in_one_island:
                room = np.minimum(room, self.pods_in_islands(free, takes, columns))
            known.update(columns, room)
            known.seen = len(self._dirty_columns)
        return known

    def _together(self, columns: Sequence[Columns]) -> Columns:
        """All of these columns, each once."""
        if len(columns) < _MANY:
            return np.unique(np.concatenate(columns))
        marked = np.zeros(len(self.table), np.bool_)
        marked[np.concatenate(columns)] = True
        return np.flatnonzero(marked)

    def pods_per_node_beside(self, takes: Resources, other: Resources) -> Amounts:
        """(N,) pods that each node would take if one pod of another shape were put there first."""
        return self._count_pods(self.free - self.vector(other)[:, None], self.vector(takes))

    def room_for(self, pods: PodSet, mask: Mask) -> Amounts:
        """(N,) pods of a set that each node takes now, also as far as its single devices allow; 0 outside the mask."""
        room = self.pods_per_node(pods.beside_devices(), mask, pods.in_one_island)
        return room if pods.share is None else np.minimum(room, self._shares(self.free, pods.share, _EVERY))

    def room_on(self, free: Amounts, pods: PodSet, columns: Columns | slice) -> Amounts:
        """(n,) the same of these nodes, if (R, n) were free."""
        room = self._count_pods(free, self.vector(pods.beside_devices()))
        if pods.in_one_island:
            room = np.minimum(room, self.pods_in_islands(free, pods.takes, columns))
        return room if pods.share is None else np.minimum(room, self._shares(free, pods.share, columns))

    def device_rows(self, pods: PodSet) -> list[int]:
        """Rows of resources that such pods ask for, if the sum over a node does not show how many of them its devices
        take."""
        return [
            devices.total
            for resource, devices in self.devices.items()
            if pods.takes.get(resource) and (pods.needs_single_devices() or devices.in_parts.any())
        ]

    def _shares(self, free: Amounts, share: DeviceShare, columns: Columns | slice) -> Amounts:
        """(n,) pods with that share of devices that the devices of these nodes take, whatever else the pods need."""
        devices = self.devices.get(share.resource)
        return np.zeros(free.shape[1], np.int64) if devices is None else devices.room(free, share, columns)

    def pods_in_islands(self, free: Amounts, takes: Resources, columns: Columns | slice) -> Amounts:
        """(n,) pods with all their devices in one island of NVLinks that the devices of these nodes take, whatever else
        the pods need. ``free``: (R, n) of these nodes."""
        room = np.full(free.shape[1], _PLENTY, np.int64)
        for resource, count in self._several_devices(takes):
            devices = self.devices.get(resource)
            if devices is None:
                return np.zeros(free.shape[1], np.int64)
            room = np.minimum(room, devices.room_in_islands(free, count, columns))
        return room

    def islands_are_told(self, takes: Resources) -> Mask:
        """(N,) nodes that report the links of all devices that such pods take several of."""
        told = np.ones(len(self.table), np.bool_)
        for resource, _ in self._several_devices(takes):
            links = self.layout.links.get(resource)
            told &= np.zeros_like(told) if links is None else links.told()
        return told

    def _several_devices(self, takes: Resources) -> list[tuple[str, int]]:
        """Resources with several whole devices for one pod, and how many."""
        several = ((name, -(-units // WHOLE)) for name, units in takes.items() if units > WHOLE)
        return [each for each in several if each[0] in ACCELERATORS or each[0] in self.layout.links]

    def names_devices(self, takes: Resources, columns: Columns) -> bool:
        """Whether some of these nodes give out devices that such pods take by number."""
        return any(
            devices.links is not None
            and devices.links.places
            and takes.get(resource)
            and not devices.links.places.keys().isdisjoint(columns.tolist())
            for resource, devices in self.devices.items()
        )

    def _count_pods(self, free: Amounts, request: Amounts) -> Amounts:
        """Pods of that request per column. A whole device is one without a share of any pod."""
        room: Amounts | None = None
        shared = {devices.total: devices for devices in self.devices.values() if len(devices.rows)}
        for row in np.flatnonzero(request).tolist():
            whole = row in shared and request[row] % WHOLE == 0
            left = free[row] - shared[row].slack(free) if whole else free[row]
            pods = left // request[row]
            room = pods if room is None else np.minimum(room, pods, out=room)
        if room is None:
            return np.full(free.shape[1], _PLENTY, np.int64)
        return np.maximum(room, 0, out=room)

    def mark_dirty(self, columns: Columns) -> None:
        """Note that ``free`` was changed in these columns other than by ``take`` and ``undo``."""
        self._dirty_columns.append(np.unique(columns))

    def pods_per_empty_node(self, takes: Resources, nodes: NodeFilter) -> Amounts:
        """(N,) pods that each node would take if it were empty."""
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
        ports: Sequence[NodePorts] = (),
        times: int = 1,
    ) -> None:
        """Free seats: amounts return to queue and nodes, host ports to the nodes; ``times=-1``: undo that."""
        self.usage.add(queue, accounts, -times)
        if ports:
            (self.ports.vacate if times > 0 else self.ports.occupy)(ports)
        columns = set()
        for seat in seats:
            column = self.layout.position.get(seat.node)
            if column is not None:
                if self.kept is None:
                    self.free[:, column] += times * self.vector(seat.takes)
                else:
                    self.add_free(np.array([column], np.intp), times * self.vector(seat.takes)[:, None])
                columns.add(column)
        if columns:
            self._dirty_columns.append(np.array(list(columns), np.intp))

    def take(
        self,
        columns: Columns,
        counts: Amounts,
        takes: Resources,
        queue: QueueName,
        accounts: Mapping[Account, int],
        ports: tuple[HostPort, ...] = (),
        exactly: Amounts | None = None,
    ) -> None:
        """Put pods of one shape onto nodes (each column once), and charge their queue.

        ``exactly``: (R, n) what they take of each node; None if each pod takes the same.
        """
        taken = self.vector(takes)[:, None] * counts if exactly is None else exactly
        self.add_free(columns, -taken)
        self._dirty_columns.append(columns)
        self.usage.add(queue, accounts)
        held: list[NodePorts] = []
        if ports:
            names, places = self.layout.names, zip(columns.tolist(), counts.tolist(), strict=True)
            held = [NodePorts(names[column], ports * count) for column, count in places]
        self.ports.occupy(held)
        self.steps.append(TrialStep(columns, taken, queue, accounts, held))

    def user_hit(self, workload: Workload, amounts: Mapping[Account, int]) -> UserLimitHit | None:
        """The limit of its user that further amounts of a workload would break; None if there is none.

        What was placed since the last ``keep`` is the workload's own.
        """
        if self.user_use is None or not self.user_use.limits_users_of(workload.queue):
            return None
        asked = Counter(amounts)
        for step in self.steps:
            asked.update(step.accounts)
        return self.user_use.hit(workload.queue, workload.user, asked)

    def post_to_user(
        self, queue: QueueName, user: str, amounts: Mapping[Account, int], times: int = 1
    ) -> None:
        """Post what work of a user gets for good; ``times=-1``: what it gives back."""
        if self.user_use is not None:
            self.user_use.add(queue, user, amounts, times)

    def mark(self) -> int:
        """A mark that ``undo`` can go back to, until the next ``keep``."""
        return len(self.steps)

    def undo(self, to: int = 0) -> None:
        """Undo all placements since a mark; 0: since the last ``keep``."""
        while len(self.steps) > to:
            step = self.steps.pop()
            self.add_free(step.columns, step.taken)
            self._dirty_columns.append(step.columns)
            self.usage.remove(step.queue, step.accounts)
            self.ports.vacate(step.ports)

    def keep(self) -> None:
        """Make what was placed permanent."""
        self.steps.clear()
