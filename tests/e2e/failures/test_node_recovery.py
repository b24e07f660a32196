"""Nodes with an unhealthy GPU: taken out of service, recovered by an administrator's Job, and taken in again."""

from queues.api import names
from queues.api.api_resources import CRON_JOBS, DEVICES, NODES
from tests.builders.node_agents.node_devices import device, device_object
from tests.e2e.failures.recovered_nodes import phase, recovering, repairs, report
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox


def taints(sandbox: Sandbox, node: str) -> list[str]:
    found = sandbox.api.get(NODES.path(name=node))
    return [each["key"] for each in found["spec"].get("taints", ())]


def test_a_node_is_drained_repaired_and_taken_in_again(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 1, 8))
    sandbox.wait_running("train-", 1)
    [faulty] = set(sandbox.nodes_of("train-").values())
    sandbox.api.create(DEVICES.path(), device_object(faulty, *map(device, range(8))))
    with recovering(sandbox):
        report(sandbox, faulty, 2)
        sandbox.wait(lambda: names.GPU_FAULT in taints(sandbox, faulty), "the node to be tainted")
        sandbox.wait(
            lambda: (
                set(sandbox.nodes_of("train-").values()) == set(sandbox.nodes) - {faulty}
                and len(sandbox.running("train-")) == 1
            ),
            "the gang to run on the other node",
        )
        sandbox.wait(lambda: len(repairs(sandbox)) == 1, "a Job that repairs the node")
        [name] = repairs(sandbox)
        [pod] = sandbox.wait_running(name, 1)
        assert pod["spec"]["nodeName"] == faulty
        finish_all(sandbox, name)
        report(sandbox, faulty)
        sandbox.wait(lambda: names.GPU_FAULT not in taints(sandbox, faulty), "the node to be taken in again")
        assert phase(sandbox, faulty) == "none"
        assert repairs(sandbox) == [name], "it was repaired once"
        sandbox.add(volcano_job(sandbox, "next", 1, 8))
        sandbox.wait_running("next-", 1)
        assert set(sandbox.nodes_of("next-").values()) == {faulty}
        finish_all(sandbox, "train-")
        finish_all(sandbox, "next-")
    sandbox.api.delete(DEVICES.path(name=faulty))
    sandbox.api.delete(CRON_JOBS.path(sandbox.name, "repair"))
