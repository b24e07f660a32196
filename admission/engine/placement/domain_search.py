"""Where pods of one shape may go, and where they go.

Preferred node affinity: nodes of the highest score first.

Pods over places that have some room each: the fewest places, or the same number to each.

Inside a domain: level by level as few domains as possible, down to the nodes.

The roomiest go first, and what is left goes where it fits most tightly. A domain of a part's level takes whole
parts and is filled on its own. What is spread or balanced is divided evenly instead.

Which nodes: the tightest domain that holds all, in it as few domains and nodes as possible.

For pods of one shape everything starts from the room per node (how many such pods each takes). The choice is:

1. ``required`` level: one domain of it, or nothing. ``preferred`` level: one domain of it, else of the next
wider level, else as few of the widest as possible. Neither: the same, from the host upwards. 2. Of the
domains that hold all, the one with least room is taken, so that large holes stay; a host in the rack with
least room, so that empty racks stay empty. 3. Inside, level by level (``filling``): the roomiest domains first, so
that there are few, and for the rest the tightest.

Parts: a domain of a part's level takes whole parts only (``capacity``); 3 ends at that level, and every
domain of it is filled on its own. Preferred node affinity goes before all of this: as many pods as possible
on the nodes of the highest score, then the next; a required level binds it.

``spread`` placement turns 2 and 3 round: the roomiest domain, and pods evenly over its nodes; over all nodes
where no level is asked for. ``balanced`` keeps 2, and fills the fewest domains of the level evenly.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.capacity import Capacity, DomainShare
from admission.engine.nodes.levels import TopologyLevel
from admission.engine.nodes.table import Amounts

Columns = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class DomainQuery:
    """Where pods of one shape may go: room per node, and how close together."""

    pods: int
    #: (N,) how many pods each node takes.
    room: Amounts
    #: The levels of one topology, outermost first, the host last.
    chain: Sequence[TopologyLevel]
    #: Index of the level to start at.
    level: int
    #: All in one domain of that level, or nothing.
    required: bool = False
    spread: bool = False
    #: Over the fewest domains of the level evenly, if one does not hold all.
    balanced: bool = False
    #: Outermost first; ``pods`` is a multiple of the first size, and each size of the next.
    parts: tuple[DomainShare, ...] = ()
    #: (N,) preferred node affinity: the highest first.
    score: Amounts | None = None
    #: (N,) what it costs to put a pod on a node: of otherwise equal nodes the cheapest, before the tightest.
    cost: Amounts | None = None
    #: The cost only measures what is left behind: a rack that is nearly full counts before it.
    cost_is_fragmentation: bool = False
    #: Capacities that are worked out already.
    capacities: list[Capacity] = field(default_factory=list)

    @property
    def capacity(self) -> Capacity:
        """Pods that each domain takes."""
        for known in self.capacities:
            if known.parts == self.parts and known.room is self.room:
                return known
        self.capacities.append(Capacity(self.chain, self.room, self.parts))
        return self.capacities[-1]


@dataclass(frozen=True, slots=True, eq=False)
class TopologyAssignment:
    """Nodes, in the order of the topology, and how many pods go to each."""

    columns: Columns
    counts: Amounts

    def node_per_pod(self) -> list[int]:
        """The node of each pod: neighbours in the topology are neighbours in the list."""
        return np.repeat(self.columns, self.counts).tolist()


def by_score(score: Amounts, room: Amounts) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Places of equal score that have room, the highest first."""
    usable = room > 0
    for value in np.unique(score[usable])[::-1].tolist():
        yield value, usable & (score == value)


def best_scores(ask: DomainQuery, at: int) -> Amounts:
    """(D,) the most that ``pods`` pods in each domain of the level can score; parts aside."""
    assert ask.score is not None
    level = ask.chain[at]
    left = np.full(len(level.domains), ask.pods, np.int64)
    scores = np.zeros(len(level.domains), np.int64)
    for score, nodes in by_score(ask.score, ask.room):
        fit = np.minimum(level.sums(ask.room * nodes), left)
        scores += score * fit
        left -= fit
    return scores


def fewest(room: Amounts, pods: int, cost: Amounts | None = None) -> NDArray[np.intp]:
    """The roomiest places until the rest fits into one; that one the tightest, and last in the answer."""
    order = np.argsort(-room, kind="stable") if cost is None else np.lexsort((cost, -room))
    sums = np.cumsum(room[order])
    full = int(np.searchsorted(sums, pods))
    rest = pods - (int(sums[full - 1]) if full else 0)
    others = order[full:]
    # Descending room: the last of those that hold the rest is the tightest; of equals the first.
    holding = int(np.count_nonzero(room[others] >= rest))
    tightest = room[others[holding - 1]]
    last = others[int(np.flatnonzero(room[others] == tightest)[0])]
    return np.append(order[:full], last)


