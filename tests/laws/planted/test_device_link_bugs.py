"""The laws of linked devices can fail: each planted bug breaks the law it is planted for."""

from typing import Any

import numpy as np
import pytest

from admission.engine.nodes import device_links, devices
from admission.engine.nodes.devices import Devices
from tests.laws.devices import test_device_link_laws as laws
from tests.laws.planted.bug import Bug, each_breaks_its_law

_pick_whole, _sizes = Devices.pick_whole, device_links._sizes


def _any_device(self: Devices, free: Any, column: int, count: int, in_one_island: bool) -> tuple[int, ...]:
    """Devices by number, whether pods have them or not."""
    if self.links is None or column not in self.links.places:
        return ()
    return tuple(place.number for place in self.links.places[column][:count])


def _from_the_largest(free: list[int], count: int) -> list[int]:
    largest = sorted(free, reverse=True)
    return largest[: len(_sizes(free, count))]


def _by_number_only(of_devices: Any, count: int) -> Any:
    found = [*device_links.combinations(set(of_devices), 1)]
    for number in range(2, len(set(of_devices)) + 1):
        found += device_links.combinations(sorted(set(of_devices), key=str, reverse=True), number)
    return iter(found)


def _any_free(self: Devices, free: Any, column: int, count: int) -> tuple[int, ...]:
    if self.links is None or column not in self.links.places:
        return ()
    return tuple(number for number, left in self._free_by_number(free) if left >= 1000)[:count]


BUGS = (
    Bug("a device is given out twice", Devices, "pick_whole", _any_device,
        laws.test_no_linked_device_is_given_out_twice),
    Bug("devices that pods hold are not told from free ones", Devices, "_free_by_number",
        lambda self, free: [(number, 1000) for number in self.numbers],
        laws.test_no_linked_device_is_given_out_twice),
    Bug("islands are split though one has room", devices, "best_linked",
        lambda free, places, count: tuple(sorted(free)[:count]), laws.test_no_islands_are_split_though_one_has_room),
    Bug("large islands are broken before small ones", device_links, "_sizes", _from_the_largest,
        laws.test_no_choice_of_devices_is_linked_better),
    Bug("root complexes do not matter", device_links, "_sets_of_buses",
        lambda of_devices, count: iter([set(of_devices)]), laws.test_no_choice_of_devices_is_linked_better),
    Bug("NUMA nodes do not matter", device_links, "_sets_of_buses", _by_number_only,
        laws.test_no_choice_of_devices_is_linked_better),
    Bug("what nobody reports is assumed to be linked", Devices, "room_in_islands",
        lambda self, free, count, columns: np.maximum(free[self.total], 0) // (1000 * count),
        laws.test_as_many_pods_of_whole_devices_fit_as_there_is_room_for),
    Bug("devices that are not known by number are taken for free", Devices, "_accounted",
        lambda self, free: np.full(free.shape[1], 99),
        laws.test_as_many_pods_of_whole_devices_fit_as_there_is_room_for),
    Bug("one island is a wish", Devices, "pick_whole",
        lambda self, free, column, count, in_one_island: _any_free(self, free, column, count),
        laws.test_devices_of_a_pod_that_asks_for_one_island_are_in_one, 3),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Any:
    device_links.best_linked.cache_clear()
    yield
    device_links.best_linked.cache_clear()


test_a_planted_bug_breaks_its_law = each_breaks_its_law(BUGS)
