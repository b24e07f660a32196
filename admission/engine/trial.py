"""The world as it would be: free amounts and books that a turn tries things on. Mutable, and only here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from admission.engine.topology import Amounts, Layout, Mask, NodeTable
from queues.quota import Account, QueueTree
from queues.resources import Resources
from queues.usage import Usage
from queues.workload import NodeFilter, QueueName, Seat

Columns = NDArray[np.intp]

#: Pods of no requests at all fit a node this many times.
_PLENTY = 1 << 31


@dataclass(slots=True)
class Step:
    """What one placement took, so that it can be undone."""

    columns: Columns
    taken: Amounts
    queue: QueueName
    accounts: Mapping[Account, int]


@dataclass(slots=True, eq=False)
class Trial:
    """Free amounts (R, N) and books of queues, as the turn goes on."""

    table: NodeTable
    free: Amounts
    usage: Usage
    #: What was placed since the last ``keep`` or ``undo``.
    steps: list[Step] = field(default_factory=list)
    _rows: dict[str, int] = field(default_factory=dict)
    _requests: dict[Resources, Amounts] = field(default_factory=dict)
    _when_empty: dict[tuple[Resources, NodeFilter], Amounts] = field(default_factory=dict)

    @classmethod
    def open(cls, table: NodeTable, usage: Usage) -> "Trial":
        """Start from what is free now. ``usage`` is changed in place."""
        rows = {name: row for row, name in enumerate(table.resources)}
        return cls(table, table.allocatable - table.used, usage, _rows=rows)

    @property
    def layout(self) -> Layout:
        """Names, labels and levels of the nodes."""
        return self.table.layout

    @property
    def tree(self) -> QueueTree:
        """The queues."""
        return self.usage.tree

    def request(self, takes: Resources) -> Amounts:
        """(R,) what one pod takes. Resources that no node has are left out; ``unknown`` tells them."""
        vector = self._requests.get(takes)
        if vector is None:
            vector = np.zeros(len(self._rows), np.int64)
            for name, units in takes.items():
                if name in self._rows:
                    vector[self._rows[name]] = units
            self._requests[takes] = vector
        return vector

    def unknown(self, takes: Resources) -> str | None:
        """A resource that is asked for and that no node offers, usable or not; None: there is none."""
        for name in sorted(takes):
            row = self._rows.get(name)
            if takes[name] > 0 and (row is None or not self.table.allocatable[row].any()):
                return name
        return None

    def room(self, takes: Resources, mask: Mask) -> Amounts:
        """(N,) how many such pods each node takes now; 0 outside the mask."""
        return _room(self.free, self.request(takes), mask)

    def room_when_empty(self, takes: Resources, nodes: NodeFilter) -> Amounts:
        """(N,) how many such pods each node would take if nothing was on it."""
        key = (takes, nodes)
        room = self._when_empty.get(key)
        if room is None:
            room = _room(self.table.allocatable, self.request(takes), self.layout.allowed(nodes))
            self._when_empty[key] = room
        return room

    def give_back(self, queue: QueueName, accounts: Mapping[Account, int], seats: Iterable[Seat]) -> None:
        """Seats that are freed: their amounts return to queue and nodes."""
        self.usage.remove(queue, accounts)
        for seat in seats:
            column = self.layout.position.get(seat.node)
            if column is not None:
                self.free[:, column] += self.request(seat.takes)

    def take(
        self,
        columns: Columns,
        counts: Amounts,
        takes: Resources,
        queue: QueueName,
        accounts: Mapping[Account, int],
    ) -> None:
        """Put pods of one shape onto nodes (columns without repetition) and into the books."""
        taken = self.request(takes)[:, None] * counts
        self.free[:, columns] -= taken
        self.usage.add(queue, accounts)
        self.steps.append(Step(columns, taken, queue, accounts))

    def undo(self) -> None:
        """Take back everything since the last ``keep``."""
        while self.steps:
            step = self.steps.pop()
            self.free[:, step.columns] += step.taken
            self.usage.remove(step.queue, step.accounts)

    def keep(self) -> None:
        """What was placed stays."""
        self.steps.clear()


def _room(free: Amounts, request: Amounts, mask: Mask) -> Amounts:
    room: Amounts | None = None
    for row in np.flatnonzero(request).tolist():
        pods = free[row] // request[row]
        room = pods if room is None else np.minimum(room, pods, out=room)
    if room is None:
        room = np.full(len(mask), _PLENTY, np.int64)
    np.maximum(room, 0, out=room)
    room *= mask
    return room
