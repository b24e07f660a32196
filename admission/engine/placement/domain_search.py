"""On which nodes pods of one shape go: the tightest domain that holds all, in it as few domains and nodes as possible.

Everything starts from the room of each node: how many such pods it takes. The choice is:

1. ``required`` level: one domain of it, or nothing. Preferred level: one domain of it, else of the next wider level,
   else as few of the widest as possible. Neither: the same, from the host upwards.
2. Of the domains that hold all pods, the one with least room, so that large holes stay; a host in the rack with least
   room, so that empty racks stay empty.
3. Inside it, level by level down to the nodes: the roomiest domains first, so that there are few, and for the rest
   the tightest.

Parts: a domain of a part's level takes whole parts only (``nodes.capacity``); 3 ends at that level, and every domain
of it is filled on its own. Preferred node affinity goes before all of this: as many pods as possible on the nodes of
the highest score, then the next; a required level binds it.

This is how the placement ``pack`` has it; ``spread`` turns 2 and 3 round: the roomiest domain, and pods evenly over its
nodes; over all nodes where no level is asked for. ``balanced`` keeps 2, and fills the fewest domains of the level
evenly.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.capacity import Capacity, DomainShare
from admission.engine.nodes.levels import TopologyLevel
from admission.engine.nodes.table import Amounts
from queues.plugins.built_in import Pack
from queues.plugins.interface import PlacementPolicy

Columns = NDArray[np.intp]

_PACK: Final = Pack()


@dataclass(frozen=True, slots=True, eq=False)
class DomainQuery:
    """What is asked: pods of one shape, the room for them per node, and how close together they have to be."""

    pods: int
    #: (N,) pods that each node takes.
    room: Amounts
    #: The levels of one topology, outermost first, the host last.
    chain: Sequence[TopologyLevel]
    #: Index of the level to start at: the one that is asked for, or the host.
    level: int
    #: All in one domain of that level, or nothing.
    required: bool = False
    #: Which domain is taken, and whether it is filled evenly.
    placement: PlacementPolicy = _PACK
    #: Evenly over the fewest domains of the level, if one does not hold all.
    balanced: bool = False
    #: Outermost first; ``pods`` is a multiple of the first size, and each size of the next.
    parts: tuple[DomainShare, ...] = ()
    #: (N,) preferred node affinity: the highest first.
    score: Amounts | None = None
    #: (N,) cost of a pod on each node: of otherwise equal nodes the cheapest, before the tightest. None for no costs.
    cost: Amounts | None = None
    #: The cost measures fragmentation only: that a rack is nearly full goes before it.
    cost_is_fragmentation: bool = False
    #: Capacities that were worked out already.
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


def assign_nodes(query: DomainQuery) -> TopologyAssignment | None:
    """Nodes for all pods; None if they do not fit, or not in one domain of the required level."""
    if query.pods == 1 and query.cost is not None and not query.cost_is_fragmentation:
        query = _at_lowest_cost(query)
    best = _best_score(query)
    anywhere = query.placement.evenly and not query.required and query.level == len(query.chain) - 1
    for at in range(-1 if anywhere else query.level, -1, -1):
        room = query.capacity.per_domain(at)
        fitting = np.flatnonzero(room >= query.pods)
        if len(fitting) and query.score is not None:
            scores = best_scores(query, query.score, at)[fitting]
            fitting = fitting[scores >= (int(scores.max()) if query.required else best)]
        if len(fitting):
            domain = _tightest(query, at, room, fitting)
            return _in_topology_order(query, fill_domains(query, at + 1, query.chain[at].members(domain)))
        if query.required:
            return None
    if query.capacity.total() < query.pods:
        return None
    return _in_topology_order(query, fill_domains(query, 0, np.flatnonzero(query.room)))


def _at_lowest_cost(query: DomainQuery) -> DomainQuery:
    """The query for a single pod, which is in one domain of any level: cost decides among all nodes of the level."""
    host, level = len(query.chain) - 1, query.chain[query.level]
    if query.required and (level.of < 0).any():
        return replace(query, level=host, room=query.room * (level.of >= 0), capacities=[])
    return replace(query, level=host)


def _best_score(query: DomainQuery) -> int:
    """The score of the best placement at any distance; a closer one has to reach it too."""
    if query.score is None or query.required or query.capacity.total() < query.pods:
        return 0
    found = fill_domains(query, 0, np.flatnonzero(query.room))
    return int((query.score[found.columns] * found.counts).sum())


def _tightest(query: DomainQuery, at: int, room: Amounts, fitting: NDArray[np.intp]) -> int:
    """The domain to take, of those that hold all pods."""
    if len(fitting) == 1:
        return int(fitting[0])
    at_hosts = at == len(query.chain) - 1
    if query.parts and not query.placement.evenly:  # of those that hold as many whole parts the tightest
        fitting = _least(fitting, room[fitting])
        fitting = _least(fitting, Capacity(query.chain, query.room).per_domain(at)[fitting])
    if at == 0 or query.placement.evenly:
        if at_hosts and query.cost is not None:
            fitting = _least(fitting, query.cost[fitting])
        return int(fitting[query.placement.domain_keys(room[fitting]).argmin()])
    outer = query.chain[at - 1]
    around = outer.of if at_hosts else outer.of[query.chain[at].first()]
    outer_room = np.append(query.capacity.per_domain(at - 1), 0)  # -1, in no outer domain, reads the last one
    if at_hosts:
        if query.cost is not None and not query.cost_is_fragmentation:
            fitting = _least(fitting, query.cost[fitting])
        # What one node holds fills up the rack with the least room, so that others stay empty for gangs.
        fitting = _least(fitting, outer_room[around[fitting]])
        if query.cost is not None:
            fitting = _least(fitting, query.cost[fitting])
    fitting = _least(fitting, room[fitting])
    return int(fitting[outer_room[around[fitting]].argmin()])


def _least(places: NDArray[np.intp], keys: Amounts | NDArray[np.bool_]) -> NDArray[np.intp]:
    least: NDArray[np.intp] = places[keys == keys.min()]
    return least


def _in_topology_order(query: DomainQuery, found: TopologyAssignment) -> TopologyAssignment:
    """In the order of the topology, outermost level first."""
    columns = found.columns
    if len(columns) == 1:
        return found
    if all(level.order is None for level in query.chain):
        order = np.argsort(columns, kind="stable")
    else:
        order = np.lexsort((columns, *(level.of[columns] for level in reversed(query.chain[:-1]))))
    return TopologyAssignment(columns[order], found.counts[order])


def fill_domains(query: DomainQuery, at: int, columns: Columns) -> TopologyAssignment:
    """Level by level as few domains as possible, down to the nodes. The columns have room for all pods."""
    if len(columns) == 1:
        return TopologyAssignment(columns, np.array([query.pods], np.int64))
    parts = tuple(part for part in query.parts if part.at >= at)
    if parts != query.parts:
        query = replace(query, parts=parts)
    if query.balanced and at <= query.level < (parts[0].at if parts else len(query.chain) - 1):
        return _evenly_over(query, at, columns)
    if not parts:
        return _preferred_first(query, at, columns)
    domains = _domains(query, at, columns)
    if parts[0].at == len(query.chain) - 1:  # a host is a domain of its own: nothing is left to choose inside
        hosts, pods = np.array(domains, np.int64).reshape(-1, 2).T
        return TopologyAssignment(hosts.astype(np.intp), pods)
    return _inside(replace(query, parts=parts[1:]), parts[0].at, domains, columns)


def _inside(
    query: DomainQuery, at: int, domains: Iterable[tuple[int, int]], columns: Columns
) -> TopologyAssignment:
    """Fill domains of a level, each with its number of pods."""
    members = query.chain[at].members
    return _joined(
        [
            fill_domains(
                replace(query, pods=pods),
                at + 1,
                np.intersect1d(members(domain), columns, assume_unique=True),
            )
            for domain, pods in domains
        ]
    )


def _domains(query: DomainQuery, at: int, columns: Columns) -> list[tuple[int, int]]:
    """Domains of the outermost part's level, with the pods that each gets: whole parts."""
    part = query.parts[0]
    level = query.chain[part.at]
    here = np.unique(level.of[columns])
    here = here[here >= 0]
    room = query.capacity.per_domain(part.at)[here]
    left = query.pods
    chosen: list[tuple[int, int]] = []
    score = (
        np.zeros(len(here), np.int64)
        if query.score is None
        else best_scores(replace(query, pods=part.size), query.score, part.at)[here]
    )
    for _, mask in by_score(score, room):
        alike, holds = here[mask], room[mask]
        if query.placement.evenly:
            picked, counts = evenly(holds, min(left, int(holds.sum())), part.size)
        elif int(holds.sum()) <= left:
            picked, counts = np.arange(len(alike)), holds
        else:
            near = _narrowed(query, at, part.at, alike, left)
            picked, counts = _filled(query, part.at, holds[near], left, part.size)
            picked = near[picked]
        chosen += zip(alike[picked].tolist(), counts.tolist(), strict=True)
        left -= int(counts.sum())
        if not left:
            break
    return chosen


