"""Which nodes a reservation gets: whole nodes, where least work is cut off, and of that what ends soonest.

What was chosen before stays chosen, as long as the nodes are there and take pods. A gang counts once: when one of its
nodes is chosen, the others cost nothing more.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from admission.engine.closures.held_work import CutOff, HeldWork, Numbers
from admission.engine.nodes.levels import TopologyLevel
from admission.engine.nodes.table import Amounts, Mask, NodeTable
from admission.engine.snapshot import Snapshot
from queues.node_closures import NodeClosure


class Choice(NamedTuple):
    """Nodes, and what is still missing of them."""

    columns: list[int]
    #: What the reservation lacks of what it asks for, over all resources; 0: nothing.
    lacks: int
    cost: tuple[int, int, int, int]


class AskedAmounts:
    """What a reservation asks for, of each resource in turn (A)."""

    def __init__(self, closure: NodeClosure, table: NodeTable) -> None:
        rows = {name: row for row, name in enumerate(table.resources)}
        amounts = {name: units for name, units in sorted(closure.amounts.items()) if units > 0}
        #: Whether there is anything that it asks for, and nodes have all of that.
        self.is_offered = bool(amounts) and amounts.keys() <= rows.keys()
        self._rows = [rows[name] for name in amounts if name in rows]
        #: (A,) amounts, without resources that no node has.
        self.units = np.array([units for name, units in amounts.items() if name in rows], np.int64)
        self._unknown = sum(units for name, units in amounts.items() if name not in rows)

    def offered(self, offers: Amounts) -> Amounts:
        """(A, N) of (R, N) what nodes offer: what is asked for."""
        offered: Amounts = offers[self._rows]
        return offered

    def missing(self, offered: Amounts) -> Numbers:
        """(A,) what nodes lack that offer this (A, N) together; less than 0: they have more."""
        missing: Numbers = self.units - offered.sum(axis=1)
        return missing

    def lacks(self, offers: Amounts, columns: Sequence[int]) -> bool:
        """Whether these nodes have too little of something. ``offers``: (R, N)."""
        missing = self.missing(self.offered(offers)[:, columns])
        return bool(self._unknown or (missing > 0).any())


def candidates(closure: NodeClosure, table: NodeTable) -> Mask:
    """(N,) nodes that a reservation may keep, if no other closure has them in its window."""
    layout, asked = table.layout, AskedAmounts(closure, table)
    mask = layout.usable
    if closure.flavor:
        mask = mask & layout.of_flavor(closure.flavor)
    if closure.level:
        known = layout.levels.get(closure.level)
        mask = mask & (known[0][known[1]].of >= 0) if known is not None else np.zeros_like(mask)
    if not asked.is_offered:
        return np.zeros_like(mask)
    return mask & (asked.offered(table.allocatable) > 0).all(axis=0)


def chosen_nodes(
    closure: NodeClosure,
    snapshot: Snapshot,
    may_be: Mask,
    wanted_soon: Callable[[], Mask],
    running: HeldWork,
    more: Numbers | None = None,
) -> list[int]:
    """Columns of the nodes that a reservation keeps from now on, fewer if there are not enough.

    ``may_be``: (N,) ``candidates`` that no other closure has. ``wanted_soon``: (N,) nodes that other closures need
    shortly before or after; it is asked for only if there is a choice. ``more``: (N,) nodes with little of this are
    preferred to all others.
    """
    table, position, asked = (
        snapshot.nodes,
        snapshot.nodes.layout.position,
        AskedAmounts(closure, snapshot.nodes),
    )
    kept = sorted(position[name] for name in closure.nodes if name in position and may_be[position[name]])
    if not asked.lacks(table.allocatable, kept) or not np.delete(may_be, kept).any():
        return kept
    offered = asked.offered(running.offers(snapshot))
    useful = may_be & (offered > 0).all(axis=0)
    every = useful.copy()
    every[kept] = True
    in_domains = bool(closure.level) and closure.level in table.layout.levels and bool(useful.any())
    if not in_domains and (asked.missing(offered[:, every]) > 0).any():
        # All that there is, whatever it costs: it is not weighed in each turn in which it is too little.
        found: list[int] = np.flatnonzero(every).tolist()
        return found
    work = running.cut_off(closure.clear_at, snapshot)
    search = _Search(asked, useful, offered, work, wanted_soon(), more, kept)
    domains = _domains(search, every, table.layout.level(closure.level)) if in_domains else [may_be]
    best = min(map(search.inside, domains), key=lambda choice: (choice.lacks, choice.cost), default=None)
    return kept if best is None else sorted(best.columns)


def lacks(closure: NodeClosure, table: NodeTable, kept: Sequence[int]) -> bool:
    """Whether a reservation lacks nodes. ``kept``: columns of those that it has."""
    return AskedAmounts(closure, table).lacks(table.allocatable, kept)


def _domains(search: "_Search", every: Mask, level: TopologyLevel) -> Iterator[Mask]:
    """The nodes of each domain in which a reservation lacks least; of one that has nodes there only of these.

    ``every``: (N,) nodes that it has or may choose.
    """
    offered = np.where(every, search.offered, 0)
    asked = zip(search.asked.units, offered, strict=True)
    lacks = np.sum([np.maximum(0, units - level.sums(amounts)) for units, amounts in asked], axis=0)
    best: list[int] = np.flatnonzero(lacks == lacks.min()).tolist()
    own = {int(level.of[column]) for column in search.kept}
    for domain in [domain for domain in best if domain in own] or best:
        yield level.of == domain


@dataclass(frozen=True)
class _Search:
    """What a choice is made from."""

    asked: AskedAmounts
    #: (N,) nodes that may be chosen and have something of all that is asked.
    useful: Mask
    #: (A, N) what nodes offer of that.
    offered: Amounts
    work: CutOff
    wanted_soon: Mask
    #: (N,) what the holder would have more with a node. None for 0.
    more: Numbers | None
    #: Nodes that it has.
    kept: Sequence[int]

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
        lacks = int(np.maximum(0, self.asked.missing(self.offered[:, every])).sum())
        return Choice(every, lacks, cost)

    def _cheapest(self, others: NDArray[np.intp], kept: Sequence[int], cut: Numbers) -> list[int]:
        """Those of these nodes that suffice with the kept ones, or all: least of what the holder would have more first,
        then nodes that no other closure needs, then with least work that is cut off, then with work that ends first."""
        lost, ends, wanted = (
            each[others] for each in (self.work.lost(cut), self.work.ends, self.wanted_soon)
        )
        more = np.zeros_like(lost) if self.more is None else self.more[others]
        ordered = others[np.lexsort((others, ends, lost, wanted, more))]
        missing = self.asked.missing(self.offered[:, list(kept)])
        enough = (self.offered[:, ordered].cumsum(axis=1) >= missing[:, None]).all(axis=0)
        if (missing <= 0).all():
            return []
        if not enough.any():
            return [int(column) for column in others]  # nothing to choose between
        chosen: list[int] = ordered[: int(enough.argmax()) + 1].tolist()
        spare = self.offered[:, chosen].sum(axis=1) - missing
        for column in reversed(list(chosen)):
            if (spare >= self.offered[:, column]).all():
                chosen.remove(column)
                spare = spare - self.offered[:, column]
        return chosen