def evenly(room: Amounts, pods: int, unit: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Places that get pods, and as equal numbers (multiples of the unit) as the room allows.

    Roomier places get what is left over.
    """
    units = room // unit
    asked = pods // unit
    low, high = 0, asked  # the largest number per place that all together do not exceed what is asked
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(units, middle).sum()) <= asked:
            low = middle
        else:
            high = middle - 1
    counts = np.minimum(units, low)
    rest = asked - int(counts.sum())
    more = np.argsort(-(units - counts), kind="stable")[:rest]
    counts[more] += 1
    used = np.flatnonzero(counts)
    return used, counts[used] * unit


def fill_domains(ask: DomainQuery, at: int, columns: Columns) -> TopologyAssignment:
    """Level by level as few domains as possible, down to the nodes. The columns hold all pods."""
    if len(columns) == 1:
        return TopologyAssignment(columns, np.array([ask.pods], np.int64))
    parts = tuple(part for part in ask.parts if part.at >= at)
    if ask.balanced and at <= ask.level < (parts[0].at if parts else len(ask.chain) - 1):
        return _evenly_over(replace(ask, parts=parts), at, columns)
    if not parts:
        return _preferred_first(replace(ask, parts=()) if ask.parts else ask, at, columns)
    if parts[0].at == len(ask.chain) - 1:  # a host is a domain of its own: nothing is left to choose inside
        hosts = _domains(ask if parts == ask.parts else replace(ask, parts=parts), at, columns)
        return TopologyAssignment(
            np.array([host for host, _ in hosts], np.intp), np.array([pods for _, pods in hosts], np.int64)
        )
    level = ask.chain[parts[0].at]
    inner = replace(ask, parts=parts[1:]) if len(parts) > 1 else replace(ask, parts=())
    pieces = [
        fill_domains(replace(inner, pods=pods), parts[0].at + 1, _both(level.members(domain), columns))
        for domain, pods in _domains(ask if parts == ask.parts else replace(ask, parts=parts), at, columns)
    ]
    return _joined(pieces)


def _domains(ask: DomainQuery, at: int, columns: Columns) -> list[tuple[int, int]]:
    """Domains of the outermost part's level, with how many pods each gets: whole parts."""
    part = ask.parts[0]
    level = ask.chain[part.at]
    here = np.unique(level.of[columns])
    here = here[here >= 0]
    room = ask.capacity.per_domain(part.at)[here]
    left = ask.pods
    chosen: list[tuple[int, int]] = []
    score = (
        np.zeros(len(here), np.int64)
        if ask.score is None
        else best_scores(replace(ask, pods=part.size), part.at)[here]
    )
    for _, mask in by_score(score, room):
        alike, holds = here[mask], room[mask]
        if ask.spread:
            picked, counts = evenly(holds, min(left, int(holds.sum())), part.size)
        elif int(holds.sum()) <= left:
            picked, counts = np.arange(len(alike)), holds
        else:
            near = _narrowed(ask, at, part.at, alike, left)
            picked, counts = _filled(ask, part.at, holds[near], left, part.size)
            picked = near[picked]
        chosen += zip(alike[picked].tolist(), counts.tolist(), strict=True)
        left -= int(counts.sum())
        if not left:
            break
    return chosen


def _narrowed(ask: DomainQuery, at: int, to: int, domains: NDArray[np.intp], pods: int) -> NDArray[np.intp]:
    """Which of these domains of a level lie in the fewest domains of the levels above it, from ``at`` on."""
    first = ask.chain[to].first()[domains]
    room = ask.capacity.per_domain(to)[domains]
    kept = np.arange(len(domains))
    for index in range(at, to):
        of = ask.chain[index].of[first[kept]]
        sums = np.zeros(len(ask.chain[index].domains), np.int64)
        np.add.at(sums, of[of >= 0], room[kept][of >= 0])
        if int(sums.sum()) < pods:
            continue  # only together with nodes that lack this label
        chosen = np.zeros(len(sums), np.bool_)
        picked, _ = _filled(ask, index, sums, pods, 1)
        chosen[picked] = True
        kept = kept[(of >= 0) & chosen[of]]
    return kept


def _filled(
    ask: DomainQuery, index: int, room: Amounts, pods: int, unit: int
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """The fewest places that hold the pods, and how many each gets: the roomiest full, or all alike."""
    cost = ask.cost if index == len(ask.chain) - 1 and len(room) == len(ask.room) else None
    picked = fewest(room, pods, cost)
    counts = room[picked]
    if ask.balanced and index == ask.level and len(picked) > 1:
        roomiest = np.argsort(-room, kind="stable")[: len(picked)]
        even, counts = evenly(room[roomiest], pods, unit)
        return roomiest[even], counts
    counts[-1] -= int(counts.sum()) - pods
    return picked, counts


def _preferred_first(ask: DomainQuery, at: int, columns: Columns) -> TopologyAssignment:
    """Nodes of the highest score first; among equal ones the closest. Nothing is left of parts."""
    if ask.score is None:
        return _closest(ask, at, columns)
    columns = _close_together(ask, at, columns)
    left = ask.pods
    pieces: list[TopologyAssignment] = []
    for _, mask in by_score(ask.score[columns], ask.room[columns]):
        alike = columns[mask]
        room = ask.room[alike]
        if int(room.sum()) > left:
            pieces.append(_closest(replace(ask, pods=left), at, alike))
            break
        pieces.append(TopologyAssignment(alike, room))
        left -= int(room.sum())
        if not left:
            break
    return _joined(pieces)


def _close_together(ask: DomainQuery, at: int, columns: Columns) -> Columns:
    """Of these nodes those of the lowest domain that holds all pods and scores as much as all nodes together."""
    room = np.zeros_like(ask.room)
    room[columns] = ask.room[columns]
    best, left = 0, ask.pods
    assert ask.score is not None
    for score, nodes in by_score(ask.score, room):
        best += score * min(left, int(room[nodes].sum()))
        left -= min(left, int(room[nodes].sum()))
    for index in range(at, len(ask.chain) - 1):
        level = ask.chain[index]
        sums = level.sums(room)
        fitting = np.flatnonzero(sums >= ask.pods)
        fitting = fitting[best_scores(replace(ask, room=room, capacities=[]), index)[fitting] >= best]
        if not len(fitting):
            break
        room = room * (level.of == fitting[sums[fitting].argmin()])
    kept: Columns = np.flatnonzero(room)
    return kept


def _closest(ask: DomainQuery, at: int, columns: Columns) -> TopologyAssignment:
    if ask.spread:
        picked, counts = evenly(ask.room[columns], ask.pods, 1)
        return TopologyAssignment(columns[picked], counts)
    hosts = len(ask.chain) - 1
    for index in range(at, hosts):
        level = ask.chain[index]
        of = level.of[columns]
        inside = of >= 0
        sums = np.zeros(len(level.domains), np.int64)
        np.add.at(sums, of[inside], ask.room[columns][inside])
        if int(sums.sum()) < ask.pods:
            continue  # only together with nodes that lack this label: decided by node
        chosen = np.zeros(len(sums), np.bool_)
        chosen[fewest(sums, ask.pods)] = True
        columns = columns[inside & chosen[of]]
    room = ask.room[columns]
    if ask.balanced and ask.level == hosts:
        picked, counts = _filled(ask, hosts, room, ask.pods, 1)
        return TopologyAssignment(columns[picked], counts)
    picked = fewest(room, ask.pods, None if ask.cost is None else ask.cost[columns])
    counts = room[picked]
    counts[-1] -= int(counts.sum()) - ask.pods
    return TopologyAssignment(columns[picked], counts)


def _evenly_over(ask: DomainQuery, at: int, columns: Columns) -> TopologyAssignment:
    """The fewest domains of the level that is asked for, each with as many pods as the others if it can."""
    level = ask.chain[ask.level]
    here = np.unique(level.of[columns])
    here = here[here >= 0]
    room = ask.capacity.per_domain(ask.level)[here]
    if int(room.sum()) < ask.pods:  # only together with nodes that lack this label
        return fill_domains(replace(ask, balanced=False), at, columns)
    near = _narrowed(ask, at, ask.level, here, ask.pods)
    unit = ask.parts[0].size if ask.parts else 1
    picked, counts = _filled(ask, ask.level, room[near], ask.pods, unit)
    inner = replace(ask, balanced=False)
    pieces = [
        fill_domains(replace(inner, pods=pods), ask.level + 1, _both(level.members(domain), columns))
        for domain, pods in zip(here[near[picked]].tolist(), counts.tolist(), strict=True)
    ]
    return _joined(pieces)


def _joined(pieces: Sequence[TopologyAssignment]) -> TopologyAssignment:
    if len(pieces) == 1:
        return pieces[0]
    return TopologyAssignment(
        np.concatenate([piece.columns for piece in pieces]),
        np.concatenate([piece.counts for piece in pieces]),
    )


def _both(members: Columns, columns: Columns) -> Columns:
    return np.intersect1d(members, columns, assume_unique=True)


def assign_nodes(ask: DomainQuery) -> TopologyAssignment | None:
    """Nodes for all pods; None: they do not fit, or not in one domain of the required level."""
    if ask.pods == 1 and ask.cost is not None and not ask.cost_is_fragmentation:
        ask = _as_cheap_as_can_be(ask)
    best = _best_score(ask)
    anywhere = ask.spread and not ask.required and ask.level == len(ask.chain) - 1
    for at in range(-1 if anywhere else ask.level, -1, -1):
        room = ask.capacity.per_domain(at)
        fitting = np.flatnonzero(room >= ask.pods)
        if len(fitting) and ask.score is not None:
            scores = best_scores(ask, at)[fitting]
            fitting = fitting[scores >= (int(scores.max()) if ask.required else best)]
        if len(fitting):
            domain = _choose(ask, at, room, fitting)
            return _sorted(ask, fill_domains(ask, at + 1, ask.chain[at].members(domain)))
        if ask.required:
            return None
    if ask.capacity.total() < ask.pods:
        return None
    return _sorted(ask, fill_domains(ask, 0, np.flatnonzero(ask.room)))


def _as_cheap_as_can_be(ask: DomainQuery) -> DomainQuery:
    """A single pod lies in one domain of any level: what it costs others decides, among all nodes of that level."""
    host, level = len(ask.chain) - 1, ask.chain[ask.level]
    if ask.required and (level.of < 0).any():
        return replace(ask, level=host, room=ask.room * (level.of >= 0), capacities=[])
    return replace(ask, level=host)


def _best_score(ask: DomainQuery) -> int:
    """What the best placement at any distance reaches; a closer one has to reach it too."""
    if ask.score is None or ask.required or ask.capacity.total() < ask.pods:
        return 0
    found = fill_domains(ask, 0, np.flatnonzero(ask.room))
    return int((ask.score[found.columns] * found.counts).sum())


def _choose(ask: DomainQuery, at: int, room: Amounts, fitting: NDArray[np.intp]) -> int:
    """One of the domains that hold all pods."""
    if len(fitting) == 1:
        return int(fitting[0])
    hosts = at == len(ask.chain) - 1
    if ask.parts and not ask.spread:  # of those that hold as many whole parts the tightest
        fitting = _least(fitting, room[fitting])
        fitting = _least(fitting, Capacity(ask.chain, ask.room).per_domain(at)[fitting])
    if at == 0 or ask.spread:
        if hosts and ask.cost is not None:
            fitting = _least(fitting, ask.cost[fitting])
        return int(fitting[room[fitting].argmax() if ask.spread else room[fitting].argmin()])
    outer = ask.chain[at - 1]
    around = outer.of if hosts else outer.of[ask.chain[at].first()]
    outer_room = np.append(ask.capacity.per_domain(at - 1), 0)  # -1, in no outer domain, reads the last one
    if hosts:
        if ask.cost is not None and not ask.cost_is_fragmentation:
            fitting = _least(fitting, ask.cost[fitting])
        # What one node holds fills up the rack with the least room, so that others stay empty for gangs.
        fitting = _least(fitting, outer_room[around[fitting]])
        if ask.cost is not None:
            fitting = _least(fitting, ask.cost[fitting])
    fitting = _least(fitting, room[fitting])
    return int(fitting[outer_room[around[fitting]].argmin()])


def _least(places: NDArray[np.intp], keys: Amounts | NDArray[np.bool_]) -> NDArray[np.intp]:
    least: NDArray[np.intp] = places[keys == keys.min()]
    return least


def _sorted(ask: DomainQuery, found: TopologyAssignment) -> TopologyAssignment:
    """In the order of the topology, outermost level first."""
    columns = found.columns
    if len(columns) == 1:
        return found
    if all(level.order is None for level in ask.chain):
        order = np.argsort(columns, kind="stable")
    else:
        order = np.lexsort((columns, *(level.of[columns] for level in reversed(ask.chain[:-1]))))
    return TopologyAssignment(columns[order], found.counts[order])
