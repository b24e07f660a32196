"""Places that a gang loses: foreign pods take them, nodes refuse, or die."""

import pytest

from deploy.local.stack import Stack
from tests.cluster_faults import kill_component, kill_node
from tests.e2e.support.gang_kinds import GangMaker, as_batch_job, as_volcano_job, wait_released
from tests.e2e.support.manifests import pod, volcano_job
from tests.e2e.support.sandbox import HOST, Sandbox


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


#: A disk that pods of one node cannot share. The stock scheduler looks at it, and Muster does not.
DISK = {
    "name": "disk",
    "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2027-01.com.example:a", "lun": 0},
}


def add_unfriendly(sandbox: Sandbox, node: str, gpus: int = 0) -> None:
    """A foreign pod beside which the stock scheduler puts no pod with ``DISK``, though the node has room."""
    sandbox.add(pod(sandbox, "foreign", gpus, nodeName=node, volumes=[DISK]))
    sandbox.wait_running("foreign", 1)


def rather_on(node: str) -> dict[str, object]:
    """Affinity of a pod that is to be seated on this node first, whatever else makes a node a good one."""
    here = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    terms = [{"weight": 100, "preference": here}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def test_a_gang_that_a_node_refuses_is_not_sent_there_again_at_once(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    add_unfriendly(sandbox, sandbox.nodes[0], 4)
    train = volcano_job(sandbox, "train", 1, 4)
    train["spec"]["tasks"][0]["template"]["spec"] |= {
        "affinity": rather_on(sandbox.nodes[0]),
        "volumes": [DISK],
    }
    sandbox.add(train)
    sandbox.wait(
        lambda: len(sandbox.ledger.admissions(sandbox.name, "train")) == 1,
        "train to be sent to the only node",
    )
    sandbox.wait(
        lambda: "no available disk" in str(sandbox.get("Job", "train").get("status")),
        "train to wait with the scheduler's words",
    )
    sandbox.add_nodes(1)
    sandbox.wait_running("train-", 1)
    assert sandbox.nodes_of("train-") == {"train-worker-0": sandbox.nodes[1]}
    assert len(sandbox.ledger.admissions(sandbox.name, "train")) == 2, "the first retry found another place"


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
