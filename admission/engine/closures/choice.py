"""Which nodes a reservation gets: whole nodes, where least work is cut off, and of that what ends soonest.

What was chosen before stays chosen, as long as the nodes are there and take pods. A gang counts once: when one of its
nodes is chosen, the others cost nothing more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from admission.engine.nodes.closed_nodes import longest_run
from admission.engine.nodes.table import Amounts, Mask, NodeTable
from admission.engine.snapshot import Snapshot
from queues.admissions import AdmissionState
from queues.closures.node_closures import NodeClosure
from queues.workload import NodeName, WorkloadKey


class Cost(NamedTuple):
    """What it costs to keep a node, the smallest first."""

    #: Another closure needs the node soon before or after.
    is_wanted: bool
    #: Work that would be cut off: seats of gangs not cut off already.
    seats: int
    #: When the last of what runs there should have ended; 0: nothing runs.
    ends: int
    #: Column: neighbours stay together.
    column: int


@dataclass(frozen=True, slots=True, eq=False)
class RunningWork:
    """What holds seats on nodes, as far as it matters for a reservation."""

    #: By column: workloads that would be cut off there.
    cut_off: Mapping[int, frozenset[WorkloadKey]]
    #: Seats of each of them.
    seats: Mapping[WorkloadKey, int]
    #: By column: the second at which the last work should have ended.
    ends: Mapping[int, int]
    #: (R, N) what nodes offer without all of it: pods that are no work of queues stay.
    offers: Amounts

    @classmethod
    def of(cls, snapshot: Snapshot, closure: NodeClosure) -> "RunningWork":
        """All that runs now. What is not known to end before the nodes are cleared would be cut off."""
        table, position = snapshot.nodes, snapshot.nodes.layout.position
        offers = table.allocatable - table.used
        rows = {name: row for row, name in enumerate(table.resources)}
        cut_off: dict[int, set[WorkloadKey]] = {}
        seats: dict[WorkloadKey, int] = {}
        ends: dict[int, int] = {}
        for admission in snapshot.admissions.values():
            leaves = admission.state is not AdmissionState.OPEN or admission.id in snapshot.evictable
            holder = snapshot.holders.get(admission.workload)
            end = snapshot.now
            if not leaves:
                known = None if holder is None else longest_run(holder, snapshot.queues)
                end = closure.clear_at + 1 if known is None else max(end, admission.opened_at + known)
            held = snapshot.still_held(admission)
            stays = end > closure.clear_at
            if stays:
                seats[admission.workload] = seats.get(admission.workload, 0) + len(held)
            for seat in held:
                if (at := position.get(seat.node)) is not None:
                    for name, units in seat.takes.items():
                        if name in rows:
                            offers[rows[name], at] += units
            for column in {position[seat.node] for seat in held if seat.node in position}:
                ends[column] = max(ends.get(column, 0), end)
                if stays:
                    cut_off.setdefault(column, set()).add(admission.workload)
        return cls({column: frozenset(keys) for column, keys in cut_off.items()}, seats, ends, offers)


class Choice(NamedTuple):
    """Nodes, and what is still missing of them."""

    columns: tuple[int, ...]
    #: What the reservation lacks of what it asks for, over all resources; 0: nothing.
    lacks: int
    cost: tuple[int, int, int]


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
    closure: NodeClosure, snapshot: Snapshot, may_be: Mask, wanted_soon: Mask
) -> tuple[NodeName, ...]:
    """The nodes that a reservation keeps from now on, fewer if there are not enough.

    ``may_be``: (N,) ``candidates``. ``wanted_soon``: (N,) nodes that other closures need shortly before or after.
    """
    table, layout = snapshot.nodes, snapshot.nodes.layout
    position = layout.position
    kept = [position[name] for name in closure.nodes if name in position and may_be[position[name]]]
    if _suffices(kept, closure, table, table.allocatable) or not _others(may_be, kept).any():
        return tuple(layout.names[column] for column in sorted(kept))
    work = RunningWork.of(snapshot, closure)
    best: Choice | None = None
    for inside in _domains(closure, table, may_be, kept, work):
        found = _in(inside, closure, table, [each for each in kept if inside[each]], work, wanted_soon)
        if best is None or (found.lacks, found.cost) < (best.lacks, best.cost):
            best = found
    columns = kept if best is None else best.columns
    return tuple(layout.names[column] for column in sorted(columns))


def _others(may_be: Mask, kept: Iterable[int]) -> Mask:
    others = may_be.copy()
    others[list(kept)] = False
    return others


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
    closure: NodeClosure, table: NodeTable, may_be: Mask, kept: Sequence[int], work: RunningWork
) -> Iterable[Mask]:
    """The nodes of each domain in which the reservation may be; of one that has room the domain of what it has."""
    if not closure.level or closure.level not in table.layout.levels:
        yield may_be
        return
    chain, index = table.layout.levels[closure.level]
    of = chain[index].of
    own = {int(of[column]) for column in kept}
    first = [
        each
        for each in sorted(own)
        if _suffices(np.flatnonzero(may_be & (of == each)), closure, table, work.offers)
    ]
    for domain in first or range(len(chain[index].domains)):
        yield may_be & (of == domain)


def _in(
    inside: Mask,
    closure: NodeClosure,
    table: NodeTable,
    kept: Sequence[int],
    work: RunningWork,
    wanted_soon: Mask,
) -> Choice:
    """Enough of these nodes, the cheapest first. ``kept``: those that it has."""
    cut: set[WorkloadKey] = set().union(*(work.cut_off.get(column, ()) for column in kept))

    def cost(column: int) -> Cost:
        lost = sum(work.seats[key] for key in work.cut_off.get(column, frozenset()) - cut)
        return Cost(bool(wanted_soon[column]), lost, work.ends.get(column, 0), column)

    heap = [cost(column) for column in np.flatnonzero(_others(inside, kept)).tolist()]
    heapify(heap)
    chosen, paid, wanted, last = list(kept), 0, 0, 0
    useful: Mask = np.logical_and.reduce(work.offers[_rows(closure, table)] > 0, axis=0)
    while heap and not _suffices(chosen, closure, table, work.offers):
        before = heappop(heap)
        now = cost(before.column)
        if heap and now > heap[0]:
            heappush(heap, now)
            continue
        if not useful[now.column]:
            continue
        chosen.append(now.column)
        cut |= work.cut_off.get(now.column, frozenset())
        paid, wanted, last = paid + now.seats, wanted + now.is_wanted, max(last, now.ends)
    for column in reversed(chosen[len(kept) :]):
        rest = [each for each in chosen if each != column]
        if _suffices(rest, closure, table, work.offers):
            chosen = rest
    rows = {name: row for row, name in enumerate(table.resources)}
    lacks = sum(
        max(0, units - int(work.offers[rows[name], chosen].sum())) for name, units in closure.amounts.items()
    )
    return Choice(tuple(chosen), lacks, (wanted, paid, last))
