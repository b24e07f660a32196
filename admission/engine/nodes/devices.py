"""Devices of nodes one by one, where fractions of one device are given out.

A node that shares its devices has a row of its own for each of them (``queues.resources.device``), 1000 while no pod
has any of it, beside the row of the resource itself, which counts all of them together. A share takes of both. So
everything that keeps amounts (ledger, claims, victims) keeps devices too, and no device is given out twice.

Whole devices are handed out by the node's device plugin, which picks them itself: they are counted, not named. They
need devices of which no pod has a share, and a share that opens a new device needs one that the plugin has not handed
out: ``fresh`` counts these.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from queues.resources import DEVICE_MARK, WHOLE, Resources, device, device_memory, is_device
from queues.workload import DeviceShare

Amounts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Devices:
    """Where the devices of one resource are among the rows of a node table."""

    resource: str
    #: Row of the resource itself.
    total: int
    #: Rows of device 0, 1, 2 …
    rows: NDArray[np.intp]
    #: (N,) MiB of memory of each device; 0: not known.
    memory: Amounts

    def slack(self, free: Amounts) -> Amounts:
        """(N,) what is left of devices of which some pod has a share: whole devices cannot use it."""
        each = free[self.rows]
        return _sum(np.where(each < WHOLE, np.maximum(each, 0), 0))

    def fresh(self, free: Amounts) -> Amounts:
        """(N,) number of devices of which no pod has anything."""
        untouched = _sum(free[self.rows] >= WHOLE)
        fresh: Amounts = np.minimum((free[self.total] - self.slack(free)) // WHOLE, untouched)
        return np.maximum(fresh, 0)

    def part(self, share: DeviceShare) -> Amounts:
        """(N,) thousandths that the share takes of one device of each node; above 1000: it fits on none of them.

        A share given in memory takes the same part of everything else of the device.
        """
        part = np.full(len(self.memory), share.milli, np.int64)
        if share.memory:
            known = np.maximum(self.memory, 1)
            of_memory = np.where(self.memory > 0, -(-share.memory * WHOLE // known), WHOLE + 1)
            part = np.maximum(part, of_memory)
        return np.maximum(part, 1)

    def room(self, free: Amounts, share: DeviceShare) -> Amounts:
        """(N,) how many pods with this share the devices of each node take."""
        part = self.part(share)
        each = free[self.rows]
        slots = np.where((each > 0) & (each < WHOLE), each // part, 0)
        new = WHOLE // part
        fresh = self.fresh(free)
        slots_of_all = _sum(slots) + fresh * new
        if share.devices == 1:
            return slots_of_all
        # The largest number of pods such that no device has to take part in more of them than there are pods.
        low = np.zeros(len(part), np.int64)
        high = slots_of_all // share.devices
        while (low < high).any():
            middle = (low + high + 1) // 2
            parts = _sum(np.minimum(slots, middle)) + fresh * np.minimum(new, middle)
            enough = parts >= share.devices * middle
            low = np.where(enough, middle, low)
            high = np.where(enough, high, middle - 1)
        return low

    def pick(self, free: Amounts, part: int, count: int, wanted: int | None = None) -> list[int]:
        """Indices of ``count`` devices for one pod, on a node with (R,) free: those with least free, then by index.

        ``wanted``: only devices with so many thousandths free; None: any. There must be room.
        """
        each = free[self.rows].tolist()
        fresh = int(self.fresh(free[:, None])[0])
        opened = [index for index, left in enumerate(each) if left >= WHOLE][:fresh]
        begun = sorted((left, index) for index, left in enumerate(each) if part <= left < WHOLE)
        if wanted is not None:
            begun = [(left, index) for left, index in begun if left == wanted]
        return sorted(([index for _, index in begun] + opened)[:count])


def devices_of(resources: Sequence[str], allocatable: Amounts) -> dict[str, Devices]:
    """Resources with devices that are shared on some node, by name. Empty: none are."""
    position = {name: row for row, name in enumerate(resources)}
    shared = sorted({name.partition(DEVICE_MARK)[0] for name in resources if is_device(name)})
    found: dict[str, Devices] = {}
    for resource in shared:
        rows: list[int] = []
        while (row := position.get(device(resource, len(rows)))) is not None:
            rows.append(row)
        total, memory = position.get(resource), position.get(device_memory(resource))
        if total is None or not rows:
            continue
        none = np.zeros(allocatable.shape[1], np.int64)
        found[resource] = Devices(
            resource, total, np.array(rows, np.intp), none if memory is None else allocatable[memory]
        )
    return found


def taken(takes: Resources, share: DeviceShare, part: int, picked: Sequence[int]) -> Resources:
    """What a seat with this part of each of these devices takes."""
    parts = {device(share.resource, index): part for index in picked}
    return Resources({**takes, share.resource: part * len(picked), **parts})


def _sum(each: NDArray[np.int64] | NDArray[np.bool_]) -> Amounts:
    """Over the devices of every node."""
    sums: Amounts = each.sum(axis=0, dtype=np.int64)
    return sums
