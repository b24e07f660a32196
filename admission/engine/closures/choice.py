"""Which nodes a reservation gets: whole nodes, where least work is cut off, and of that what ends soonest.

What was chosen before stays chosen, as long as the nodes are there and take pods. A gang counts once: when one of its
nodes is chosen, the others cost nothing more.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from admission.engine.closures.held_work import CutOff, HeldWork, Numbers
from admission.engine.nodes.table import Amounts, Mask, NodeTable
from admission.engine.snapshot import Snapshot
from queues.node_closures import NodeClosure
from queues.workload import NodeName


class Choice(NamedTuple):
    """Nodes, and what is still missing of them."""

    columns: tuple[int, ...]
    #: What the reservation lacks of what it asks for, over all resources; 0: nothing.
    lacks: int
    cost: tuple[int, int, int, int]


def candidates(closure: NodeClosure, table: NodeTable) -> Mask:
    """(N,) nodes that a reservation may keep, if no other closure has them in its window."""
    layout = table.layout
    mask = layout.usable
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
    wanted_soon: Callable[[], Mask],
    running: HeldWork,
    more: Numbers | None = None,
) -> tuple[NodeName, ...]:
    """The nodes that a reservation keeps from now on, fewer if there are not enough.

    ``may_be``: (N,) ``candidates`` that no other closure has. ``wanted_soon``: (N,) nodes that other closures need
    shortly before or after; it is asked for only if there is a choice. ``more``: (N,) nodes with little of this are
    preferred to all others.
    """
    table, layout = snapshot.nodes, snapshot.nodes.layout
    position = layout.position
    kept = [position[name] for name in closure.nodes if name in position and may_be[position[name]]]
    if not lacks(closure, table, kept) or not _others(may_be, kept).any():
        return tuple(layout.names[column] for column in sorted(kept))
    offers = running.offers(snapshot)
    useful = may_be & _useful(closure, table, offers)
    in_domains = bool(closure.level) and closure.level in layout.levels and bool(useful.any())
    if not in_domains:
        every = _with(useful, kept)
        if not _suffices(every, closure, table, offers):
            # All that there is, whatever it costs: it is not weighed in each turn in which it is too little.
            return tuple(layout.names[column] for column in every)
    search = _Search(
        closure, table, useful, offers, running.cut_off(closure.clear_at, snapshot), wanted_soon(), more, kept
    )
    choices = (search.inside(inside) for inside in (_domains(search) if in_domains else [may_be]))
    best = min(choices, key=lambda choice: (choice.lacks, choice.cost), default=None)
    columns = kept if best is None else best.columns
    return tuple(layout.names[column] for column in sorted(columns))


def lacks(closure: NodeClosure, table: NodeTable, kept: Iterable[int]) -> bool:
    """Whether a reservation lacks nodes. ``kept``: columns of those that it has."""
    return not _suffices(kept, closure, table, table.allocatable)


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


def _domains(search: "_Search") -> Iterator[Mask]:
    """The nodes of each domain in which a reservation lacks least; of one that has nodes there only of these."""
    closure, table = search.closure, search.table
    chain, index = table.layout.levels[closure.level]
    of = chain[index].of
    every = _with(search.useful, search.kept)
    lacks = np.zeros(len(chain[index].domains), np.int64)
    rows = {name: row for row, name in enumerate(table.resources)}
    for name, units in closure.amounts.items():
        offered = np.zeros_like(lacks)
        np.add.at(offered, of[every], search.offers[rows[name], every])
        lacks += np.maximum(0, units - offered)
    best: list[int] = np.flatnonzero(lacks == min(lacks, default=0)).tolist()
    own = {int(of[column]) for column in search.kept}
    for domain in [each for each in best if each in own] or best:
        yield of == domain


@dataclass(frozen=True)
class _Search:
    """What a choice is made from."""

    closure: NodeClosure
    table: NodeTable
    #: (N,) nodes that may be chosen and have something of all that is asked.
    useful: Mask
    offers: Amounts
    work: CutOff
    wanted_soon: Mask
    #: (N,) what the holder would have more with a node. None for 0.
    more: Numbers | None
    #: Nodes that it has.
    kept: Sequence[int]

    @cached_property
    def _asked(self) -> Numbers:
        """(A,) what it asks for, of each resource."""
        return np.array([units for _, units in sorted(self.closure.amounts.items()) if units > 0], np.int64)

    @cached_property
    def _offered(self) -> Amounts:
        """(A, N) what nodes offer of that."""
        offered: Amounts = self.offers[_rows(self.closure, self.table)]
        return offered

    def inside(self, domain: Mask) -> Choice:
        """Enough nodes of a domain, the cheapest first, besides those that it has there."""
        kept = [column for column in self.kept if domain[column]]
        cut = self.work.workloads_on(kept)
        others = self.useful & domain
        others[kept] = False
        chosen = self._cheapest(np.flatnonzero(others), kept, cut)
        every = [*kept, *chosen]
        cost = (
            0 if self.more is None else int(self.more[chosen].sum()),
            int(self.wanted_soon[chosen].sum()),
            self.work.lost_together(chosen, cut),
            int(self.work.ends[chosen].max(initial=0)),
        )
        lacks = int(np.maximum(0, self._asked - self._offered[:, every].sum(axis=1)).sum())
        return Choice(tuple(every), lacks, cost)

    def _cheapest(self, others: NDArray[np.intp], kept: Sequence[int], cut: Numbers) -> list[int]:
        """Those of these nodes that suffice with the kept ones, or all: least of what the holder would have more first,
        then nodes that no other closure needs, then with least work that is cut off, then with work that ends first."""
        lost, ends, wanted = (
            each[others] for each in (self.work.lost(cut), self.work.ends, self.wanted_soon)
        )
        more = np.zeros_like(lost) if self.more is None else self.more[others]
        ordered = others[np.lexsort((others, ends, lost, wanted, more))]
        missing = self._asked - self._offered[:, list(kept)].sum(axis=1)
        enough = (self._offered[:, ordered].cumsum(axis=1) >= missing[:, None]).all(axis=0)
        if (missing <= 0).all():
            return []
        if not enough.any():
            return [int(column) for column in others]  # nothing to choose between
        chosen: list[int] = ordered[: int(enough.argmax()) + 1].tolist()
        spare = self._offered[:, chosen].sum(axis=1) - missing
        for column in reversed(list(chosen)):
            if (spare >= self._offered[:, column]).all():
                chosen.remove(column)
                spare = spare - self._offered[:, column]
        return chosen
