"""What nodes gain from victims: where room can be made, for how many pods, and at what cost.

On each node candidates are taken in their order, the cheapest first, and only those that free something that the
next pod lacks. Each time one more pod fits there, that is a *step* of that node.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from admission.engine.nodes.host_ports import colliding
from admission.engine.nodes.levels import TopologyLevel
from admission.engine.nodes.table import Amounts, Mask
from admission.engine.preemption.candidate_arrays import CandidateArrays, CandidateMask
from admission.engine.trial import Columns, Trial
from queues.workload import PodSet

#: So many domains are tried, the cheapest first by estimate.
_DOMAINS_TRIED = 4


@dataclass(slots=True, eq=False)
class NodeGains:
    """Steps to more room, each on one node, after the steps before it there. Arrays have one entry for each step."""

    columns: Columns
    #: Pods that fit more.
    pods: Amounts
    costs: Amounts
    #: The victims of step i are ``candidates[begins[i]:ends[i]]``, indices in ``CandidateArrays.candidates``.
    begins: Columns
    ends: Columns
    candidates: Columns

    def __len__(self) -> int:
        return len(self.columns)

    def only(self, which: CandidateMask | Columns) -> "NodeGains":
        """Some of these steps, in that order: of a node all or none."""
        return NodeGains(
            self.columns[which],
            self.pods[which],
            self.costs[which],
            self.begins[which],
            self.ends[which],
            self.candidates,
        )

    def within(self, chosen: CandidateMask) -> CandidateMask:
        """Mask of the steps that have all their victims among these."""
        others = np.concatenate(([0], np.cumsum(~chosen[self.candidates])))
        return np.asarray(others[self.ends] == others[self.begins])


@dataclass(slots=True, eq=False)
class GainsByNode:
    """Room for pods of one shape, now and after evictions."""

    #: (N,) pods that fit now.
    room: Amounts
    #: Cheapest per pod first; those of one node in their order.
    gains: NodeGains


class DomainGains(NamedTuple):
    """Room for pods of one shape in one domain."""

    #: Pods that fit now.
    room: int
    gains: NodeGains


def gains_by_node(
    trial: Trial, pods: PodSet, mask: Mask, arrays: CandidateArrays, chosen: CandidateMask
) -> GainsByNode:
    """Room on the nodes of a mask, and what evicting these candidates, in their order, adds to it.

    Host ports are one more resource: a node has 1, and each pod with a colliding port takes 1.
    """
    seats = arrays.seats_by_node
    seats = seats[chosen[arrays.seats.owners[seats]] & mask[arrays.seats.columns[seats]]]
    room = trial.pods_per_node(pods.takes, mask)
    if pods.ports:
        room = np.minimum(room, 1) * trial.ports.free(pods.ports)
        return GainsByNode(room, _cheapest_first(_gains_one_by_one(trial, pods, arrays, seats)))
    return GainsByNode(room, _cheapest_first(_gains(trial, pods, arrays, seats)))


def _gains(trial: Trial, pods: PodSet, arrays: CandidateArrays, seats: Columns) -> NodeGains:
    """Steps of all nodes together, as ``_gains_one_by_one`` finds them.

    Nodes on which some candidate frees nothing that is lacking are left to that function.
    """
    request = trial.vector(pods.takes)
    rows = np.flatnonzero(request)
    if not len(rows) or not len(seats):
        return _to_arrays([])
    columns, asked = arrays.seats.columns[seats], request[rows, None]
    costs = arrays.cost_per_pod[arrays.seats.owners[seats]]
    freed = arrays.seats.takes[np.ix_(rows, seats)]
    first = np.concatenate(([True], columns[1:] != columns[:-1]))
    begins, node_of = np.flatnonzero(first), np.cumsum(first) - 1
    freed_before = np.cumsum(freed, axis=1) - freed
    free = trial.free[np.ix_(rows, columns)] + freed_before - freed_before[:, begins][:, node_of]
    fits = np.maximum(0, ((free + freed) // asked).min(axis=0))
    fits_before = np.where(first, np.maximum(0, (free // asked).min(axis=0)), np.roll(fits, 1))
    useless = ~((freed > 0) & (free < asked * (fits_before + 1))).any(axis=0)
    has_useless = np.zeros(len(begins), np.bool_)
    has_useless[node_of[useless]] = True
    last = np.flatnonzero((fits > fits_before) & ~has_useless[node_of])
    follows = np.concatenate(([False], node_of[last[1:]] == node_of[last[:-1]]))[: len(last)]
    start = np.where(follows, np.roll(last, 1) + 1, begins[node_of[last]])
    paid = np.cumsum(costs)
    found = NodeGains(
        columns[last],
        (fits - fits_before)[last],
        paid[last] - paid[start] + costs[start],
        start,
        last + 1,
        arrays.seats.owners[seats],
    )
    if not has_useless.any():
        return found
    return _joined(found, _gains_one_by_one(trial, pods, arrays, seats[has_useless[node_of]]))


class _FreedSeat(NamedTuple):
    """What one candidate frees on a node."""

    candidate: int
    #: By resource that is asked, and at last host ports, if any are.
    freed: list[int]
    cost: int


class _Step(NamedTuple):
    column: int
    pods: int
    cost: int
    candidates: list[int]


def _gains_one_by_one(trial: Trial, pods: PodSet, arrays: CandidateArrays, seats: Columns) -> NodeGains:
    request = trial.vector(pods.takes)
    rows = np.flatnonzero(request).tolist()
    asked = [int(request[row]) for row in rows]
    on_node: dict[int, list[_FreedSeat]] = {}
    for seat in seats.tolist():
        candidate, freed = int(arrays.seats.owners[seat]), arrays.seats.takes[rows, seat].tolist()
        if pods.ports:
            freed.append(colliding(pods.ports, arrays.seats.ports.get(seat, ())))
        on_node.setdefault(int(arrays.seats.columns[seat]), []).append(
            _FreedSeat(candidate, freed, int(arrays.cost_per_pod[candidate]))
        )
    if pods.ports:
        asked.append(1)
    steps: list[_Step] = []
    for column, freed_seats in on_node.items():
        free = trial.free[rows, column].tolist()
        if pods.ports:
            free.append(1 - trial.ports.holders(pods.ports, column))
        steps += _steps(column, free, asked, freed_seats)
    return _to_arrays(steps)


def _steps(
    column: int, free: list[int], asked: list[int], freed_seats: Sequence[_FreedSeat]
) -> Iterator[_Step]:
    """Steps of one node. ``free`` and ``asked``: by resource, as in ``_FreedSeat``."""
    fit = _fit(free, asked)
    cost, candidates = 0, list[int]()
    for seat in freed_seats:
        lacks = [have < want * (fit + 1) for have, want in zip(free, asked, strict=True)]
        if not any(more and lack for more, lack in zip(seat.freed, lacks, strict=True)):
            continue
        free = [have + more for have, more in zip(free, seat.freed, strict=True)]
        cost += seat.cost
        candidates.append(seat.candidate)
        now = _fit(free, asked)
        if now > fit:
            yield _Step(column, now - fit, cost, candidates)
            fit, cost, candidates = now, 0, []


def _fit(free: Sequence[int], asked: Sequence[int]) -> int:
    """Pods that fit a node; 0 where nothing is asked."""
    return max(0, min((have // want for have, want in zip(free, asked, strict=True)), default=0))


def _to_arrays(steps: Sequence[_Step]) -> NodeGains:
    columns = np.array([step.column for step in steps], np.intp)
    pods = np.array([step.pods for step in steps], np.int64)
    costs = np.array([step.cost for step in steps], np.int64)
    ends = np.cumsum([len(step.candidates) for step in steps], dtype=np.intp)
    begins = np.concatenate((np.zeros(1, np.intp), ends))[: len(ends)]
    candidates = np.array([candidate for step in steps for candidate in step.candidates], np.intp)
    return NodeGains(columns, pods, costs, begins, ends, candidates)


def _joined(some: NodeGains, others: NodeGains) -> NodeGains:
    offset = len(some.candidates)
    return NodeGains(
        np.concatenate((some.columns, others.columns)),
        np.concatenate((some.pods, others.pods)),
        np.concatenate((some.costs, others.costs)),
        np.concatenate((some.begins, others.begins + offset)),
        np.concatenate((some.ends, others.ends + offset)),
        np.concatenate((some.candidates, others.candidates)),
    )


def _cheapest_first(found: NodeGains) -> NodeGains:
    """The next step is always the cheapest per pod of those that are next on their nodes."""
    if not len(found):
        return found
    steps = np.arange(len(found))
    # Inside a node the steps lie in order already, so the rank tells which comes first.
    rank = np.empty(len(found), np.intp)
    rank[np.lexsort((steps, found.columns, -found.pods, found.costs // found.pods))] = steps
    first = np.concatenate(([True], found.columns[1:] != found.columns[:-1]))
    # A step waits for those before it on its node: it has the last rank of them all.
    offset = (np.cumsum(first) - 1) * len(found)
    rank = np.maximum.accumulate(rank + offset) - offset
    return found.only(np.lexsort((steps, rank)))


def gains_by_domain(trial: Trial, pods: PodSet, count: int, found: GainsByNode) -> Iterator[DomainGains]:
    """Room in each domain that could hold so many pods, the cheapest domain first by estimate.

    Only the cheapest few of a required or preferred level. Without such a level, or when no domain of the preferred
    one will do, the whole cluster is one domain.
    """
    key = pods.required_topology or pods.preferred_topology
    level = trial.layout.level(key) if key and key in trial.layout.levels else None
    if level is not None:
        room, of = level.sums(found.room), level.of[found.gains.columns]
        for domain in _cheapest_domains(found.gains, level, count - room):
            yield DomainGains(int(room[domain]), found.gains.only(of == domain))
    if level is None or not pods.required_topology:
        yield DomainGains(int(found.room.sum()), found.gains)


def _cheapest_domains(gains: NodeGains, level: TopologyLevel, short: Amounts) -> list[int]:
    """Domains (D,) with steps that make room for as many pods as are short there, the cheapest first."""
    of = level.of[gains.columns]
    steps = np.flatnonzero(of >= 0)
    steps = steps[np.argsort(of[steps], kind="stable")]
    of, pods, costs = of[steps], gains.pods[steps], gains.costs[steps]
    every = np.zeros(len(short), np.int64)
    np.add.at(every, of, pods)
    before = np.cumsum(pods) - pods
    first = np.concatenate(([True], of[1:] != of[:-1])) if len(of) else np.zeros(0, np.bool_)
    before -= before[np.flatnonzero(first)][np.cumsum(first) - 1]
    cost = np.zeros(len(short), np.int64)
    np.add.at(cost, of, costs * (before < short[of]))
    possible = np.flatnonzero(every >= short)
    cheapest: list[int] = possible[np.lexsort((possible, cost[possible]))][:_DOMAINS_TRIED].tolist()
    return cheapest
