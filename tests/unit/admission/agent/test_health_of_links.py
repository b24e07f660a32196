"""Health of devices: NVLinks that are down, and those that never were up."""

from typing import Any

from admission.agent.health import ConditionType
from admission.agent.readings import NodeReading, as_lost
from tests.builders.node_agents.assessed_devices import Agent, told
from tests.builders.node_agents.device_readings import device, direct, node, switched
from tests.tables import with_rows


def pair(down: tuple[int, ...], **fields: Any) -> NodeReading:
    return node(device(0, links_down=down, **fields), device(1), links=direct((0, 1)))


def test_a_link_that_was_active_is_down() -> None:
    agent = Agent()
    agent.sees(node(device(0, links_down=(2, 3)), device(1, links_down=(2, 3)), links=direct((0, 1))))
    assert agent.health["GPU-0"].healthy, "links that never were active"
    broken = node(device(0, links_down=(1, 2, 3)), device(1, links_down=(1, 2, 3)), links=direct((0, 1)))
    for _ in range(2):
        found = agent.sees(broken)["GPU-0"].condition(ConditionType.LINK_DOWN)
        assert found is not None
        assert (found.status, found.message) == (True, "NVLink 1 is down")
        agent = agent.restarted()
    assert agent.sees(pair((2, 3)))["GPU-1"].healthy


def test_a_link_that_was_idle_counts_from_the_time_when_it_was_active() -> None:
    agent = Agent()
    for down, is_healthy in (((2, 3), True), ((3,), True), ((2, 3), False)):
        reading = node(device(0, links_down=down), device(1, links_down=down), links=direct((0, 1)))
        assert agent.sees(reading)["GPU-0"].healthy is is_healthy


def test_a_device_that_comes_back_has_the_links_that_it_had() -> None:
    agent = Agent()
    bare = device(0, links_down=(0, 1, 2))
    for reading in (node(bare), node(as_lost(bare)), node(bare)):
        agent.sees(reading)
        agent = agent.restarted()
    assert agent.sees(node(bare))["GPU-0"].healthy


def test_a_link_that_others_of_the_model_have_is_down_though_it_was_never_seen_active() -> None:
    devices = (device(0, links_down=(3, 7)), *map(device, range(1, 4)))
    health = Agent().sees(node(*devices, links=switched(0, 1, 2, 3)))
    assert told(health["GPU-0"], ConditionType.LINK_DOWN) == (True, "NvLinkDown")
    assert health["GPU-1"].healthy


@with_rows("other")
def test_devices_that_are_not_alike_say_nothing_about_links(other: dict[str, Any]) -> None:
    reading = node(device(0, links_down=(3,)), device(1, **other), links=switched(0, 1))
    assert Agent().sees(reading)["GPU-0"].healthy


def test_cards_with_different_bridges_are_healthy() -> None:
    devices = (device(0), device(1), device(2, links_down=(8, 9)), device(3, links_down=(8, 9)))
    assert Agent().sees(node(*devices, links=direct((0, 1), (2, 3))))["GPU-2"].healthy


def test_cards_without_a_bridge_are_healthy() -> None:
    reading = node(device(0, links_down=tuple(range(18))), device(1, links_down=tuple(range(18))))
    assert Agent().sees(reading)["GPU-0"].healthy


def test_links_to_a_lost_device_do_not_count_but_those_to_a_switch_do() -> None:
    for links, is_healthy in ((direct((0, 1)), True), (switched(0, 1, 2), False)):
        agent = Agent()
        agent.sees(node(device(0), device(1), device(2), links=links))
        down = device(0, links_down=(1,))
        assert (
            agent.sees(node(down, as_lost(device(1)), device(2), links=links))["GPU-0"].healthy is is_healthy
        )


def test_mig_may_switch_links_off() -> None:
    agent = Agent()
    agent.sees(pair(()))
    assert agent.sees(pair((0, 1), mig_enabled=True))["GPU-0"].healthy
