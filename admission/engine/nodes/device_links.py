"""How the devices of nodes are linked, as arrays: which of them NVLinks join.

Of a node with several islands (pairs, boards, cards without NVLink) each whole device has a row of its own
(``devices``), and pods are given devices by number. Where NVLinks join all devices of a node, and where nothing reports
how they are linked, whole devices are only counted.

Which free devices of one node a pod gets: those that are linked best, so that others stay linked for later pods.

Of all choices, compared in this order: devices of the fewest islands of NVLinks; what is left of the islands, the
largest first (a small island is used up before a large one is broken); the fewest PCIe root complexes; the fewest NUMA
nodes. All of it is exact on nodes with up to ``_ROOTS`` root complexes.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from queues.workload import DevicePlace, DevicePlaces

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class DeviceLinks:
    """The links of the devices of one resource."""

    resource: str
    #: (N,) nodes with all devices in one island.
    in_one: Mask
    #: (M,) columns of the nodes with several islands, ascending; their devices, by column.
    columns: NDArray[np.intp]
    places: Mapping[int, tuple[DevicePlace, ...]]
    #: (N,) where a node is in ``columns``; -1: it is not.
    index: NDArray[np.intp]
    #: (numbers, kinds) island of each device, from 0, on nodes that are linked alike; -1: they have no such device.
    islands: NDArray[np.int16]
    #: (M,) which of these kinds each node is.
    kind: NDArray[np.intp]
    #: (N,) those of them that offer no parts of their devices.
    whole_only: Mask

    def told(self) -> Mask:
        """(N,) nodes that report it."""
        told = self.in_one.copy()
        told[self.columns] = True
        return told

    def island_of(self, numbers: Sequence[int], nodes: NDArray[np.intp]) -> NDArray[np.int16]:
        """(K, m) islands of devices with these numbers. ``nodes``: indices of nodes in ``columns``."""
        known = np.array([number for number in numbers if number < len(self.islands)], np.intp)
        found = np.full((len(numbers), len(nodes)), -1, np.int16)
        found[: len(known)] = self.islands[np.ix_(known, self.kind[nodes])]
        return found


def device_links(places: Sequence[tuple[DevicePlaces, ...]]) -> dict[str, DeviceLinks]:
    """Links by resource, from what is reported of each node. Empty: nothing is."""
    by_resource: dict[str, dict[int, DevicePlaces]] = {}
    for column, of_node in enumerate(places):
        for each in of_node:
            by_resource.setdefault(each.resource, {})[column] = each
    return {name: _links(name, by_resource[name], len(places)) for name in sorted(by_resource)}


def _links(resource: str, reported: Mapping[int, DevicePlaces], nodes: int) -> DeviceLinks:
    apart = {column: found.each for column, found in reported.items() if found.each}
    in_one, whole_only = np.zeros(nodes, np.bool_), np.zeros(nodes, np.bool_)
    in_one[[column for column in reported if column not in apart]] = True
    whole_only[[column for column in apart if not reported[column].in_parts]] = True
    kinds = list(dict.fromkeys(apart.values()))
    length = max((place.number + 1 for places in kinds for place in places), default=0)
    of_kind = np.full((length, len(kinds)), -1, np.int16)
    for index, places in enumerate(kinds):
        dense = {island: rank for rank, island in enumerate(sorted({place.island for place in places}))}
        for place in places:
            of_kind[place.number, index] = dense[place.island]
    kind_of = {places: index for index, places in enumerate(kinds)}
    columns = np.array(sorted(apart), np.intp)
    index_of = np.full(nodes, -1, np.intp)
    index_of[columns] = np.arange(len(columns))
    return DeviceLinks(
        resource=resource,
        in_one=in_one,
        columns=columns,
        index=index_of,
        places=apart,
        islands=of_kind,
        kind=np.array([kind_of[apart[column]] for column in sorted(apart)], np.intp),
        whole_only=whole_only,
    )


Bus = tuple[int | None, str]

#: For up to so many root complexes every combination is looked at; for more only those that go together by size.
_ROOTS: Final = 10


@lru_cache(maxsize=1 << 14)
def best_linked(free: frozenset[int], places: tuple[DevicePlace, ...], count: int) -> tuple[int, ...]:
    """Numbers of the ``count`` devices to take, ascending. There are so many free ones.

    ``free``: numbers of the free devices. ``places``: of all devices of the node.
    """
    islands: dict[int, list[DevicePlace]] = {}
    for place in sorted(places, key=_order):
        if place.number in free:
            islands.setdefault(place.island, []).append(place)
    sizes = _sizes([len(members) for members in islands.values()], count)
    for buses in _sets_of_buses([place.bus for members in islands.values() for place in members], count):
        picked = _inside(list(islands.values()), buses, sizes, sum(sizes) - count)
        if picked is not None:
            return tuple(sorted(place.number for place in picked))
    raise AssertionError(f"{count} devices are asked of {len(free)}")


def _order(place: DevicePlace) -> tuple[bool, int, str, int]:
    """Neighbours on the bus one after the other."""
    return place.numa is None, place.numa or 0, place.root, place.number


def _sizes(free: Sequence[int], count: int) -> list[int]:
    """Free devices of each island to take from: as few islands as possible, and the largest stay whole.

    Each of these islands is used up, but for what they have beyond ``count``, which is left in one of them.
    """
    free = sorted(free, reverse=True)
    fewest = next(number for number in range(1, len(free) + 1) if sum(free[:number]) >= count)
    chosen: list[int] = []
    for index, size in enumerate(free):
        lacking = fewest - len(chosen)
        rest = free[index + 1 :][:lacking]
        if len(rest) < lacking or sum(chosen) + sum(rest) < count:
            chosen.append(size)
    return chosen


def _sets_of_buses(of_devices: Sequence[Bus], count: int) -> Iterator[Collection[Bus]]:
    """Sets of root complexes that have so many of the devices, the fewest first, of these in the fewest NUMA nodes."""
    devices = Counter(of_devices)
    if len(devices) > _ROOTS:
        on_node = Counter(bus[0] for bus in of_devices)
        ranked = sorted(devices, key=lambda bus: (-on_node[bus[0]], str(bus[0]), -devices[bus], bus[1]))
        yield from (ranked[:number] for number in range(1, len(ranked) + 1))
        return
    for number in range(1, len(devices) + 1):
        enough = (
            each for each in combinations(devices, number) if sum(devices[bus] for bus in each) >= count
        )
        yield from sorted(enough, key=lambda each: len({bus[0] for bus in each}))


def _inside(
    islands: Sequence[Sequence[DevicePlace]], buses: Collection[Bus], sizes: Sequence[int], left: int
) -> list[DevicePlace] | None:
    """Devices on these root complexes: of islands of these sizes all, but for ``left`` of one.

    None if there are none.
    """
    here = [[place for place in members if place.bus in buses] for members in islands]
    picked: list[Sequence[DevicePlace]] = []
    broken: Sequence[DevicePlace] | None = None
    for size, number in Counter(sizes).items():
        whole = [
            mine for mine, members in zip(here, islands, strict=True) if len(mine) == len(members) == size
        ]
        picked += whole[:number]
        if len(whole) >= number:
            continue
        partly = (
            mine[: size - left]
            for mine, members in zip(here, islands, strict=True)
            if len(members) == size > len(mine) >= size - left
        )
        if broken is not None or len(whole) < number - 1 or (broken := next(partly, None)) is None:
            return None
    devices = [place for members in picked for place in members]
    if broken is None:
        return devices[: len(devices) - left]
    return [*devices, *broken]
