"""Which nodes a reservation gets: whole nodes, where least work is cut off, and of that what ends soonest.

What was chosen before stays chosen, as long as the nodes are there and take pods. A gang counts once: when one of its
nodes is chosen, the others cost nothing more.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.closed_nodes import longest_run
from admission.engine.nodes.table import Amounts, Mask, NodeTable
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission, AdmissionState
from queues.closures.node_closures import NodeClosure
from queues.workload import NodeName, QueueName, WorkloadKey


class Cost(NamedTuple):
    """What it costs to keep a node, the smallest first."""

    #: What the holder would have more, as far as it has to be little: 0 on nodes that its own work fills.
    more: int
    #: Another closure needs the node soon before or after.
    is_wanted: bool
    #: Work that would be cut off: seats of gangs not cut off already.
    seats: int
    #: When the last of what runs there should have ended; 0: nothing runs.
    ends: int
    #: Column: neighbours stay together.
    column: int


class Running(NamedTuple):
    """An admission, as far as it matters for a reservation."""

    workload: WorkloadKey
    #: The second at which it should have ended. None: unknown.
    end: int | None
    #: Columns of the nodes of its seats.
    columns: frozenset[int]
    seats: int


class RunningWork(NamedTuple):
    """What holds seats on nodes that have to be clear at some second."""

    #: By column: workloads that would be cut off there.
    cut_off: Mapping[int, frozenset[WorkloadKey]]
    #: Seats of each of them.
    seats: Mapping[WorkloadKey, int]
    #: By column: the second at which the last work should have ended.
    ends: Mapping[int, int]


class TurnWork:
    """All that runs in a turn, for all reservations that choose in it. Worked out once, when it is asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._before: dict[int, RunningWork] = {}
        self._used_by: dict[QueueName, Amounts] = {}
        self._is_below: dict[tuple[QueueName, QueueName], bool] = {}

    @cached_property
    def offers(self) -> Amounts:
        """(R, N) what nodes offer without all work of queues: other pods stay."""
        snapshot, table = self._snapshot, self._snapshot.nodes
        return self._with_held(table.allocatable - table.used, snapshot.admissions.values())

    def used_by(self, queue: QueueName) -> Amounts:
        """(R, N) what the work of a queue, and of all below it, holds on nodes."""
        if (known := self._used_by.get(queue)) is not None:
            return known
        snapshot = self._snapshot
        work = (each for each in snapshot.admissions.values() if self._has_above(each.queue, queue))
        used = self._used_by[queue] = self._with_held(np.zeros_like(snapshot.nodes.allocatable), work)
        return used

    def _with_held(self, amounts: Amounts, admissions: Iterable[Admission]) -> Amounts:
        """(R, N) these amounts, to which is added what admissions still hold on nodes."""
        snapshot, table = self._snapshot, self._snapshot.nodes
        position, rows = table.layout.position, {name: row for row, name in enumerate(table.resources)}
        for admission in admissions:
            for seat in snapshot.still_held(admission):
                if (at := position.get(seat.node)) is not None:
                    for name, units in seat.takes.items():
                        if name in rows:
                            amounts[rows[name], at] += units
        return amounts

    def _has_above(self, queue: QueueName, above: QueueName) -> bool:
        key = queue, above
        if key not in self._is_below:
            seen, queues = {queue}, self._snapshot.queues
            while queue != above and queue in queues and (parent := queues[queue].parent) is not None:
                if parent in seen:
                    break
                queue = parent
                seen.add(queue)
            self._is_below[key] = queue == above
        return self._is_below[key]

    @cached_property
    def _running(self) -> list[Running]:
        snapshot, position = self._snapshot, self._snapshot.nodes.layout.position
        found: list[Running] = []
        for admission in snapshot.admissions.values():
            leaves = admission.state is not AdmissionState.OPEN or admission.id in snapshot.evictable
            holder = snapshot.holders.get(admission.workload)
            end: int | None = snapshot.now
            if not leaves:
                known = None if holder is None else longest_run(holder, snapshot.queues)
                end = None if known is None else max(snapshot.now, admission.opened_at + known)
            held = snapshot.still_held(admission)
            columns = frozenset(position[seat.node] for seat in held if seat.node in position)
            found.append(Running(admission.workload, end, columns, len(held)))
        return found

    def before(self, clear_at: int) -> RunningWork:
        """What runs on nodes that have to be clear then. What is not known to end before would be cut off."""
        if (known := self._before.get(clear_at)) is not None:
            return known
        cut_off: dict[int, set[WorkloadKey]] = {}
        seats: dict[WorkloadKey, int] = {}
        ends: dict[int, int] = {}
        for each in self._running:
            end = clear_at + 1 if each.end is None else each.end
            stays = end > clear_at
            if stays:
                seats[each.workload] = seats.get(each.workload, 0) + each.seats
            for column in each.columns:
                ends[column] = max(ends.get(column, 0), end)
                if stays:
                    cut_off.setdefault(column, set()).add(each.workload)
        found = RunningWork({column: frozenset(keys) for column, keys in cut_off.items()}, seats, ends)
        self._before[clear_at] = found
        return found


