"""Places that a gang loses: foreign pods take them, or their nodes die."""

import pytest

from deploy.local.stack import Stack
from tests.cluster_faults import kill_component, kill_node
from tests.e2e.support.gang_kinds import GangMaker, as_batch_job, as_volcano_job, wait_released
from tests.e2e.support.manifests import pod, volcano_job
from tests.e2e.support.sandbox import Sandbox


@pytest.mark.parametrize("gang", [as_volcano_job, as_batch_job])
def test_a_gang_whose_seat_a_foreign_pod_takes_goes_back_whole_and_starts_elsewhere(
    idle_scheduler: Stack, sandbox: Sandbox, gang: GangMaker
) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(*gang(sandbox, "train", 2, 8))
    released = wait_released(sandbox, "train-", 2)

    sandbox.add(pod(sandbox, "foreign", 8, nodeName=sandbox.nodes[0]))
    sandbox.wait_running("foreign", 1)
    # Started anew it knows the foreign pod before it looks at any other.
    kill_component(idle_scheduler.cluster, "kube-scheduler")
    idle_scheduler.cluster.start_component("kube-scheduler")
    sandbox.wait(
        lambda: [state for _, state in sandbox.ledger.admissions(sandbox.name, "train")] == ["closed"],
        "the gang to go back whole",
    )
    evictions = [code for kind, code, _ in sandbox.ledger.decisions(sandbox.name, "train") if kind == "evict"]
    assert evictions == (["Refused"] if gang is as_volcano_job else ["SeatTaken"])
    assert not sandbox.nodes_of("train-")

    sandbox.add_nodes(1)
    sandbox.wait_running("train-", 2)
    assert set(sandbox.nodes_of("train-").values()) == set(sandbox.nodes[1:])
    assert sandbox.get("Pod", "foreign")["status"]["phase"] == "Running"
    assert len(released) == 2


def test_a_gang_goes_on_elsewhere_once_its_dead_node_is_gone(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 2, 8))
    sandbox.wait_running("train-", 2)
    dead = sandbox.nodes_of("train-")["train-worker-0"]
    sandbox.add(volcano_job(sandbox, "next", 1, 8))
    sandbox.wait_reason("next", "NoFit")

    kill_node(sandbox.stack.cluster, dead, report_unready=True)
    sandbox.wait(
        lambda: "deletionTimestamp" in sandbox.get("Pod", "train-worker-0")["metadata"],
        "Kubernetes to give the pod up",
    )
    sandbox.add_nodes(1)
    sandbox.wait_running("next-", 1)
    assert dead not in sandbox.nodes_of("next-").values(), "the silent node may still run the old pod"
    assert len(sandbox.running("train-")) == 1

    sandbox.add_nodes(1)
    sandbox.remove_node(dead)
    sandbox.wait_running("train-", 2)
