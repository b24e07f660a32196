"""From NVML to the gang: the agent of a node as a process, with its own account, beside the controller."""

from pathlib import Path
from typing import Any

import pytest

from queues.api import names
from queues.api.api_resources import DEVICES, NODES
from queues.errors import ApiError
from tests.builders.node_agents.node_devices import device_object
from tests.e2e.devices.gpu_agents import GpuNode
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox

#: Resources of models, and of a MIG profile.
H100, L40S, MIG = "nvidia.com/h100", "nvidia.com/l40s", "nvidia.com/mig-3g.40gb"


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


@pytest.mark.parametrize(("goes", "comes"), [("lose", "bring_back"), ("unplug", "plug")])
def test_a_gpu_that_is_lost_takes_no_work_until_it_is_back(
    sandbox: Sandbox, tmp_path: Path, goes: str, comes: str
) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    node = running_on_one_node(sandbox, tmp_path, gpus=4)
    lost = node.uuids()[7]
    with node.agent():
        sandbox.wait(lambda: node.healthy() == [True] * 8, "the agent to report eight GPUs")
        getattr(node.nvml, goes)(lost)
        sandbox.wait(lambda: node.healthy() == [True] * 7 + [False], "the agent to miss a GPU")
        sandbox.add(volcano_job(sandbox, "next", 1, 4))
        sandbox.wait_reason("next", "NoFit")
        getattr(node.nvml, comes)(lost)
        sandbox.wait_running("next-", 1)
        finish_all(sandbox, "train-")
        finish_all(sandbox, "next-")


def test_each_model_of_a_mixed_node_is_reported_and_one_that_fails_takes_no_other_with_it(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    [name] = sandbox.add_nodes(1)
    sandbox.add_queue()
    node = GpuNode(sandbox, name, tmp_path)
    for model in ("H100", "A100"):
        for _ in range(4):
            node.nvml.add_device(model)
    with node.agent():
        sandbox.wait(lambda: node.healthy() == [True] * 8, "the agent to report eight GPUs")
        assert [("H100" in model, "A100" in model) for model in node.models()] == [
            *[(True, False)] * 4,
            *[(False, True)] * 4,
        ]
        node.nvml.xid(node.uuids()[6], 79)
        sandbox.wait(lambda: node.healthy().count(False) == 1, "the agent to report the fault")
        sandbox.add(volcano_job(sandbox, "all", 1, 8))
        sandbox.wait_reason("all", "NoFit")
        sandbox.add(volcano_job(sandbox, "most", 1, 7))
        sandbox.wait_running("most-", 1)
        finish_all(sandbox, "most-")


def test_an_xid_takes_one_from_the_model_of_its_gpu_and_quota_holds_for_each_model(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    [name] = sandbox.add_nodes(1, gpus=0)
    sandbox.add_queue(capability={H100: 4, L40S: 3})
    node = GpuNode(sandbox, name, tmp_path)
    for model in ("H100", "L40S"):
        for _ in range(4):
            node.nvml.add_device(model)
    node.register_devices([H100] * 4 + [L40S] * 4)
    with node.agent():
        sandbox.wait(lambda: node.healthy() == [True] * 8, "the agent to report eight GPUs")
        node.nvml.xid(node.uuids()[1], 79)
        sandbox.wait(lambda: node.healthy().count(False) == 1, "the agent to report the fault")
        sandbox.add(job_of(sandbox, "large", H100, 4))
        sandbox.wait_reason("large", "NoFit")
        sandbox.add(job_of(sandbox, "beyond", L40S, 4))
        sandbox.wait_reason("beyond", "NeverFits")
        sandbox.add(job_of(sandbox, "cheap", L40S, 3))
        sandbox.wait_running("cheap-", 1)
        node.nvml.restart_driver()
        sandbox.wait_running("large-", 1)
        finish_all(sandbox, "cheap-")
        finish_all(sandbox, "large-")


def test_a_fault_takes_the_mig_instances_of_its_gpu_and_no_other(sandbox: Sandbox, tmp_path: Path) -> None:
    [name] = sandbox.add_nodes(1)
    sandbox.add_queue()
    node = GpuNode(sandbox, name, tmp_path)
    for _ in range(8):
        node.nvml.add_device("H100")
    first, second, *_ = node.uuids()
    for uuid in (first, second):
        node.nvml.partition(uuid, "3g.40gb", "3g.40gb")
    offered = {"nvidia.com/gpu": "6", MIG: "4"}
    node.offer(offered)
    with node.agent():
        sandbox.wait(lambda: node.healthy() == [True] * 8, "the agent to report eight GPUs")
        node.nvml.xid(first, 79)
        sandbox.wait(lambda: node.healthy().count(False) == 1, "the agent to report the fault")
        sandbox.add(job_of(sandbox, "three", MIG, 1, pods=3))
        sandbox.wait_reason("three", "NoFit")
        sandbox.add(job_of(sandbox, "two", MIG, 1, pods=2))
        sandbox.wait_running("two-", 2)
        sandbox.add(volcano_job(sandbox, "whole", 1, 6))
        sandbox.wait_running("whole-", 1)
        finish_all(sandbox, "two-")
        node.nvml.restart_driver()
        sandbox.wait_running("three-", 3)
        finish_all(sandbox, "three-")
        finish_all(sandbox, "whole-")


def job_of(sandbox: Sandbox, name: str, resource: str, each: int, pods: int = 1) -> dict[str, Any]:
    """A gang of pods with so many devices of a resource each."""
    job = volcano_job(sandbox, name, pods, 0)
    [container] = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {resource: str(each)}}
    return job


def test_a_person_takes_a_gpu_out_by_a_word_on_the_node(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    node = running_on_one_node(sandbox, tmp_path, gpus=1)
    with node.agent():
        sandbox.wait(lambda: node.healthy() == [True] * 8, "the agent to report eight GPUs")
        path = NODES.path(name=node.name)
        sandbox.api.merge(path, {"metadata": {"annotations": {names.GPU_UNHEALTHY: "5=fan is loud"}}})
        sandbox.wait(lambda: node.healthy().count(False) == 1, "the agent to follow")
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