class Choice(NamedTuple):
    """Nodes, and what is still missing of them."""

    columns: tuple[int, ...]
    #: What the reservation lacks of what it asks for, over all resources; 0: nothing.
    lacks: int
    cost: tuple[int, int, int, int]


def candidates(closure: NodeClosure, table: NodeTable, taken: Mask) -> Mask:
    """(N,) nodes that a reservation may keep. ``taken``: (N,) nodes that other closures have in its window."""
    layout = table.layout
    mask = layout.usable & ~taken
    if closure.flavor:
        mask = mask & layout.of_flavor(closure.flavor)
    if closure.level:
        known = layout.levels.get(closure.level)
        mask = mask & (known[0][known[1]].of >= 0) if known is not None else np.zeros_like(mask)
    rows = _rows(closure, table)
    return mask & (table.allocatable[rows] > 0).all(axis=0) if rows else np.zeros_like(mask)


def chosen_nodes(
    closure: NodeClosure,
    snapshot: Snapshot,
    may_be: Mask,
    wanted_soon: Mask,
    running: TurnWork,
    more: NDArray[np.int64] | None = None,
) -> tuple[NodeName, ...]:
    """The nodes that a reservation keeps from now on, fewer if there are not enough.

    ``may_be``: (N,) ``candidates``. ``wanted_soon``: (N,) nodes that other closures need shortly before or after.
    ``running``: that of the snapshot. ``more``: (N,) nodes of which this is little are preferred to all others.
    """
    table, layout = snapshot.nodes, snapshot.nodes.layout
    position = layout.position
    kept = [position[name] for name in closure.nodes if name in position and may_be[position[name]]]
    if _suffices(kept, closure, table, table.allocatable) or not _others(may_be, kept).any():
        return tuple(layout.names[column] for column in sorted(kept))
    offers = running.offers
    useful = _useful(closure, table, offers)
    domains = list(_domains(closure, table, may_be, kept, offers)) if (may_be & useful).any() else [may_be]
    if len(domains) == 1:
        (inside,) = domains
        every = _with(inside & useful, [each for each in kept if inside[each]])
        if not _suffices(every, closure, table, offers):
            # All that there is, whatever it costs: it is not weighed in each turn in which it is too little.
            return tuple(layout.names[column] for column in every)
    best: Choice | None = None
    work = running.before(closure.clear_at)
    for inside in domains:
        here = [each for each in kept if inside[each]]
        found = _in(_Search(closure, table, inside, offers, work, wanted_soon, more), here)
        if best is None or (found.lacks, found.cost) < (best.lacks, best.cost):
            best = found
    columns = kept if best is None else best.columns
    return tuple(layout.names[column] for column in sorted(columns))


def _others(may_be: Mask, kept: Iterable[int]) -> Mask:
    others = may_be.copy()
    others[list(kept)] = False
    return others


def _with(mask: Mask, kept: Iterable[int]) -> list[int]:
    """The nodes of a mask and these ones, in their order."""
    every = mask.copy()
    every[list(kept)] = True
    found: list[int] = np.flatnonzero(every).tolist()
    return found


def _useful(closure: NodeClosure, table: NodeTable, offers: Amounts) -> Mask:
    """(N,) nodes that have something of all that is asked."""
    useful: Mask = np.logical_and.reduce(offers[_rows(closure, table)] > 0, axis=0)
    return useful


def _rows(closure: NodeClosure, table: NodeTable) -> list[int]:
    """Rows of what is asked. Empty: no node has one of them."""
    rows = {name: row for row, name in enumerate(table.resources)}
    asked = sorted(name for name, units in closure.amounts.items() if units > 0)
    return [rows[name] for name in asked] if all(name in rows for name in asked) else []


