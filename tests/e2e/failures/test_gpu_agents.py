"""From NVML to the gang: the agent of a node as a process, with its own account, beside the controller."""

from pathlib import Path

import pytest

from queues.api import names
from queues.api.api_resources import DEVICES, NODES
from queues.errors import ApiError
from tests.builders.node_agents.node_devices import device_object
from tests.e2e.failures.gpu_agents import GpuNode
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


def test_an_xid_on_one_gpu_of_a_gang_moves_the_gang_and_the_gpu_is_taken_in_again_when_it_is_well(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue(policy={"health": {"onFault": "evict"}})
    node = running_on_one_node(sandbox, tmp_path)
    with node.agent():
        sandbox.wait(lambda: node.well() == [True] * 8, "the agent to report eight GPUs")
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
        sandbox.wait(lambda: node.well() == [True] * 8, "the GPU to be well again")
        sandbox.wait_running("whole-", 1)
        finish_all(sandbox, "train-")
        finish_all(sandbox, "whole-")


def test_a_gpu_that_is_lost_takes_no_work_until_it_is_back(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    node = running_on_one_node(sandbox, tmp_path, gpus=4)
    lost = node.uuids()[7]
    with node.agent():
        sandbox.wait(lambda: node.well() == [True] * 8, "the agent to report eight GPUs")
        node.nvml.lose(lost)
        sandbox.wait(lambda: node.well() == [True] * 7 + [False], "the agent to miss a GPU")
        sandbox.add(volcano_job(sandbox, "next", 1, 4))
        sandbox.wait_reason("next", "NoFit")
        node.nvml.bring_back(lost)
        sandbox.wait_running("next-", 1)
        finish_all(sandbox, "train-")
        finish_all(sandbox, "next-")


def test_a_person_takes_a_gpu_out_by_a_word_on_the_node(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    node = running_on_one_node(sandbox, tmp_path, gpus=1)
    with node.agent():
        sandbox.wait(lambda: node.well() == [True] * 8, "the agent to report eight GPUs")
        path = NODES.path(name=node.name)
        sandbox.api.merge(path, {"metadata": {"annotations": {names.GPU_UNHEALTHY: "5=fan is loud"}}})
        sandbox.wait(lambda: node.well().count(False) == 1, "the agent to follow")
        sandbox.add(volcano_job(sandbox, "next", 1, 7))
        sandbox.wait_reason("next", "NoFit")
        sandbox.api.merge(path, {"metadata": {"annotations": {names.GPU_UNHEALTHY: None}}})
        sandbox.wait_running("next-", 1)
        finish_all(sandbox, "train-")
        finish_all(sandbox, "next-")


WRITES = {
    "create": lambda node: (DEVICES.path(), device_object(node)),
    "merge": lambda node: (
        f"{NODES.path(name=node)}/status",
        {"status": {"capacity": {"nvidia.com/gpu": "99"}}},
    ),
}


@pytest.mark.parametrize("verb", ["create", "merge"])
def test_a_user_of_a_namespace_cannot_say_how_gpus_are(sandbox: Sandbox, verb: str) -> None:
    [node] = sandbox.add_nodes(1)
    path, body = WRITES[verb](node)
    with sandbox.as_user("mallory") as user:
        with pytest.raises(ApiError) as refused:
            getattr(user, verb)(path, body)
        assert refused.value.facts["status"] == 403
