"""Which devices NVLinks join."""

from typing import Any

from admission.agent.device_object import islands
from admission.agent.readings import Fabric, as_lost
from tests.builders.node_agents.device_readings import device, direct, node, switched


def test_devices_without_links_are_islands_of_their_own(golden: Any) -> None:
    assert islands(node(device(0), device(1), device(2))) == golden


def test_direct_links_join_over_other_devices_and_the_smallest_index_is_the_number() -> None:
    devices = [device(index) for index in range(6)]
    found = islands(node(*devices, links=direct((4, 5), (1, 3), (3, 4))))
    assert found == {"GPU-0": 0, "GPU-1": 1, "GPU-2": 2, "GPU-3": 1, "GPU-4": 1, "GPU-5": 1}


def test_a_switch_joins_all_devices_on_it_whatever_pairs_are_told() -> None:
    links = (*switched(0, 1), *switched(2, 3))
    assert set(islands(node(*map(device, range(5)), links=links)).values()) == {0, 4}


def test_cliques_of_the_fabric_manager_divide_what_is_on_switches() -> None:
    cliques = [Fabric(cluster="c", clique=number, complete=True) for number in (1, 1, 2, 2)]
    devices = [device(index, fabric=fabric) for index, fabric in enumerate(cliques)]
    links = (*switched(0, 1), *switched(2, 3))
    assert islands(node(*devices, links=links)) == {"GPU-0": 0, "GPU-1": 0, "GPU-2": 2, "GPU-3": 2}


def test_a_lost_device_is_in_no_island_and_joins_nothing() -> None:
    devices = (device(0), as_lost(device(1)), device(2))
    assert islands(node(*devices, links=direct((0, 1), (1, 2)))) == {"GPU-0": 0, "GPU-2": 2}


def test_the_order_of_the_reading_makes_no_difference() -> None:
    devices, links = [device(index) for index in range(4)], direct((0, 3), (1, 2))
    assert islands(node(*reversed(devices), links=links[::-1])) == islands(node(*devices, links=links))
