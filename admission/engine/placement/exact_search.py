"""A gang of several pod sets whose sums fit, and which one set after another finds no place: all places are tried.

Placing one set after another is quick and nearly always finds a place where there is one. Where it does not, a gang
would wait for ever next to free nodes. Exact within a bound of steps, for pods without further wishes.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from admission.engine.nodes.table import Mask
from admission.engine.placement.domains import NodeScope, PodSetRequest
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.quota.accounts import flavor_charges
from queues.workload import NO_FLAVOR, PodSet, Workload

#: Steps of one search; pods of a gang, and nodes with room, that are searched at all.
_STEPS: Final = 1000
_MOST_PODS: Final = 64
_MOST_NODES: Final = 64

Free = tuple[int, ...]


class _Node(NamedTuple):
    """What is free of a node, and which of the sets it takes. Nodes that are equal here are tried once."""

    free: Free
    takes_sets: tuple[bool, ...]
    column: int


def exact_seats(
    workload: Workload, groups: Sequence[Sequence[PodSetRequest]], trial: Trial, inside: Mask | None
) -> list[Seat]:
    """Seats for all groups, taken in the trial. Empty: there is no place for them, or none was found."""
    requests = [request for group in groups for request in group]
    count = sum(len(request.ordinals) for request in requests)
    if len(groups) != len(requests) or count > _MOST_PODS or trial.tree.flavors(workload.queue):
        return []
    if not all(_is_plain(request.pods, trial) for request in requests):
        return []
    usable = trial.layout.usable if inside is None else inside
    masks = [NodeScope(trial, workload, usable).usable(request.pods) for request in requests]
    vectors = [trial.vector(request.pods.takes) for request in requests]
    rows = np.flatnonzero(np.sum(vectors, axis=0))
    fits = [
        mask & (trial.free[rows] >= vector[rows, None]).all(axis=0)
        for mask, vector in zip(masks, vectors, strict=True)
    ]
    columns = np.flatnonzero(np.logical_or.reduce(fits))
    if not 0 < len(columns) <= _MOST_NODES:
        return []
    nodes = [
        _Node(tuple(trial.free[rows, column].tolist()), tuple(bool(mask[column]) for mask in masks), column)
        for column in columns.tolist()
    ]
    asks = [tuple(vector[rows].tolist()) for vector in vectors]
    room = [int(fit.sum()) for fit in fits]
    order = sorted(range(len(requests)), key=lambda index: (room[index], [-units for units in asks[index]]))
    pods = [index for index in order for _ in requests[index].ordinals]
    chosen = _Search(pods, asks).place(nodes)
    return [] if chosen is None else _take(workload, requests, pods, chosen, trial)


def _is_plain(pods: PodSet, trial: Trial) -> bool:
    """Whether amounts and node filters alone decide where pods of a set may be."""
    wishes = (pods.required_topology, pods.preferred_topology, pods.together, pods.within)
    if any(each is not None for each in wishes) or pods.partitions or pods.in_one_island:
        return False
    if pods.has_node_limits or pods.rules or pods.counted or pods.kept_from:
        return False
    return not (pods.needs_single_devices() or trial.device_rows(pods))


class _Search:
    """Pods one after another, each on every node that differs from those tried, until all have one."""

    def __init__(self, pods: Sequence[int], asks: Sequence[Free]) -> None:
        """``pods``: the set of each; ``asks``: what a pod of each set takes."""
        self._pods = pods
        self._asks = asks
        self._steps = 0
        self._failed: set[tuple[int, tuple[tuple[Free, tuple[bool, ...]], ...]]] = set()

    def place(self, nodes: Sequence[_Node], first: int = 0) -> list[int] | None:
        """The columns of the pods from ``first`` on. None if they have no place, or if the search took too long."""
        if first == len(self._pods):
            return []
        state = (first, tuple(sorted((node.free, node.takes_sets) for node in nodes)))
        if state in self._failed or self._steps >= _STEPS:
            return None
        self._steps += 1
        index = self._pods[first]
        tried = set[tuple[Free, tuple[bool, ...]]]()
        for number, node in sorted(enumerate(nodes), key=lambda each: each[1].free):
            left = tuple(free - units for free, units in zip(node.free, self._asks[index], strict=True))
            kind = (node.free, node.takes_sets)
            if not node.takes_sets[index] or kind in tried or min(left) < 0:
                continue
            tried.add(kind)
            after = [*nodes[:number], node._replace(free=left), *nodes[number + 1 :]]
            rest = self.place(after, first + 1)
            if rest is not None:
                return [node.column, *rest]
        self._failed.add(state)
        return None


def _take(
    workload: Workload,
    requests: Sequence[PodSetRequest],
    pods: Sequence[int],
    chosen: Sequence[int],
    trial: Trial,
) -> list[Seat]:
    """Take these columns for the pods, in the order of the nodes for each set."""
    seats: list[Seat] = []
    for index, request in enumerate(requests):
        takes = request.pods.takes
        columns = sorted(column for of, column in zip(pods, chosen, strict=True) if of == index)
        nodes, counts = np.unique(np.array(columns, np.intp), return_counts=True)
        charged = flavor_charges({NO_FLAVOR: takes * len(columns)})
        trial.take(nodes, counts, takes, workload.queue, charged)
        seats += [
            trial.layout.seat(column, request.pods.name, ordinal, takes)
            for ordinal, column in zip(request.ordinals, columns, strict=True)
        ]
    return sorted(seats, key=lambda each: (each.pod_set, each.ordinal))
