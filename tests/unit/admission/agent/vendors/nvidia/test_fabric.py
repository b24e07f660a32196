"""The fabric of NVLinks across nodes. Links within a node are held by a law."""

from admission.agent.readings import Fabric
from admission.agent.vendors.nvidia.nvidia import Nvidia
from tests.fakes.nvml.fake_nvml import FakeNvml


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
