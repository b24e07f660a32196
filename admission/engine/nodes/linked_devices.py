"""Which free devices of one node a pod gets: those that are linked best, so that others stay linked for later pods.

Of all choices, compared in this order: devices of the fewest islands of NVLinks; what is left of the islands, the
largest first (a small island is used up before a large one is broken); the fewest PCIe root complexes; the fewest NUMA
nodes. All of it is exact on nodes with up to ``_ROOTS`` root complexes.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final

from queues.workload import DevicePlace

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
