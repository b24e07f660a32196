"""How devices are connected: NVLinks through switches and in pairs, the PCI bus, and links that went down."""

import pytest

from admission.agent.readings import Fabric, Link, PciePath
from admission.agent.vendors.nvidia.nvidia import Nvidia
from tests.fakes.nvml.fake_nvml import FakeNvml

STATE = "field 165"


def links(nvidia: Nvidia) -> dict[tuple[int, int], Link]:
    return {link.between: link for link in nvidia.read().links}


def down(nvidia: Nvidia) -> list[tuple[int, ...]]:
    return [device.links_down for device in nvidia.read().devices]


def test_through_a_switch_every_pair_has_the_links_of_the_device_with_fewer(
    node: FakeNvml, nvidia: Nvidia
) -> None:
    gpus = [node.add_device(nvlinks="switched") for _ in range(3)]
    assert {(link.nvlinks, link.version, link.switched) for link in links(nvidia).values()} == {(18, 4, True)}
    node.link(gpus[1], 2, up=False)
    node.link(gpus[1], 5, up=False)
    assert {between: link.nvlinks for between, link in links(nvidia).items()} == {
        (0, 1): 16,
        (0, 2): 18,
        (1, 2): 16,
    }


def test_pairs_have_the_links_between_them(node: FakeNvml, nvidia: Nvidia) -> None:
    gpus = [node.add_device("A100") for _ in range(4)]
    node.connect(gpus[0], gpus[1], links=12)
    node.connect(gpus[2], gpus[3], links=4)
    found = {between: (link.nvlinks, link.version, link.switched) for between, link in links(nvidia).items()}
    assert found.pop((0, 1)) == (12, 3, False)
    assert found.pop((2, 3)) == (4, 3, False)
    assert set(found.values()) == {(0, 0, False)}
    assert len(found) == 4


def test_a_device_without_links_has_a_way_over_the_bus(node: FakeNvml, nvidia: Nvidia) -> None:
    node.add_device("T4", board=1)
    node.add_device("T4", board=1)
    node.add_device("T4", pcie_switch=9, pcie_root=1)
    node.add_device("T4", pcie_switch=9, pcie_root=1)
    node.add_device("T4", pcie_switch=8, pcie_root=1)
    node.add_device("T4", pcie_switch=0, pcie_root=1)
    node.add_device("T4", pcie_switch=0, pcie_root=2)
    node.add_device("T4", pcie_switch=0, pcie_root=3, numa=1)
    paths = {between: link.path for between, link in links(nvidia).items()}
    assert paths[0, 1] is PciePath.SAME_BOARD
    assert paths[2, 3] is PciePath.SINGLE_SWITCH
    assert paths[3, 4] is PciePath.MULTIPLE_SWITCHES
    assert paths[4, 5] is PciePath.HOST_BRIDGE
    assert paths[5, 6] is PciePath.NUMA_NODE
    assert paths[6, 7] is PciePath.SYSTEM


def test_whether_one_may_read_the_others_memory(node: FakeNvml, nvidia: Nvidia) -> None:
    node.add_device(peers=1)
    node.add_device(peers=1)
    node.add_device(peers=2)
    assert {between: link.peer_access for between, link in links(nvidia).items()} == {
        (0, 1): True,
        (0, 2): False,
        (1, 2): False,
    }
    node.unsupported("nvmlDeviceGetP2PStatus", "nvmlDeviceGetTopologyCommonAncestor")
    nvidia.close()
    assert {(link.peer_access, link.path) for link in links(nvidia).values()} == {(None, None)}


def test_the_ways_are_asked_again_when_mig_is_switched(node: FakeNvml, nvidia: Nvidia) -> None:
    first, _ = node.add_device(), node.add_device()
    assert links(nvidia)[0, 1].peer_access is True
    node.partition(first, "1g.10gb")
    assert links(nvidia)[0, 1].peer_access is False
    node.whole(first)
    assert links(nvidia)[0, 1].peer_access is True


