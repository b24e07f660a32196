"""Seats on the nodes that were chosen: which devices each pod gets there, and what the queue is charged.

A pod with parts of devices gets those with least left; a pod with whole devices those that are linked best, where the
node gives them out by number. Other devices are only counted.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import numpy as np

from admission.engine.nodes.devices import taken, with_numbers
from admission.engine.nodes.table import Amounts, Layout
from admission.engine.placement.domain_search import TopologyAssignment
from admission.engine.placement.domains import NodeScope, PodSetRequest
from admission.engine.trial import Trial
from queues.admissions import Seat
from queues.quota.accounts import Account, charges, flavor_charges, pod_charges
from queues.quota.usage import LimitHit
from queues.resources import WHOLE, Resources
from queues.workload import FlavorName, PodSet

#: Devices of any amount left.
_ANY: Final = None


def seats_on_nodes(
    scope: NodeScope, request: PodSetRequest, found: TopologyAssignment
) -> list[Seat] | LimitHit:
    """Seats of pods without parts of devices on these nodes, taken in the trial; or the limit that they would break."""
    trial, pods, layout = scope.trial, request.pods, scope.trial.layout
    charged = _charged_to(layout, found, pods)
    hit = trial.usage.refusal(scope.queue, charged)
    if hit is not None:
        return hit
    if trial.devices and trial.names_devices(pods.takes, found.columns):
        return _by_number(scope, request, found, charged)
    trial.take(found.columns, found.counts, pods.takes, scope.queue, charged, pods.occupies)
    return [
        layout.seat(column, pods.name, ordinal, pods.takes)
        for ordinal, column in zip(request.ordinals, found.node_per_pod(), strict=True)
    ]


def seats_on_devices(
    scope: NodeScope, request: PodSetRequest, found: TopologyAssignment, free: int | None = _ANY
) -> list[Seat] | LimitHit:
    """The same for pods with parts of devices.

    ``free``: only of devices with so many thousandths free; None for any.
    """
    trial, pods, share = scope.trial, request.pods, request.pods.share
    assert share is not None
    devices = trial.devices[share.resource]
    part = devices.part(share)
    seats, left = list[Seat](), _Left(trial, found)
    for index, column, ordinal in left.places(request):
        picked = devices.pick(left.free[:, index], column, share, free)
        seats.append(left.seat(index, pods, ordinal, taken(pods.takes, share, int(part[column]), picked)))
    charged = charges(seats)
    hit = trial.usage.refusal(scope.queue, charged)
    if hit is not None:
        return hit
    trial.take(
        found.columns, found.counts, pods.takes, scope.queue, charged, pods.occupies, exactly=left.taken()
    )
    return seats


def _by_number(
    scope: NodeScope, request: PodSetRequest, found: TopologyAssignment, charged: Mapping[Account, int]
) -> list[Seat]:
    """Seats with whole devices that are given out by number on some of the nodes."""
    trial, pods = scope.trial, request.pods
    seats, left = list[Seat](), _Left(trial, found)
    for index, column, ordinal in left.places(request):
        takes = numbered_takes(trial, left.free[:, index], column, pods)
        seats.append(left.seat(index, pods, ordinal, takes))
    trial.take(
        found.columns, found.counts, pods.takes, scope.queue, charged, pods.occupies, exactly=left.taken()
    )
    return seats


def numbered_takes(trial: Trial, free: Amounts, column: int, pods: PodSet) -> Resources:
    """What one pod takes of a node with (R,) free, with the numbers of the whole devices that it gets there."""
    takes = pods.takes
    for resource, devices in trial.devices.items():
        if pods.takes.get(resource):
            count = -(-pods.takes.get(resource) // WHOLE)
            takes = with_numbers(takes, resource, devices.pick_whole(free, column, count, pods.in_one_island))
    return takes


class _Left:
    """What is left of the nodes of an assignment while their pods get devices, one after another."""

    def __init__(self, trial: Trial, found: TopologyAssignment) -> None:
        self._trial, self._found = trial, found
        self._before = trial.free[:, found.columns]
        #: (R, n)
        self.free = self._before.copy()

    def places(self, request: PodSetRequest) -> list[tuple[int, int, int]]:
        """Of each pod the index of its node in the assignment, its column, and the pod's ordinal."""
        columns = self._found.columns.tolist()
        indices = np.repeat(np.arange(len(columns)), self._found.counts).tolist()
        return [
            (index, columns[index], ordinal) for index, ordinal in zip(indices, request.ordinals, strict=True)
        ]

    def seat(self, index: int, pods: PodSet, ordinal: int, takes: Resources) -> Seat:
        """A seat on that node, which takes this of it."""
        self.free[:, index] -= self._trial.vector(takes)
        return self._trial.layout.seat(int(self._found.columns[index]), pods.name, ordinal, takes)

    def taken(self) -> Amounts:
        """(R, n) what all of them take."""
        return self._before - self.free


def _charged_to(layout: Layout, found: TopologyAssignment, pods: PodSet) -> Mapping[Account, int]:
    """What pods on these nodes are charged, by the flavors of the nodes."""
    counts = Counter[FlavorName]()
    for column, number in zip(found.columns.tolist(), found.counts.tolist(), strict=True):
        counts[layout.flavors[column]] += number
    if len(counts) == 1:
        return pod_charges(pods.takes, *next(iter(counts.items())))
    return flavor_charges({flavor: pods.takes * number for flavor, number in counts.items()})
