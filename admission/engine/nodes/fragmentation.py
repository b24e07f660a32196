"""Nodes on which a single pod leaves the least that no other pod can use: the FGD measure, in exact integers.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent"
(USENIX ATC'23). A node's free devices are, for a typical pod that can run there, lost as far as single
devices have less left than the pod needs of one; for a pod that cannot run there (processors, kind of node,
too few devices) all of them are. The expected loss over the distribution of requests is the fragmentation;
a pod goes where it grows least.

The growth is compared in steps of ``STEP`` thousandths of a device: below that it is noise, and what decides
is the tie-break, best fit: the node with the least of its devices left, then the fewest processors. (Both
parts are needed: without steps, or with another tie-break, the published gain is gone.)

Scores are kept by state of a node (free processors, free parts of devices, which typical pods may run there)
and by shape, so that a decision works out those states only that are new.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.demand import Shape, Typical
from admission.engine.nodes.devices import Devices
from admission.engine.nodes.levels import TopologyLevel
from admission.engine.nodes.table import Amounts, Mask, NodeTable
from queues.resources import CPU, WHOLE
from queues.workload import DeviceShare, NodeFilter

Columns = NDArray[np.intp]

#: Thousandths of a device.
STEP: Final = 80
#: Devices of a node that are looked at.
_DEVICES: Final = 16
#: States kept before everything is forgotten.
_STATES: Final = 1 << 16
#: A cost is steps, then idle thousandths of devices, then idle milli-CPU.
_IDLE_BITS: Final = 20
_CPU_BITS: Final = 30
#: A cost is below this bit.
UNTOUCHED_BIT: Final = 60
_NOWHERE: Final = np.int64(1) << 58


class FragmentationGauge:
    """The measure for one distribution of requests over the nodes of one table. Follows the free amounts."""

    def __init__(self, typical: Typical, table: NodeTable, devices: Mapping[str, Devices]) -> None:
        self._typical, self._layout = typical, table.layout
        self._devices = devices
        rows = {name: row for row, name in enumerate(table.resources)}
        self._kinds = sorted({shape.resource for shape, _ in typical.shapes} & rows.keys())
        self._totals = [rows[kind] for kind in self._kinds]
        self._offered: Amounts = table.allocatable[self._totals].sum(axis=0, dtype=np.int64)
        #: (N,) index of the kind of device that a node has, -1: none.
        self._kind = np.full(len(table), -1, np.intp)
        for index, row in reversed(list(enumerate(self._totals))):
            self._kind[table.allocatable[row] > 0] = index
        most = max((int(table.allocatable[row].max(initial=0)) // WHOLE for row in self._totals), default=0)
        self._width = min(max(most, 1), _DEVICES)
        self._cpu = rows.get(CPU)
        parts = [row for kind in self._kinds if kind in devices for row in devices[kind].rows.tolist()]
        self._rows = np.array([*([] if self._cpu is None else [self._cpu]), *self._totals, *parts], np.intp)
        self._measure = _Measure.over(typical, table, self._kinds, self._kind, devices)
        self._last: Amounts | None = None
        self._forget()

    @classmethod
    def over(
        cls, typical: Typical | None, table: NodeTable, devices: Mapping[str, Devices]
    ) -> "FragmentationGauge | None":
        """The gauge for a distribution; None if no pod asks for devices that some node has."""
        asked = {shape.resource for shape, _ in typical.shapes if shape.devices} if typical else set()
        if typical is None or asked.isdisjoint(table.resources):
            return None
        return cls(typical, table, devices)

    def is_for(self, typical: Typical | None, table: NodeTable) -> bool:
        """Whether this is the gauge for that distribution and table."""
        return typical is self._typical and table.layout is self._layout

    def costs(self, shape: Shape, free: Amounts) -> tuple[Amounts, Amounts]:
        """(N,) cost of a pod of that shape on each node; (N,) what is free of the device to take from.

        ``free``: (R, N). Nodes on which the pod does not fit have some cost too: the caller leaves them out.
        """
        self._follow(free)
        scores = self._scores.get(shape, np.zeros((3, 0), np.int64))
        if (length := scores.shape[1]) < self._count:
            more = max(self._count, 2 * length) - length
            scores = self._scores[shape] = np.pad(scores, ((0, 0), (0, more)))
        known, cost, left = scores
        new = np.unique(self._state[known[self._state] == 0])
        if len(new):
            columns = np.array([self._example[state] for state in new.tolist()], np.intp)
            cost[new], left[new] = self._work_out(shape, columns)
            known[new] = 1
        return cost[self._state], left[self._state]

    def lost(self, free: Amounts) -> int:
        """Thousandths of devices that are free and no typical pod could use: the fragmentation of all nodes."""
        self._follow(free)
        idle = int(self._free.sum(dtype=np.int64))
        usable = self._measure.usable(self._processors, self._free, self._measure.classes)
        return idle - int(usable.sum(dtype=np.int64)) // self._measure.weight

    def untouched(self, level: TopologyLevel, free: Amounts) -> Mask:
        """(N,) nodes in a domain of that level which has devices, and none of them in use."""
        idle = free[self._totals].sum(axis=0, dtype=np.int64)
        offered, used = level.sums(self._offered), level.sums(self._offered - idle)
        alone = np.append((offered > 0) & (used <= 0), False)  # -1, in no domain, reads the last one
        untouched: Mask = alone[level.of]
        return untouched

    def _forget(self) -> None:
        self._state = np.zeros(len(self._kind), np.intp)
        self._numbers: dict[bytes, int] = {}
        #: A node in that state: now, or when a shape last met the state as a new one.
        self._example: dict[int, int] = {}
        self._count = 0
        #: (3, states) by shape: 1 if worked out, the cost, what is free of the best device to take from (0: any).
        self._scores: dict[Shape, Amounts] = {}
        self._processors = np.zeros(len(self._kind), np.int64)
        self._free = np.zeros((self._width, len(self._kind)), np.int64)

    def _follow(self, free: Amounts) -> None:
        """Find the nodes that changed, and number their states."""
        now = free[self._rows]
        if self._last is None or self._count > _STATES:
            if self._last is not None:
                self._forget()
            changed = np.arange(len(self._kind))
        else:
            changed = np.flatnonzero((now != self._last).any(axis=0))
        self._last = now
        if not len(changed):
            return
        self._free[:, changed] = self._parts(free[:, changed], changed)
        if self._cpu is not None:
            self._processors[changed] = np.maximum(free[self._cpu, changed], 0)
        keys = np.concatenate(
            [self._free[:, changed], self._processors[None, changed], self._measure.classes[None, changed]]
        )
        for column, key in zip(changed.tolist(), np.ascontiguousarray(keys.T), strict=True):
            number = self._numbers.setdefault(key.tobytes(), len(self._numbers))
            self._state[column] = number
            self._example[number] = column
        self._count = len(self._numbers)

    def _parts(self, free: Amounts, columns: Columns) -> Amounts:
        """(K, n) what is free of each device of these nodes, ascending."""
        parts = np.zeros((self._width, len(columns)), np.int64)
        for index, kind in enumerate(self._kinds):
            mine = np.flatnonzero(self._kind[columns] == index)
            here = free[:, mine]
            begun = np.zeros((0, len(mine)), np.int64)
            shared = self._devices.get(kind)
            if shared is None:
                fresh = np.maximum(here[self._totals[index]], 0) // WHOLE
            else:
                fresh = shared.fresh(here, columns[mine])
                each = here[shared.rows]
                begun = np.where((each > 0) & (each < WHOLE), each, 0)
            whole = np.where(np.arange(self._width)[:, None] < fresh, WHOLE, 0)
            together = np.sort(np.concatenate([begun, whole]), axis=0)
            parts[:, mine] = together[-self._width :]
        return parts

    def _work_out(self, shape: Shape, columns: Columns) -> tuple[Amounts, Amounts]:
        """Cost and device for a pod of that shape on nodes in new states."""
        measure = self._measure
        parts, classes = self._free[:, columns], measure.classes[columns]
        processors = self._processors[columns]
        before = measure.usable(processors, parts, classes)
        left = processors - shape.cpu
        part = self._part(shape, columns)
        asked = part * shape.devices
        if shape.devices == 1:
            where, device, after = _one_device(parts, part)
        else:
            where, after = _several_devices(parts, part, shape.devices)
            device = np.zeros(len(where), np.int64)
        weight = measure.weight
        loss = before[where] - measure.usable(left[where], after, classes[where]) - weight * asked[where]
        steps = -(-loss // (weight * STEP))  # the growth of fragmentation, in steps, rounded up
        idle = np.minimum(after.sum(axis=0), (1 << _IDLE_BITS) - 1)
        rest = np.clip(left[where], 0, (1 << _CPU_BITS) - 1)
        cost = (steps << (_IDLE_BITS + _CPU_BITS)) + (idle << _CPU_BITS) + rest
        # Of the devices of a node the cheapest; of equal ones that with least left, which comes first.
        order = np.lexsort((device, steps, where))
        first = order[np.unique(where[order], return_index=True)[1]]
        costs = np.full(len(columns), _NOWHERE, np.int64)
        frees = np.zeros(len(columns), np.int64)
        costs[where[first]], frees[where[first]] = cost[first], device[first]
        return costs, frees

    def _part(self, shape: Shape, columns: Columns) -> Amounts:
        """(n,) thousandths of each device that a pod of that shape takes."""
        devices = self._devices.get(shape.resource)
        if devices is None or not shape.devices or (shape.milli == WHOLE and not shape.memory):
            return np.full(len(columns), shape.milli, np.int64)
        share = DeviceShare(
            devices=shape.devices, milli=shape.milli, memory=shape.memory, resource=shape.resource
        )
        return devices.part(share)[columns]


def _one_device(parts: Amounts, part: Amounts) -> tuple[Columns, Amounts, Amounts]:
    """Every way to put a pod on one device: the node, what is free of the device, (K, n) what is left."""
    different = np.ones(parts.shape, np.bool_)
    different[1:] = parts[1:] != parts[:-1]
    where, device = np.nonzero(((parts >= part) & different).T)
    after = parts[:, where]
    free = after[device, np.arange(len(where))]
    after[device, np.arange(len(where))] -= part[where]
    return where, free, after


def _several_devices(parts: Amounts, part: Amounts, devices: int) -> tuple[Columns, Amounts]:
    """The fullest devices that have enough left: the nodes, (K, n) what is left."""
    fits = parts >= part
    rank = np.cumsum(fits, axis=0)
    where = np.flatnonzero(rank[-1] >= devices)
    taken = fits[:, where] & (rank[:, where] <= devices)
    return where, parts[:, where] - taken * part[where]


@dataclass(frozen=True, slots=True, eq=False)
class _Measure:
    """The distribution, arranged so that the usable amount of many nodes is a few sums."""

    #: All pods that were counted.
    weight: int
    #: Milli-CPU that typical pods ask for, ascending.
    steps: Amounts
    #: Thousandths that they need of one device, ascending.
    needs: Amounts
    #: Index into ``needs`` and number of devices, of every class of pods.
    need: NDArray[np.intp]
    count: Amounts
    #: (node class, processors step, class of pods) number of pods that can run there by class and processors.
    runs: Amounts
    #: (N,) class of each node: nodes of one class may run the same typical pods.
    classes: NDArray[np.intp]

    @classmethod
    def over(
        cls,
        typical: Typical,
        table: NodeTable,
        kinds: list[str],
        kind: NDArray[np.intp],
        devices: Mapping[str, Devices],
    ) -> "_Measure":
        """Arrange a distribution for the nodes of a table."""
        placed = [
            (shape, count) for shape, count in typical.shapes if shape.devices and shape.resource in kinds
        ]
        steps = sorted({shape.cpu for shape, _ in placed})
        classes = sorted({(_milli(shape, devices), shape.devices) for shape, _ in placed})
        needs = sorted({milli for milli, _ in classes})
        filters = list(dict.fromkeys(map(_places_of, (shape for shape, _ in placed))))
        counts = np.zeros((len(filters), len(steps) + 1, len(classes)), np.int64)
        for shape, count in placed:
            of = classes.index((_milli(shape, devices), shape.devices))
            counts[filters.index(_places_of(shape)), steps.index(shape.cpu) + 1, of] += count
        counts = np.cumsum(counts, axis=1)
        may = np.zeros((len(filters), len(table)), np.int64)
        # Typical pods are of no queue: they count as those of queues that name the flavors.
        enters = table.layout.entries(table.layout.tolerations)
        for index, (nodes, resource, in_parts) in enumerate(filters):
            entering = replace(nodes, enters=enters) if enters else nodes
            may[index] = table.layout.allowed(entering) & (kind == kinds.index(resource))
            if in_parts and resource in devices:
                may[index] &= devices[resource].in_parts
        memory = [devices[each].memory for each in kinds if each in devices]
        marks = np.concatenate([may, np.array(memory, np.int64).reshape(len(memory), len(table))])
        unique, alike = np.unique(marks, axis=1, return_inverse=True)
        runs = np.tensordot(unique[: len(filters)].T, counts, axes=1)
        return cls(
            weight=max(sum(count for _, count in typical.shapes), 1),
            steps=np.array(steps, np.int64),
            needs=np.array(needs, np.int64),
            need=np.array([needs.index(milli) for milli, _ in classes], np.intp),
            count=np.array([devices for _, devices in classes], np.int64),
            runs=runs,
            classes=alike.reshape(-1).astype(np.intp),
        )

    def usable(self, processors: Amounts, parts: Amounts, classes: NDArray[np.intp]) -> Amounts:
        """(n,) thousandths of devices that a typical pod could use, times all pods that were counted.

        ``parts``: (K, n) what is free of each device. Fragmentation is all that is free, times the pods, minus
        this.
        """
        runs = self.runs[classes, np.searchsorted(self.steps, processors, side="right")].T
        fits = parts >= self.needs[:, None, None]
        enough = fits.sum(axis=1)[self.need] >= self.count[:, None]
        amounts = (fits * parts).sum(axis=1)[self.need]
        usable: Amounts = (runs * enough * amounts).sum(axis=0, dtype=np.int64)
        return usable


def _places_of(shape: Shape) -> tuple[NodeFilter, str, bool]:
    """What decides on which nodes such a pod may run: labels, kind of device, and whether it needs parts of them."""
    return shape.nodes, shape.resource, shape.milli < WHOLE or shape.memory > 0


def _milli(shape: Shape, devices: Mapping[str, Devices]) -> int:
    """What a typical pod needs of one device; memory counts as on the largest device there is."""
    shared = devices.get(shape.resource)
    if not shape.memory or shared is None:
        return max(shape.milli, 1)
    most = max(int(shared.memory.max(initial=0)), 1)
    return max(shape.milli, min(-(-shape.memory * WHOLE // most), WHOLE), 1)
