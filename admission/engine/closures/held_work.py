"""What runs on the nodes, as reservations weigh it when they choose some of them.

It is kept from turn to turn while reservations choose: only admissions that changed are read again.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.closed_nodes import longest_run
from admission.engine.nodes.table import Amounts
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission, AdmissionState, Seat
from queues.eviction_rest import rest_after
from queues.quota.queue import path_upwards
from queues.versioned_map import differing, same_rows
from queues.workload import AdmissionId, QueueName, WorkloadKey

Numbers = NDArray[np.int64]

#: The end of work whose end is not known.
_UNKNOWN: Final = -1


def rested_at(snapshot: Snapshot, held: Iterable[Admission]) -> int:
    """The second from which on the admissions of a workload may be evicted for a reservation of a tenant; 0: now."""
    opened = [admission for admission in held if admission.state is AdmissionState.OPEN]
    holder = snapshot.holders.get(opened[0].workload) if opened else None
    if holder is None or not holder.evictions:
        return 0
    return max(admission.opened_at for admission in opened) + rest_after(holder.evictions)


def _distinct(numbers: Numbers) -> Numbers:
    """These numbers in ascending order, each once. (``np.unique`` takes ten times as long.)"""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


class CutOff:
    """What is cut off on nodes that have to be clear at some second."""

    def __init__(self, columns: Numbers, workloads: Numbers, seats: Numbers, ends: Numbers) -> None:
        """``columns`` and ``workloads``: work that is cut off, by ascending node. ``seats``: of each workload."""
        self._columns, self._workloads, self._seats = columns, workloads, seats
        #: (N,) the second at which the last work of a node should have ended; 0: nothing runs there.
        self.ends = ends
        self._starts = np.searchsorted(columns, np.arange(len(ends) + 1))

    def workloads_on(self, columns: Iterable[int]) -> Numbers:
        """Numbers of the workloads that are cut off by keeping these nodes."""
        starts = self._starts
        parts = [self._workloads[starts[column] : starts[column + 1]] for column in columns]
        return _distinct(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    @cached_property
    def _all_lost(self) -> Numbers:
        lost = np.zeros(len(self.ends), np.int64)
        np.add.at(lost, self._columns, self._seats[self._workloads])
        return lost

    def lost(self, cut: Numbers) -> Numbers:
        """(N,) seats that are cut off by keeping a node, besides those of workloads that are cut off already."""
        if not len(cut):
            return self._all_lost
        lost = self._all_lost.copy()
        already = np.isin(self._workloads, cut)
        np.subtract.at(lost, self._columns[already], self._seats[self._workloads[already]])
        return lost

    def lost_together(self, columns: Iterable[int], cut: Numbers) -> int:
        """Seats that are cut off by keeping these nodes, besides those of workloads that are cut off already."""
        return int(self._seats[np.setdiff1d(self.workloads_on(columns), cut)].sum())


class _Entry(NamedTuple):
    """An admission as it is in the books."""

    row: int
    #: Rows of its nodes.
    nodes: tuple[int, ...]
    workload: WorkloadKey
    queue: QueueName
    #: Seats that it still holds.
    seats: tuple[Seat, ...]


class _Rows:
    """Rows of arrays that grow, and are used again."""

    def __init__(self, width: int) -> None:
        self.rows = np.full((width, 64), -1, np.int64)
        self._free = list(range(64))

    def add(self, *values: int) -> int:
        """A new row with these values. Returns its number."""
        if not self._free:
            size = self.rows.shape[1]
            self.rows = np.concatenate([self.rows, np.full_like(self.rows, -1)], axis=1)
            self._free = list(range(size, 2 * size))
        row = self._free.pop()
        self.rows[:, row] = values
        return row

    def remove(self, row: int) -> None:
        """The row is in use no longer: all of it is -1."""
        self.rows[:, row] = -1
        self._free.append(row)


class HeldWork:
    """Seats of all admissions by node. For one layout of nodes and one set of queues; else it is read anew."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._forget()

    def _forget(self) -> None:
        self._entries: dict[AdmissionId, _Entry] = {}
        self._of_workload: dict[WorkloadKey, set[AdmissionId]] = {}
        self._of_queue: dict[QueueName, set[AdmissionId]] = {}
        #: By admission: workload, end, seats, and until when it rests.
        self._admissions = _Rows(4)
        #: By admission and node: admission, column.
        self._seats = _Rows(2)
        self._numbers: dict[WorkloadKey, int] = {}
        self._workloads = _Rows(1)
        self._above: dict[QueueName, frozenset[QueueName | None]] = {}
        #: (N,) what the work of a queue and all below it holds of a resource; None for all queues.
        self._held_by: dict[tuple[QueueName | None, str], Numbers] = {}
        #: Admissions that count otherwise in this turn only.
        self._passing: set[AdmissionId] = set()
        self._cut_off: dict[int, CutOff] = {}
        self._rests: Numbers | None = None

    def is_read_from(self, snapshot: Snapshot) -> bool:
        """Whether the last question was about this snapshot."""
        return self._snapshot is snapshot

    # ── what is asked ───────────────────────────────────────────────────────────────────────────────────────

    def offers(self, snapshot: Snapshot) -> Amounts:
        """(R, N) what nodes offer without all work of queues: other pods stay."""
        table = snapshot.nodes
        held = [self.used_by(None, resource, snapshot) for resource in table.resources]
        return table.allocatable - table.used + np.array(held, np.int64).reshape(table.used.shape)

    def used_by(self, queue: QueueName | None, resource: str, snapshot: Snapshot) -> Numbers:
        """(N,) what the work of a queue, and of all below it, holds of a resource on nodes. None for all queues."""
        self._follow(snapshot)
        known = self._held_by.get((queue, resource))
        if known is None:
            known = self._held_by[queue, resource] = np.zeros(len(snapshot.nodes), np.int64)
            for below in [name for name in self._of_queue if queue in self._above_of(name, snapshot)]:
                for number in self._of_queue[below]:
                    self._post(known, resource, self._entries[number], 1)
        return known

    def cut_off(self, clear_at: int, snapshot: Snapshot) -> CutOff:
        """What is cut off on nodes that have to be clear then: what is not known to end before."""
        self._follow(snapshot)
        if (known := self._cut_off.get(clear_at)) is not None:
            return known
        workloads, ends, seats, _ = self._admissions.rows
        ends = np.where(ends == _UNKNOWN, clear_at + 1, np.maximum(ends, snapshot.now))
        stays = (workloads >= 0) & (ends > clear_at)
        seats_of = np.zeros(self._workloads.rows.shape[1], np.int64)
        np.add.at(seats_of, workloads[stays], seats[stays])
        held = self._seats.rows[:, self._seats.rows[0] >= 0]
        last = np.zeros(len(snapshot.nodes), np.int64)
        np.maximum.at(last, held[1], ends[held[0]])
        cut = held[:, stays[held[0]]]
        pairs = _distinct(cut[1] * len(seats_of) + workloads[cut[0]])
        found = CutOff(pairs // len(seats_of), pairs % len(seats_of), seats_of, last)
        self._cut_off[clear_at] = found
        return found

    def rests_until(self, snapshot: Snapshot) -> Numbers:
        """(N,) until when the work of a node rests that was evicted before; 0 or less: none does."""
        self._follow(snapshot)
        if self._rests is None:
            held = self._seats.rows[:, self._seats.rows[0] >= 0]
            self._rests = np.zeros(len(snapshot.nodes), np.int64)
            np.maximum.at(self._rests, held[1], self._admissions.rows[3][held[0]])
        return self._rests

    # ── what is known ───────────────────────────────────────────────────────────────────────────────────────

    def _follow(self, snapshot: Snapshot) -> None:
        """Read what differs from the snapshot that was asked about last."""
        before, self._snapshot = self._snapshot, snapshot
        if before is snapshot:
            return
        if before is None or not (
            before.nodes.layout.position is snapshot.nodes.layout.position
            and before.nodes.resources == snapshot.nodes.resources
            and same_rows(before.queues, snapshot.queues)
        ):
            self._forget()
            changed = set(snapshot.admissions)
        else:
            workloads = {
                admission.workload
                for number in differing(before.admissions, snapshot.admissions)
                for admission in (before.admissions.get(number), snapshot.admissions.get(number))
                if admission is not None
            }
            workloads.update(differing(before.holders, snapshot.holders))
            changed = {
                *differing(before.admissions, snapshot.admissions),
                *(number for key in workloads for number in self._of_workload.get(key, ())),
            }
        passing = {
            number for number in (*snapshot.evictable, *snapshot.ended) if number in snapshot.admissions
        }
        changed |= passing | self._passing
        self._passing = passing
        for number in changed & self._entries.keys():
            self._remove(number)
        rests: dict[WorkloadKey, int] = {}
        for number in changed & snapshot.admissions.keys():
            self._add(snapshot.admissions[number], snapshot)
        for number in changed & snapshot.admissions.keys():
            self._note_rest(number, rests, snapshot)
        # What is known to have ended counts as ending now.
        if changed or before is None or before.now != snapshot.now:
            self._cut_off = {}
        if changed:
            self._rests = None

    def _add(self, admission: Admission, snapshot: Snapshot) -> None:
        key, position = admission.workload, snapshot.nodes.layout.position
        if key not in self._numbers:
            self._numbers[key] = self._workloads.add(0)
        held = snapshot.still_held(admission)
        end = _end_of(admission, snapshot)
        row = self._admissions.add(self._numbers[key], end, len(held), 0)
        columns = {position[seat.node] for seat in held if seat.node in position}
        nodes = tuple(self._seats.add(row, column) for column in columns)
        entry = _Entry(row, nodes, key, admission.queue, held)
        self._entries[admission.id] = entry
        self._of_workload.setdefault(key, set()).add(admission.id)
        self._of_queue.setdefault(admission.queue, set()).add(admission.id)
        self._post_all(entry, 1)

    def _remove(self, number: AdmissionId) -> None:
        entry = self._entries.pop(number)
        self._post_all(entry, -1)
        self._admissions.remove(entry.row)
        for row in entry.nodes:
            self._seats.remove(row)
        self._of_queue[entry.queue].discard(number)
        self._of_workload[entry.workload].discard(number)
        if not self._of_workload[entry.workload]:
            del self._of_workload[entry.workload]
            self._workloads.remove(self._numbers.pop(entry.workload))

    def _note_rest(self, number: AdmissionId, rests: dict[WorkloadKey, int], snapshot: Snapshot) -> None:
        entry = self._entries[number]
        holder = snapshot.holders.get(entry.workload)
        if holder is None or not holder.evictions:
            return
        if entry.workload not in rests:
            held = (snapshot.admissions[other] for other in sorted(self._of_workload[entry.workload]))
            rests[entry.workload] = rested_at(snapshot, held)
        self._admissions.rows[3][entry.row] = rests[entry.workload]

    def _post_all(self, entry: _Entry, sign: int) -> None:
        assert self._snapshot is not None
        above = self._above_of(entry.queue, self._snapshot) if self._held_by else ()
        for (queue, resource), amounts in self._held_by.items():
            if queue in above:
                self._post(amounts, resource, entry, sign)

    def _post(self, amounts: Numbers, resource: str, entry: _Entry, sign: int) -> None:
        assert self._snapshot is not None
        position = self._snapshot.nodes.layout.position
        for seat in entry.seats:
            if (units := seat.takes.get(resource)) and (column := position.get(seat.node)) is not None:
                amounts[column] += sign * units

    def _above_of(self, queue: QueueName, snapshot: Snapshot) -> frozenset[QueueName | None]:
        """A queue, and all queues above it; None for all queues."""
        known = self._above.get(queue)
        if known is None:
            above = (each.name for each in path_upwards(queue, snapshot.queues.get))
            known = self._above[queue] = frozenset((None, queue, *above))
        return known


def _end_of(admission: Admission, snapshot: Snapshot) -> int:
    """When an admission should have ended; 0: it leaves already."""
    if admission.state is not AdmissionState.OPEN or admission.id in snapshot.evictable:
        return 0
    holder = snapshot.holders.get(admission.workload)
    known = None if holder is None else longest_run(holder, snapshot.queues)
    return _UNKNOWN if known is None else admission.opened_at + known