def _suffices(columns: Iterable[int], closure: NodeClosure, table: NodeTable, offers: Amounts) -> bool:
    """Whether nodes that offer (R, N) have all that is asked."""
    rows, offered = {name: row for row, name in enumerate(table.resources)}, list(columns)
    return all(
        name in rows and int(offers[rows[name], offered].sum()) >= units
        for name, units in closure.amounts.items()
    )


def _domains(
    closure: NodeClosure, table: NodeTable, may_be: Mask, kept: Sequence[int], offers: Amounts
) -> Iterable[Mask]:
    """The nodes of each domain in which a reservation lacks least; of one that has nodes there only of these."""
    if not closure.level or closure.level not in table.layout.levels:
        yield may_be
        return
    chain, index = table.layout.levels[closure.level]
    of = chain[index].of
    every = _with(may_be & _useful(closure, table, offers), kept)
    lacks = np.zeros(len(chain[index].domains), np.int64)
    rows = {name: row for row, name in enumerate(table.resources)}
    for name, units in closure.amounts.items():
        offered = np.zeros_like(lacks)
        np.add.at(offered, of[every], offers[rows[name], every])
        lacks += np.maximum(0, units - offered)
    best: list[int] = np.flatnonzero(lacks == min(lacks, default=0)).tolist()
    own = {int(of[column]) for column in kept}
    for domain in [each for each in best if each in own] or best:
        yield may_be & (of == domain)


class _Search(NamedTuple):
    """What a choice is made from."""

    closure: NodeClosure
    table: NodeTable
    #: (N,) nodes that may be chosen.
    inside: Mask
    offers: Amounts
    work: RunningWork
    wanted_soon: Mask
    #: (N,) None: 0.
    more: NDArray[np.int64] | None

    def more_on(self, column: int) -> int:
        """What the holder would have more with a node."""
        return 0 if self.more is None else int(self.more[column])

    def lost(self, column: int, cut: Collection[WorkloadKey]) -> int:
        """Seats that are cut off by keeping a node, beside those of gangs that are cut off already."""
        return sum(
            self.work.seats[key] for key in self.work.cut_off.get(column, frozenset()) if key not in cut
        )

    def suffices(self, columns: Iterable[int]) -> bool:
        return _suffices(columns, self.closure, self.table, self.offers)

    def useful(self) -> Mask:
        """(N,) nodes that may be chosen and have something of all that is asked."""
        return self.inside & _useful(self.closure, self.table, self.offers)


def _in(search: _Search, kept: Sequence[int]) -> Choice:
    """Enough of these nodes, the cheapest first. ``kept``: those that it has."""
    work, kept_ones = search.work, set(kept)
    cut: set[WorkloadKey] = set().union(*(work.cut_off.get(column, ()) for column in kept))
    every = _with(search.useful(), kept)
    if search.suffices(every):
        chosen = _cheapest(search, kept, set(cut))
    else:
        chosen = [
            *kept,
            *(column for column in every if column not in kept_ones),
        ]  # nothing to choose between
    more, paid, wanted, last = 0, 0, 0, 0
    for column in chosen[len(kept) :]:
        paid += search.lost(column, cut)
        cut |= work.cut_off.get(column, frozenset())
        more += search.more_on(column)
        wanted, last = wanted + bool(search.wanted_soon[column]), max(last, work.ends.get(column, 0))
    rows = {name: row for row, name in enumerate(search.table.resources)}
    lacks = sum(
        max(0, units - int(search.offers[rows[name], chosen].sum()))
        for name, units in search.closure.amounts.items()
    )
    return Choice(tuple(chosen), lacks, (more, wanted, paid, last))


def _cheapest(search: _Search, kept: Sequence[int], cut: set[WorkloadKey]) -> list[int]:
    """Nodes that suffice. ``cut``: gangs that are cut off already; those of the nodes are added."""
    work = search.work

    def cost(column: int) -> Cost:
        wanted = bool(search.wanted_soon[column])
        ends = work.ends.get(column, 0)
        return Cost(search.more_on(column), wanted, search.lost(column, cut), ends, column)

    useful = search.useful()
    useful[list(kept)] = False
    heap = [cost(column) for column in np.flatnonzero(useful).tolist()]
    heapify(heap)
    chosen = list(kept)
    while heap and not search.suffices(chosen):
        before = heappop(heap)
        now = cost(before.column)
        if heap and now > heap[0]:
            heappush(heap, now)
            continue
        chosen.append(now.column)
        cut |= work.cut_off.get(now.column, frozenset())
    for column in reversed(chosen[len(kept) :]):
        rest = [each for each in chosen if each != column]
        if search.suffices(rest):
            chosen = rest
    return chosen
