"""How devices are connected, as far as no law says it: over the PCI bus, in a fabric, by links of another version."""

from admission.agent.readings import Fabric, Link, PciePath
from admission.agent.vendors.nvidia.nvidia import Nvidia
from tests.fakes.nvml.fake_nvml import FakeNvml


def links(nvidia: Nvidia) -> dict[tuple[int, int], Link]:
    return {link.between: link for link in nvidia.read().links}


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


def test_the_ways_are_asked_again_when_mig_is_switched(node: FakeNvml, nvidia: Nvidia) -> None:
    first, _ = node.add_device(), node.add_device()
    assert links(nvidia)[0, 1].peer_access is True
    node.partition(first, "1g.10gb")
    assert links(nvidia)[0, 1].peer_access is False
    node.whole(first)
    assert links(nvidia)[0, 1].peer_access is True


def test_after_a_restart_of_the_driver_links_are_asked_about_again(node: FakeNvml, nvidia: Nvidia) -> None:
    gpus = [node.add_device(nvlinks="switched") for _ in range(2)]
    assert links(nvidia)[0, 1].version == 4
    for gpu in gpus:
        node.set(gpu, nvlink_version=7)
    node.restart_driver()
    assert links(nvidia)[0, 1].version == 5


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
