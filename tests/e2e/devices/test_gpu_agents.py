"""From NVML to the gang: the agent of a node as a process, with its own account, beside the controller."""

from pathlib import Path

from tests.e2e.devices.gpu_agents import GpuNode
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox


def running_on_one_node(sandbox: Sandbox, folder: Path, gpus: int = 8) -> GpuNode:
    """A gang of one pod that asks for so many GPUs runs; its node, with eight H100 behind NVSwitches."""
    sandbox.add(volcano_job(sandbox, "train", 1, gpus))
    sandbox.wait_running("train-", 1)
    [name] = set(sandbox.nodes_of("train-").values())
    node = GpuNode(sandbox, name, folder)
    for _ in range(8):
        node.nvml.add_device("H100", nvlinks="switched")
    node.give_devices()
    return node


def test_an_xid_on_one_gpu_of_a_gang_moves_the_gang_and_the_gpu_is_taken_in_again_when_it_is_healthy(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue(policy={"health": {"onFault": "evict"}})
    node = running_on_one_node(sandbox, tmp_path)
    with node.agent():
        sandbox.wait(lambda: node.healthy() == [True] * 8, "the agent to report eight GPUs")
        node.nvml.xid(node.uuids()[3], 79)
        sandbox.wait(
            lambda: (
                set(sandbox.nodes_of("train-").values()) == set(sandbox.nodes) - {node.name}
                and len(sandbox.running("train-")) == 1
            ),
            "the gang to run on the other node",
        )
        sandbox.add(volcano_job(sandbox, "whole", 1, 8))
        sandbox.wait_reason("whole", "NoFit")
        node.nvml.restart_driver()
        sandbox.wait(lambda: node.healthy() == [True] * 8, "the GPU to be healthy again")
        sandbox.wait_running("whole-", 1)
        finish_all(sandbox, "train-")
        finish_all(sandbox, "whole-")