# ── links that are down ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("by_field", [True, False])
def test_a_link_that_was_active_and_is_not_is_down(by_field: bool, node: FakeNvml, nvidia: Nvidia) -> None:
    first, second = node.add_device("A100"), node.add_device("A100")
    node.connect(first, second, links=4)
    if not by_field:
        node.unsupported(STATE)
    assert down(nvidia) == [(), ()]
    node.link(first, 2, up=False)
    assert down(nvidia) == [(2,), ()]
    assert links(nvidia)[0, 1].nvlinks == 3
    node.link(first, 2, up=True)
    assert down(nvidia) == [(), ()]


def test_links_that_nothing_was_ever_plugged_into_are_not_down(node: FakeNvml, nvidia: Nvidia) -> None:
    first, second, _ = (node.add_device("A100") for _ in range(3))
    node.connect(first, second, links=4)
    assert down(nvidia) == [(), (), ()]


def test_a_link_to_a_switch_that_never_came_up_is_down_as_others_of_the_model_have_it(
    node: FakeNvml, nvidia: Nvidia
) -> None:
    first, _ = node.add_device(nvlinks="switched"), node.add_device(nvlinks="switched")
    node.add_device("A100")
    node.link(first, 17, up=False)
    assert down(nvidia) == [(17,), (), ()]


def test_a_link_that_went_down_is_still_known_after_a_restart_of_the_driver(
    node: FakeNvml, nvidia: Nvidia
) -> None:
    first, second = node.add_device("A100"), node.add_device("A100")
    node.connect(first, second, links=2)
    nvidia.read()
    node.link(first, 1, up=False)
    node.restart_driver()
    assert down(nvidia) == [(1,), ()]


def test_after_a_restart_of_the_driver_links_are_asked_about_again(node: FakeNvml, nvidia: Nvidia) -> None:
    gpus = [node.add_device(nvlinks="switched") for _ in range(2)]
    assert links(nvidia)[0, 1].version == 4
    for gpu in gpus:
        node.set(gpu, nvlink_version=7)
    node.restart_driver()
    assert links(nvidia)[0, 1].version == 5


def test_with_mig_on_no_link_is_down(node: FakeNvml, nvidia: Nvidia) -> None:
    gpu = node.add_device(nvlinks="switched")
    node.add_device(nvlinks="switched")
    nvidia.read()
    node.partition(gpu, "1g.10gb")
    node.link(gpu, 0, up=False)
    assert down(nvidia) == [(), ()]


def test_a_link_that_does_not_tell_is_neither_active_nor_down(node: FakeNvml, nvidia: Nvidia) -> None:
    node.add_device(nvlinks="switched")
    node.add_device(nvlinks="switched")
    nvidia.read()
    node.unsupported(STATE, "nvmlDeviceGetNvLinkState")
    assert down(nvidia) == [(), ()]
    assert links(nvidia)[0, 1].nvlinks == 0


def test_traffic_is_told_in_bytes_over_all_links(node: FakeNvml, nvidia: Nvidia) -> None:
    node.add_device(nvlinks="switched", nvlink_kib_sent=3, nvlink_kib_received=4)
    assert nvidia.read().devices[0].telemetry.nvlink_bytes == 7 * 1024


# ── the fabric across nodes ─────────────────────────────────────────────────────────────────────────────────


def test_a_device_of_a_domain_across_nodes_tells_cluster_and_clique(node: FakeNvml, nvidia: Nvidia) -> None:
    gpu = node.add_device(nvlinks="switched", fabric_clique=7)
    node.device(gpu).fabric_cluster[:] = [0xAB] * 16
    cluster = "abababab-abab-abab-abab-abababababab"
    assert nvidia.read().devices[0].fabric == Fabric(cluster=cluster, clique=7, complete=True)
    node.set(gpu, fabric_state=2)
    assert nvidia.read().devices[0].fabric == Fabric(cluster=cluster, clique=7, complete=False)


def test_the_fabric_of_one_node_has_no_cluster(node: FakeNvml, nvidia: Nvidia) -> None:
    node.add_device(nvlinks="switched")
    node.add_device("T4")
    assert [device.fabric for device in nvidia.read().devices] == [
        Fabric(cluster="", clique=0, complete=True),
        None,
    ]
