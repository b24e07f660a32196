"""Which nodes: the tightest domain that holds all, in it as few domains and nodes as possible.

For pods of one shape everything starts from the room per node (how many such pods each takes). The choice is:

1. ``required`` level: one domain of it, or nothing. ``preferred`` level: one domain of it, else of the next
wider level, else as few of the widest as possible. Neither: the same, from the host upwards. 2. Of the
domains that hold all, the one with least room is taken, so that large holes stay; a host that makes a first
hole in an empty domain comes last. 3. Inside, level by level: the roomiest domains first, so that there are
few, and for the rest the tightest.

``spread`` placement turns 2 and 3 round: the roomiest domain, and pods evenly over its nodes; over all nodes
where no level is asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from admission.engine.topology import Amounts, Level

Columns = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Where pods of one shape may go: room per node, and how close together."""

    pods: int
    #: (N,) how many pods each node takes.
    room: Amounts
    #: The levels of one topology, outermost first, the host last.
    chain: Sequence[Level]
    #: Index of the level to start at.
    at: int
    #: All in one domain of that level, or nothing.
    required: bool = False
    spread: bool = False
    #: (N,) room if all nodes were empty; None: empty domains are not spared.
    empty_room: Amounts | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Nodes (ascending columns) and how many pods go to each."""

    columns: Columns
    counts: Amounts

    def each(self) -> list[int]:
        """The node of each pod: neighbours in the topology are neighbours in the list."""
        return np.repeat(self.columns, self.counts).tolist()


def place(ask: Ask) -> Place | None:
    """Nodes for all pods; None: they do not fit, or not in one domain of the required level."""
    anywhere = ask.spread and not ask.required and ask.at == len(ask.chain) - 1
    for at in range(-1 if anywhere else ask.at, -1, -1):
        sums = ask.chain[at].sums(ask.room)
        fitting = np.flatnonzero(sums >= ask.pods)
        if len(fitting):
            domain = _choose(ask, at, sums, fitting)
            return _inside(ask, at + 1, ask.chain[at].members(domain))
        if ask.required:
            return None
    if int(ask.room.sum()) < ask.pods:
        return None
    return _inside(ask, 0, np.flatnonzero(ask.room))


def best_domain(level: Level, room: Amounts) -> tuple[str, int] | None:
    """The domain with most room and how many pods it takes; None: the level has no domain."""
    sums = level.sums(room)
    if not len(sums):
        return None
    domain = int(sums.argmax())
    return level.domains[domain], int(sums[domain])


def _choose(ask: Ask, at: int, sums: Amounts, fitting: NDArray[np.intp]) -> int:
    """One of the domains that hold all pods."""
    if ask.spread:
        return int(fitting[sums[fitting].argmax()])
    if len(fitting) == 1 or at == 0:
        return int(fitting[sums[fitting].argmin()])
    outer = ask.chain[at - 1]
    level = ask.chain[at]
    first = level.starts[fitting] if level.order is None else level.order[level.starts[fitting]]
    within = outer.of[first]
    outer_sums = np.append(outer.sums(ask.room), 0)  # -1, in no outer domain, reads the last one
    if at == len(ask.chain) - 1 and ask.empty_room is not None:
        untouched = np.append(outer.sums(ask.empty_room), 1) == outer_sums
        order = np.lexsort((outer_sums[within], sums[fitting], untouched[within]))
    else:
        order = np.lexsort((outer_sums[within], sums[fitting]))
    return int(fitting[order[0]])


def _inside(ask: Ask, at: int, columns: Columns) -> Place:
    """Level by level as few domains as possible, down to the nodes. The columns hold all pods."""
    if ask.spread:
        return _evenly(ask, columns)
    for level in ask.chain[at:-1]:
        of = level.of[columns]
        room = ask.room[columns]
        inside = of >= 0
        sums = np.zeros(len(level.domains), np.int64)
        np.add.at(sums, of[inside], room[inside])
        if int(sums.sum()) < ask.pods:
            continue  # only together with nodes that lack this label: decided by node
        chosen = np.zeros(len(sums), np.bool_)
        chosen[_fewest(sums, ask.pods)] = True
        columns = columns[inside & chosen[of]]
    room = ask.room[columns]
    picked = _fewest(room, ask.pods)
    counts = room[picked]
    counts[-1] -= int(counts.sum()) - ask.pods
    order = np.argsort(columns[picked])
    return Place(columns[picked][order], counts[order])


def _fewest(room: Amounts, pods: int) -> NDArray[np.intp]:
    """The roomiest places until the rest fits into one; that one the tightest, and last in the answer."""
    order = np.argsort(-room, kind="stable")
    sums = np.cumsum(room[order])
    full = int(np.searchsorted(sums, pods))
    rest = pods - (int(sums[full - 1]) if full else 0)
    others = order[full:]
    # Descending room: the last of those that hold the rest is the tightest; of equals the first.
    holding = int(np.count_nonzero(room[others] >= rest))
    tightest = room[others[holding - 1]]
    last = others[int(np.flatnonzero(room[others] == tightest)[0])]
    return np.append(order[:full], last)


def _evenly(ask: Ask, columns: Columns) -> Place:
    """As equal counts per node as the room allows, roomier nodes getting what is left over."""
    room = ask.room[columns]
    low, high = 0, ask.pods  # the largest number per node that all together do not exceed the pods
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(room, middle).sum()) <= ask.pods:
            low = middle
        else:
            high = middle - 1
    counts = np.minimum(room, low)
    rest = ask.pods - int(counts.sum())
    more = np.argsort(-(room - counts), kind="stable")[:rest]
    counts[more] += 1
    used = counts > 0
    return Place(columns[used], counts[used])
