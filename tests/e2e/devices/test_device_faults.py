"""GPUs that an agent on their node calls unhealthy."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from queues.api.api_resources import DEVICES
from tests.builders.node_agents.node_devices import device, device_object
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import batch_job, volcano_job
from tests.e2e.support.sandbox import Sandbox


@contextmanager
def reported(sandbox: Sandbox, node: str) -> Iterator[None]:
    """The node has a Device object while the block goes on; all of its eight GPUs are well."""
    sandbox.api.create(DEVICES.path(), device_object(node, *map(device, range(8))))
    yield
    sandbox.api.delete(DEVICES.path(name=node))


def report(sandbox: Sandbox, node: str, *faulty: int) -> None:
    """These GPUs of a node are not well; pods of the sandbox have the devices that they asked for, in order."""
    holders, first = {}, 0
    for pod in sandbox.pods():
        if pod["spec"].get("nodeName") == node:
            asked = int(pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"])
            holders[pod["metadata"]["uid"]] = list(range(first, first + asked))
            first += asked
    devices = (device(minor, health=minor not in faulty) for minor in range(8))
    change = device_object(node, *devices, holders=holders)
    sandbox.api.merge(DEVICES.path(name=node), {"spec": change["spec"]})
    sandbox.api.merge(DEVICES.path(name=node), {"status": change["status"]})


@pytest.mark.parametrize("kind", ["volcano", pytest.param("batch", marks=pytest.mark.long)])
def test_a_gang_on_a_gpu_that_fails_starts_again_whole_on_other_nodes(sandbox: Sandbox, kind: str) -> None:
    nodes = sandbox.add_nodes(3)
    sandbox.add_queue(policy={"health": {"onFault": "evict"}})
    make = volcano_job if kind == "volcano" else batch_job
    sandbox.add(make(sandbox, "train", 2, 8))
    before = {pod["metadata"]["uid"] for pod in sandbox.wait_running("train-", 2)}
    [first, second] = sorted(set(sandbox.nodes_of("train-").values()))
    with reported(sandbox, first):
        report(sandbox, first, 5)
        sandbox.wait(
            lambda: (
                not before & {pod["metadata"]["uid"] for pod in sandbox.running("train-")}
                and len(sandbox.running("train-")) == 2
            ),
            "the gang to run with other pods",
        )
        assert set(sandbox.nodes_of("train-").values()) == set(nodes) - {first}
        assert second in sandbox.nodes_of("train-").values()
        finish_all(sandbox, "train-")


def test_a_gpu_that_fails_takes_no_new_work_and_what_runs_there_stays_where_faults_are_only_reported(
    sandbox: Sandbox,
) -> None:
    [node] = sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 1, 4))
    [pod] = sandbox.wait_running("train-", 1)
    with reported(sandbox, node):
        report(sandbox, node, 0)
        sandbox.add(volcano_job(sandbox, "next", 1, 4))
        sandbox.wait_reason("next", "NoFit")
        assert [each["metadata"]["uid"] for each in sandbox.running("train-")] == [pod["metadata"]["uid"]]
        report(sandbox, node)
        sandbox.wait_running("next-", 1)
        finish_all(sandbox, "train-")
        finish_all(sandbox, "next-")
