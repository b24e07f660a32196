"""What nodes gain from victims: where room can be made, for how many pods, and at what cost.

On each node candidates are taken in their order, the cheapest first, and only those that free something that pods
lack there. Each time one more pod fits there, that is a *step* of that node.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from admission.engine.nodes.host_ports import colliding, own_volumes, volumes_by_driver
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

    Host ports are one more resource: a node has 1, and each pod with a colliding port takes 1. So are the volumes of a
    driver with a limit, as far as only one pod has them.
    """
    seats = arrays.seats_by_node
    seats = seats[chosen[arrays.seats.owners[seats]] & mask[arrays.seats.columns[seats]]]
    room = trial.room_for(pods, mask)
    if pods.ports:
        room = np.minimum(room, 1) * trial.ports.free(pods.ports)
    if pods.attached:
        room = np.minimum(room, trial.ports.attachable(pods.attached))
    return GainsByNode(room, _cheapest_first(_gains(trial, pods, arrays, seats)))


def _gains(trial: Trial, pods: PodSet, arrays: CandidateArrays, seats: Columns) -> NodeGains:
    """Steps of all nodes, node by node. ``seats``: by node, on each in the order in which they are taken."""
    asked, freed, free = _amounts(trial, pods, arrays, seats)
    begins, node_of = _by_node(arrays.seats.columns[seats])
    if len(asked) and len(seats):
        # What would be enough for all pods that could ever fit is never lacked: seats that free nothing else stay.
        most = (free[:, begins] + np.add.reduceat(freed, begins, axis=1)) // asked
        lacking = free[:, begins] < asked * np.maximum(0, most.min(axis=0))
        lacking[_of_devices(trial, pods, len(asked))] = True
        useful = ((freed > 0) & lacking[:, node_of]).any(axis=0)
        seats, freed, free = seats[useful], freed[:, useful], free[:, useful]
    if not len(asked) or not len(seats):
        nowhere, none = np.zeros(0, np.intp), np.zeros(0, np.int64)
        return NodeGains(nowhere, none, none, nowhere, nowhere, nowhere)
    columns, owners = arrays.seats.columns[seats], arrays.seats.owners[seats]
    costs = arrays.cost_per_pod[owners]
    begins, node_of = _by_node(columns)
    freed_before = np.cumsum(freed, axis=1) - freed
    free = free + freed_before - freed_before[:, begins][:, node_of]
    fits = np.maximum(0, ((free + freed) // asked).min(axis=0))
    fits_before = np.roll(fits, 1)
    fits_before[begins] = np.maximum(0, (free[:, begins] // asked).min(axis=0))
    if trial.device_rows(pods):
        none_freed = fits_before[begins]
        fits = np.minimum(fits, _fits_on_devices(trial, pods, arrays, seats, begins))
        fits_before = np.roll(fits, 1)
        now = trial.room_on(trial.free[:, columns[begins]], pods, columns[begins])
        fits_before[begins] = np.minimum(none_freed, now)
    last = np.flatnonzero(fits > fits_before)
    follows = np.concatenate(([False], node_of[last[1:]] == node_of[last[:-1]]))[: len(last)]
    start = np.where(follows, np.roll(last, 1) + 1, begins[node_of[last]])
    paid = np.cumsum(costs)
    return NodeGains(
        columns[last],
        (fits - fits_before)[last],
        paid[last] - paid[start] + costs[start],
        start,
        last + 1,
        owners,
    )


def _of_devices(trial: Trial, pods: PodSet, asked: int) -> Mask:
    """(r,) True for devices among what is asked: their sum does not say which single ones are lacked."""
    rows = np.flatnonzero(trial.vector(pods.takes))
    return np.isin(np.pad(rows, (0, asked - len(rows)), constant_values=-1), trial.device_rows(pods))


def _fits_on_devices(
    trial: Trial, pods: PodSet, arrays: CandidateArrays, seats: Columns, begins: Columns
) -> Amounts:
    """(s,) pods that the single devices of a node take when seats up to this one are free."""
    columns, takes = arrays.seats.columns[seats], arrays.seats.takes[:, seats]
    first = np.zeros(len(seats), np.intp)
    first[begins] = begins
    first = np.maximum.accumulate(first)
    freed = np.cumsum(takes, axis=1)
    free = trial.free[:, columns] + freed - (freed - takes)[:, first]
    return trial.room_on(free, pods, columns)


def _amounts(
    trial: Trial, pods: PodSet, arrays: CandidateArrays, seats: Columns
) -> tuple[Amounts, Amounts, Amounts]:
    """What a pod takes (r, 1), what seats free, and what is free now (r, s): by resource, of host ports, and of volumes
    by driver."""
    request = trial.vector(pods.takes)
    rows = np.flatnonzero(request)
    columns = arrays.seats.columns[seats]
    asked, freed, free = (
        request[rows, None],
        arrays.seats.takes[np.ix_(rows, seats)],
        trial.free[np.ix_(rows, columns)],
    )
    if not pods.has_node_limits:
        return asked, freed, free
    more: list[tuple[int, Sequence[int], Sequence[int]]] = []
    held = [arrays.seats.ports.get(seat, ()) for seat in seats.tolist()]
    if pods.ports:
        left = [1 - trial.ports.holders(pods.ports, column) for column in columns.tolist()]
        more.append((1, [colliding(pods.ports, ports) for ports in held], left))
    for driver, own in own_volumes(pods.attached).items():
        if own and driver in trial.ports.limits:
            detached = [volumes_by_driver(ports)[driver] for ports in held]
            more.append((own, detached, trial.ports.volumes_left(driver)[columns].tolist()))
    if not more:
        return asked, freed, free
    return (
        np.concatenate((asked, np.array([[each] for each, _, _ in more], np.int64))),
        np.concatenate((freed, np.array([each for _, each, _ in more], np.int64))),
        np.concatenate((free, np.array([each for _, _, each in more], np.int64))),
    )


def _by_node(columns: Columns) -> tuple[Columns, Columns]:
    """Where the seats of each node begin; (s,) number of the node of each seat."""
    first = np.concatenate(([True], columns[1:] != columns[:-1]))[: len(columns)]
    return np.flatnonzero(first), np.cumsum(first) - 1


def _cheapest_first(found: NodeGains) -> NodeGains:
    """The next step is always the cheapest per pod of those that are next on their nodes."""
    if not len(found):
        return found
    steps = np.arange(len(found))
    # Inside a node the steps lie in order already, so the rank says which comes first.
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
