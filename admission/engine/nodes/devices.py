"""Devices of nodes one by one: where fractions of one device are given out, and where not all devices are linked alike.

Such a node has a row of its own for each of its devices (``queues.resources.device``), 1000 while no pod has any of it,
besides the row of the resource itself, which counts all of them together. A share takes of both. So everything that
keeps amounts (ledger, claims, victims) keeps devices too, and no device is given out twice.

Of nodes with several islands of NVLinks (``device_links``) whole devices are given out by number: a pod takes of both
rows. Of other nodes they are handed out by the device plugin, which picks them itself: there they are counted, not
named. They need devices without a share of any pod, and a share that opens a new device needs one that the plugin has
not handed out: ``fresh`` counts these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.device_links import DeviceLinks, best_linked
from queues.resources import DEVICE_MARK, WHOLE, Resources, device, device_memory, is_device
from queues.workload import DeviceShare

Amounts = NDArray[np.int64]
Mask = NDArray[np.bool_]
Columns = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Devices:
    """Where the devices of one resource are among the rows of a node table."""

    resource: str
    #: Row of the resource itself.
    total: int
    #: Rows of single devices, and the numbers of these devices, ascending.
    rows: NDArray[np.intp]
    numbers: tuple[int, ...]
    #: (N,) MiB of memory of each device; 0: not known.
    memory: Amounts
    #: (N,) nodes with a row for each device; (N,) those that offer parts of them.
    has_rows: Mask
    in_parts: Mask
    #: None if no node reports how devices are linked.
    links: DeviceLinks | None = None

    def slack(self, free: Amounts) -> Amounts:
        """(N,) what is left of devices that some pod has a share of: whole devices cannot use it."""
        each = free[self.rows]
        return _sum(np.where(each < WHOLE, np.maximum(each, 0), 0))

    def fresh(self, free: Amounts, columns: Columns | slice = slice(None)) -> Amounts:
        """(N,) number of devices that no pod has any part of. ``columns``: nodes that ``free`` is of."""
        untouched = _sum(free[self.rows] >= WHOLE)
        left = (free[self.total] - self.slack(free)) // WHOLE
        fresh: Amounts = np.where(self.has_rows[columns], np.minimum(left, untouched), left)
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

    def room(self, free: Amounts, share: DeviceShare, columns: Columns | slice = slice(None)) -> Amounts:
        """(n,) how many pods with this share the devices of each node take. ``columns``: nodes that ``free`` is of."""
        part = self.part(share)[columns]
        each = free[self.rows]
        slots = np.where((each > 0) & (each < WHOLE), each // part, 0)
        new = WHOLE // part
        fresh = self.fresh(free, columns) * self.in_parts[columns]
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

    def pick(self, free: Amounts, column: int, share: DeviceShare, wanted: int | None = None) -> list[int]:
        """Numbers of devices for one pod with a share, on a node with (R,) free: those with least free, then by number.

        ``wanted``: only devices with so many thousandths free; None for any. There must be room. Of devices that no pod
        has any part of, those that are linked best.
        """
        part = int(self.part(share)[column])
        each = self._free_by_number(free)
        begun = sorted((left, number) for number, left in each if part <= left < WHOLE)
        if wanted is not None:
            begun = [(left, number) for left, number in begun if left == wanted]
        picked = [number for _, number in begun[: share.devices]]
        lacking = share.devices - len(picked)
        if lacking:
            opened = [number for number, left in each if left >= WHOLE]
            fresh = int(self.fresh(free[:, None], np.array([column], np.intp))[0])
            picked += self._linked(opened, column, lacking) or opened[:fresh][:lacking]
        return sorted(picked)

    def pick_whole(self, free: Amounts, column: int, count: int, in_one_island: bool) -> tuple[int, ...]:
        """Numbers of the best linked devices for one pod, on a node with (R,) free. () where they are only counted.

        There must be room.
        """
        if self.links is None or column not in self.links.places:
            return ()
        opened = [number for number, left in self._free_by_number(free) if left >= WHOLE]
        if in_one_island and count > 1:
            unknown = len(opened) - self._accounted(free[:, None])[0]
            places = self.links.places[column]
            by_island: dict[int, list[int]] = {}
            for place in places:
                if place.number in opened:
                    by_island.setdefault(place.island, []).append(place.number)
            enough = [each for each in by_island.values() if len(each) - max(0, unknown) >= count]
            opened = [number for each in enough for number in each]
        return self._linked(opened, column, count)

    def room_in_islands(self, free: Amounts, count: int, columns: Columns | slice = slice(None)) -> Amounts:
        """(n,) how many pods with so many whole devices in one island each node takes.

        0 where the islands are not reported. Devices that pods hold without being known by number may be in any island.
        ``columns``: nodes that ``free`` is of.
        """
        left = np.maximum(free[self.total] - self.slack(free), 0) // WHOLE
        if self.links is None:
            return np.zeros_like(left)
        room: Amounts = np.where(self.links.in_one[columns], left // count, 0)
        index = self.links.index[columns]
        apart = np.flatnonzero(index >= 0)
        if len(apart):
            here = free[:, apart]
            island_of = self.links.island_of(self.numbers, index[apart])
            untouched = here[self.rows] >= WHOLE
            most = int(island_of.max(initial=-1)) + 1
            by_island = np.stack([_sum(untouched & (island_of == island)) for island in range(most)])
            unknown = np.maximum(_sum(untouched) - self._accounted(here), 0)
            pods = _sum(np.maximum(by_island - unknown, 0) // count)
            room[apart] = np.minimum(pods, left[apart] // count)
        return room

    def _accounted(self, free: Amounts) -> Amounts:
        """(n,) devices that no pod can have, of those that are free by number: all, unless pods hold some that are not
        known by number. A device that is held though it is unhealthy takes none of the others."""
        overdrawn = _sum(np.maximum(-free[self.rows], 0))
        accounted: Amounts = (free[self.total] - self.slack(free) + overdrawn) // WHOLE
        return accounted

    def _free_by_number(self, free: Amounts) -> list[tuple[int, int]]:
        return list(zip(self.numbers, free[self.rows].tolist(), strict=True))

    def _linked(self, numbers: Sequence[int], column: int, count: int) -> tuple[int, ...]:
        """The best linked of these devices. () where they are not reported, or too few."""
        if self.links is None or (places := self.links.places.get(column)) is None or len(numbers) < count:
            return ()
        return best_linked(frozenset(numbers), places, count)


def devices_of(
    resources: Sequence[str], allocatable: Amounts, links: Mapping[str, DeviceLinks]
) -> dict[str, Devices]:
    """Resources with devices that have rows on some node, or are reported to be linked, by name. Empty: none."""
    position = {name: row for row, name in enumerate(resources)}
    numbers: dict[str, list[int]] = {name: [] for name in links}
    for name in resources:
        if is_device(name):
            resource, _, number = name.partition(DEVICE_MARK)
            numbers.setdefault(resource, [])
            if number.isdecimal():
                numbers[resource].append(int(number))
    found: dict[str, Devices] = {}
    for resource in sorted(numbers):
        of_devices = tuple(sorted(numbers[resource]))
        rows = np.array([position[device(resource, number)] for number in of_devices], np.intp)
        total, memory = position.get(resource), position.get(device_memory(resource))
        if total is None or not (of_devices or resource in links):
            continue
        has_rows = np.asarray(allocatable[rows].any(axis=0))
        reported = links.get(resource)
        none = np.zeros(allocatable.shape[1], np.int64)
        found[resource] = Devices(
            resource,
            total,
            rows,
            of_devices,
            memory=none if memory is None else allocatable[memory],
            has_rows=has_rows,
            in_parts=has_rows if reported is None else has_rows & ~reported.whole_only,
            links=reported,
        )
    return found


def taken(takes: Resources, share: DeviceShare, part: int, picked: Sequence[int]) -> Resources:
    """What a seat with this part of each of these devices takes."""
    parts = {device(share.resource, number): part for number in picked}
    return Resources({**takes, share.resource: part * len(picked), **parts})


def with_numbers(takes: Resources, resource: str, picked: Sequence[int]) -> Resources:
    """What a seat with these whole devices takes. None are picked: what it takes without numbers."""
    return Resources({**takes, **{device(resource, number): WHOLE for number in picked}}) if picked else takes


def _sum(each: NDArray[np.int64] | NDArray[np.bool_]) -> Amounts:
    """Over the devices of every node."""
    sums: Amounts = each.sum(axis=0, dtype=np.int64)
    return sums