def _narrowed(query: DomainQuery, at: int, to: int, domains: NDArray[np.intp], pods: int) -> NDArray[np.intp]:
    """Indices of those domains of level ``to`` that lie in the fewest domains of the levels from ``at`` on."""
    first = query.chain[to].first()[domains]
    room = query.capacity.per_domain(to)[domains]
    kept = np.arange(len(domains))
    for index in range(at, to):
        of = query.chain[index].of[first[kept]]
        sums = np.zeros(len(query.chain[index].domains), np.int64)
        np.add.at(sums, of[of >= 0], room[kept][of >= 0])
        if int(sums.sum()) < pods:
            continue  # only together with nodes that lack this label
        chosen = np.zeros(len(sums), np.bool_)
        picked, _ = _filled(query, index, sums, pods, 1)
        chosen[picked] = True
        kept = kept[(of >= 0) & chosen[of]]
    return kept


def _filled(
    query: DomainQuery, index: int, room: Amounts, pods: int, unit: int
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """The fewest domains of a level that hold the pods, and how many each gets: roomiest first, or all alike."""
    cost = query.cost if index == len(query.chain) - 1 and len(room) == len(query.room) else None
    picked = fewest(room, pods, cost)
    counts = room[picked]
    if query.balanced and index == query.level and len(picked) > 1:
        roomiest = np.argsort(-room, kind="stable")[: len(picked)]
        even, counts = evenly(room[roomiest], pods, unit)
        return roomiest[even], counts
    counts[-1] -= int(counts.sum()) - pods
    return picked, counts


def _preferred_first(query: DomainQuery, at: int, columns: Columns) -> TopologyAssignment:
    """Nodes of the highest score first; among equal ones the fewest domains. No parts are left."""
    if query.score is None:
        return _fewest_domains(query, at, columns)
    columns = _close_together(query, query.score, at, columns)
    left = query.pods
    pieces: list[TopologyAssignment] = []
    for _, mask in by_score(query.score[columns], query.room[columns]):
        alike = columns[mask]
        room = query.room[alike]
        if int(room.sum()) > left:
            pieces.append(_fewest_domains(replace(query, pods=left), at, alike))
            break
        pieces.append(TopologyAssignment(alike, room))
        left -= int(room.sum())
        if not left:
            break
    return _joined(pieces)


def _close_together(query: DomainQuery, score: Amounts, at: int, columns: Columns) -> Columns:
    """Of these nodes those in the lowest domain that holds all pods and scores as high as all nodes together."""
    room = np.zeros_like(query.room)
    room[columns] = query.room[columns]
    best, left = 0, query.pods
    for value, nodes in by_score(score, room):
        best += value * min(left, int(room[nodes].sum()))
        left -= min(left, int(room[nodes].sum()))
    for index in range(at, len(query.chain) - 1):
        level = query.chain[index]
        sums = level.sums(room)
        fitting = np.flatnonzero(sums >= query.pods)
        fitting = fitting[
            best_scores(replace(query, room=room, capacities=[]), score, index)[fitting] >= best
        ]
        if not len(fitting):
            break
        room = room * (level.of == fitting[sums[fitting].argmin()])
    kept: Columns = np.flatnonzero(room)
    return kept


def _fewest_domains(query: DomainQuery, at: int, columns: Columns) -> TopologyAssignment:
    if query.placement.evenly:
        picked, counts = evenly(query.room[columns], query.pods, 1)
        return TopologyAssignment(columns[picked], counts)
    host = len(query.chain) - 1
    for index in range(at, host):
        level = query.chain[index]
        of = level.of[columns]
        inside = of >= 0
        sums = np.zeros(len(level.domains), np.int64)
        np.add.at(sums, of[inside], query.room[columns][inside])
        if int(sums.sum()) < query.pods:
            continue  # only together with nodes that lack this label: decided by node
        chosen = np.zeros(len(sums), np.bool_)
        chosen[fewest(sums, query.pods)] = True
        columns = columns[inside & chosen[of]]
    room = query.room[columns]
    if query.balanced and query.level == host:
        picked, counts = _filled(query, host, room, query.pods, 1)
        return TopologyAssignment(columns[picked], counts)
    picked = fewest(room, query.pods, None if query.cost is None else query.cost[columns])
    counts = room[picked]
    counts[-1] -= int(counts.sum()) - query.pods
    return TopologyAssignment(columns[picked], counts)


def _evenly_over(query: DomainQuery, at: int, columns: Columns) -> TopologyAssignment:
    """The fewest domains of the level that is asked for, each with as many pods as the others if it has room."""
    level = query.chain[query.level]
    here = np.unique(level.of[columns])
    here = here[here >= 0]
    room = query.capacity.per_domain(query.level)[here]
    if int(room.sum()) < query.pods:  # only together with nodes that lack this label
        return fill_domains(replace(query, balanced=False), at, columns)
    near = _narrowed(query, at, query.level, here, query.pods)
    unit = query.parts[0].size if query.parts else 1
    picked, counts = _filled(query, query.level, room[near], query.pods, unit)
    domains = zip(here[near[picked]].tolist(), counts.tolist(), strict=True)
    return _inside(replace(query, balanced=False), query.level, domains, columns)


def _joined(pieces: Sequence[TopologyAssignment]) -> TopologyAssignment:
    if len(pieces) == 1:
        return pieces[0]
    return TopologyAssignment(
        np.concatenate([piece.columns for piece in pieces]),
        np.concatenate([piece.counts for piece in pieces]),
    )


def by_score(score: Amounts, room: Amounts) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Each score with a mask of the nodes (or domains) that have it and some room, the highest first."""
    usable = room > 0
    for value in np.unique(score[usable])[::-1].tolist():
        yield value, usable & (score == value)


def best_scores(query: DomainQuery, score: Amounts, at: int) -> Amounts:
    """(D,) the highest score that the pods can reach in each domain of a level; parts aside. ``score``: (N,)."""
    level = query.chain[at]
    left = np.full(len(level.domains), query.pods, np.int64)
    scores = np.zeros(len(level.domains), np.int64)
    for value, nodes in by_score(score, query.room):
        fit = np.minimum(level.sums(query.room * nodes), left)
        scores += value * fit
        left -= fit
    return scores


def fewest(room: Amounts, pods: int, cost: Amounts | None = None) -> NDArray[np.intp]:
    """Indices of the roomiest domains until the rest fits into one; that one is the tightest, and the last index."""
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
    """Indices of domains that get pods, and how many: as equal multiples of the unit as the room allows.

    Roomier domains get what is left over.
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
