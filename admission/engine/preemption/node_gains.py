"""Where room can be made, and what it costs there: per node, what taking units in their order adds to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine.nodes.host_ports import colliding
from admission.engine.nodes.levels import TopologyLevel
from admission.engine.nodes.table import Amounts, Mask
from admission.engine.preemption.candidate_arrays import CandidateArrays, CandidateMask
from admission.engine.trial import Columns, Trial
from queues.workload import PodSet

#: So many domains are tried, cheapest first by estimate.
_DOMAINS_TRIED = 4


@dataclass(slots=True, eq=False)
class NodeGains:
    """Steps to more room: each on one node, by taking some units after those of the steps before it there.

    The cheapest per pod first; those of one node in their order. ``units[begins[i]:ends[i]]`` go for step i.
    """

    columns: Columns
    pods: Amounts
    costs: Amounts
    begins: Columns
    ends: Columns
    #: Indices in the roll.
    units: Columns

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
            self.units,
        )

    def possible(self, chosen: CandidateMask) -> CandidateMask:
        """Steps all of whose units are among these."""
        against = np.concatenate(([0], np.cumsum(~chosen[self.units])))
        return np.asarray(against[self.ends] == against[self.begins])


@dataclass(slots=True, eq=False)
class GainsByNode:
    """What could be gained where, for pods of one shape."""

    #: (N,) pods that fit now.
    room: Amounts
    gains: NodeGains


def sites(
    trial: Trial, pods: PodSet, mask: Mask, roll: CandidateArrays, chosen: CandidateMask
) -> GainsByNode:
    """Room per node, and what taking these units, in their order, adds to it.

    Host ports are one more resource: a node has 1, and each pod that stands in the way takes 1.
    """
    seats = roll.by_node
    seats = seats[chosen[roll.owners[seats]] & mask[roll.columns[seats]]]
    room = trial.pods_per_node(pods.takes, mask)
    if pods.ports:
        room = np.minimum(room, 1) * trial.ports.free(pods.ports)
        return GainsByNode(room, _in_order(_one_by_one(trial, pods, roll, seats)))
    return GainsByNode(room, _in_order(_at_once(trial, pods, roll, seats)))


def _at_once(trial: Trial, pods: PodSet, roll: CandidateArrays, seats: Columns) -> NodeGains:
    """Steps of all nodes together; only those where some unit gives nothing that lacks are gone through singly."""
    request = trial.vector(pods.takes)
    rows = np.flatnonzero(request)
    if not len(rows) or not len(seats):
        return _gains([])
    columns, asked, prices = roll.columns[seats], request[rows, None], roll.price[roll.owners[seats]]
    given = roll.takes[np.ix_(rows, seats)]
    first = np.concatenate(([True], columns[1:] != columns[:-1]))
    begins, of_node = np.flatnonzero(first), np.cumsum(first) - 1
    earlier = np.cumsum(given, axis=1) - given
    left = trial.free[np.ix_(rows, columns)] + earlier - earlier[:, begins][:, of_node]
    fits = np.maximum(0, ((left + given) // asked).min(axis=0))
    fitted = np.where(first, np.maximum(0, (left // asked).min(axis=0)), np.roll(fits, 1))
    useless = ~((given > 0) & (left < asked * (fitted + 1))).any(axis=0)
    odd = np.zeros(len(begins), np.bool_)
    odd[of_node[useless]] = True
    last = np.flatnonzero((fits > fitted) & ~odd[of_node])
    follows = np.concatenate(([False], of_node[last[1:]] == of_node[last[:-1]]))[: len(last)]
    start = np.where(follows, np.roll(last, 1) + 1, begins[of_node[last]])
    paid = np.cumsum(prices)
    cost = paid[last] - paid[start] + prices[start]
    found = NodeGains(columns[last], (fits - fitted)[last], cost, start, last + 1, roll.owners[seats])
    return _joined(found, _one_by_one(trial, pods, roll, seats[odd[of_node]])) if odd.any() else found


#: A unit, what it gives back on a node, and what that costs.
_Going = tuple[int, list[int], int]

#: Column, pods, cost, units.
_Step = tuple[int, int, int, list[int]]


def _one_by_one(trial: Trial, pods: PodSet, roll: CandidateArrays, seats: Columns) -> NodeGains:
    request = trial.vector(pods.takes)
    rows = np.flatnonzero(request).tolist()
    asked = [int(request[row]) for row in rows]
    on_node: dict[int, list[_Going]] = {}
    for seat in seats.tolist():
        unit, given = int(roll.owners[seat]), roll.takes[rows, seat].tolist()
        if pods.ports:
            given.append(colliding(pods.ports, roll.ports.get(seat, ())))
        on_node.setdefault(int(roll.columns[seat]), []).append((unit, given, int(roll.price[unit])))
    if pods.ports:
        asked.append(1)
    steps: list[_Step] = []
    for column, there in on_node.items():
        left = trial.free[rows, column].tolist()
        if pods.ports:
            left.append(1 - trial.ports.holders(pods.ports, column))
        steps += ((column, *step) for step in _steps(left, asked, there))
    return _gains(steps)


def _steps(
    left: list[int], asked: list[int], there: Sequence[_Going]
) -> Iterator[tuple[int, int, list[int]]]:
    fit = max(0, min(have // want for have, want in zip(left, asked, strict=True))) if asked else 0
    cost, since = 0, []
    for unit, given, price in there:
        short = [have < want * (fit + 1) for have, want in zip(left, asked, strict=True)]
        if not any(more and lacks for more, lacks in zip(given, short, strict=True)):
            continue
        left = [have + more for have, more in zip(left, given, strict=True)]
        cost += price
        since.append(unit)
        now = max(0, min(have // want for have, want in zip(left, asked, strict=True)))
        if now > fit:
            yield now - fit, cost, since
            fit, cost, since = now, 0, []


def _gains(steps: Sequence[_Step]) -> NodeGains:
    columns, pods, costs = (np.array([step[i] for step in steps], np.int64) for i in range(3))
    ends = np.cumsum([len(step[3]) for step in steps], dtype=np.intp)
    begins = np.concatenate((np.zeros(1, np.intp), ends))[: len(ends)]
    return NodeGains(
        columns, pods, costs, begins, ends, np.array([unit for step in steps for unit in step[3]], np.intp)
    )


def _joined(some: NodeGains, others: NodeGains) -> NodeGains:
    offset = len(some.units)
    return NodeGains(
        np.concatenate((some.columns, others.columns)),
        np.concatenate((some.pods, others.pods)),
        np.concatenate((some.costs, others.costs)),
        np.concatenate((some.begins, others.begins + offset)),
        np.concatenate((some.ends, others.ends + offset)),
        np.concatenate((some.units, others.units)),
    )


def _in_order(found: NodeGains) -> NodeGains:
    """The next step is always the cheapest per pod of those that are next on their nodes."""
    if not len(found):
        return found
    steps = np.arange(len(found))
    # Inside a node they lie in order already, so the place says which comes first.
    place = np.empty(len(found), np.intp)
    place[np.lexsort((steps, found.columns, -found.pods, found.costs // found.pods))] = steps
    first = np.concatenate(([True], found.columns[1:] != found.columns[:-1]))
    # A step waits for those before it on its node: it has the last place of them all.
    offset = (np.cumsum(first) - 1) * len(found)
    place = np.maximum.accumulate(place + offset) - offset
    return found.only(np.lexsort((steps, place)))


def domains(trial: Trial, pods: PodSet, count: int, found: GainsByNode) -> Iterator[tuple[NodeGains, int]]:
    """Steps in each domain that could hold all pods, and how many fit there now; the cheapest first by estimate.

    Of a level that is required or preferred the cheapest few; without one, or if none of the preferred level will
    do, everywhere.
    """
    known = trial.layout.chain(pods.required_topology or pods.preferred_topology)
    if known is None or not (pods.required_topology or pods.preferred_topology):
        yield found.gains, int(found.room.sum())
        return
    level = known[0][known[1]]
    free, of = level.sums(found.room), level.of[found.gains.columns]
    for domain in _cheapest(found.gains, level, count - free):
        yield found.gains.only(of == domain), int(free[domain])
    if not pods.required_topology:
        yield found.gains, int(found.room.sum())


def _cheapest(gains: NodeGains, level: TopologyLevel, short: Amounts) -> list[int]:
    """Domains where steps make room for as many pods as are short there, the cheapest first."""
    of = level.of[gains.columns]
    steps = np.flatnonzero(of >= 0)
    steps = steps[np.argsort(of[steps], kind="stable")]
    of, pods, costs = of[steps], gains.pods[steps], gains.costs[steps]
    every = np.zeros(len(short), np.int64)
    np.add.at(every, of, pods)
    before = np.cumsum(pods) - pods
    first = np.concatenate(([True], of[1:] != of[:-1])) if len(of) else np.zeros(0, np.bool_)
    before -= before[np.flatnonzero(first)][np.cumsum(first) - 1]
    price = np.zeros(len(short), np.int64)
    np.add.at(price, of, costs * (before < short[of]))
    possible = np.flatnonzero(every >= short)
    cheapest: list[int] = possible[np.lexsort((possible, price[possible]))][:_DOMAINS_TRIED].tolist()
    return cheapest
