"""Places that a gang loses: foreign pods take them, nodes refuse, go, or die."""

import pytest

from deploy.local.stack import Stack
from tests.e2e.support.gang_kinds import Gang, as_batch_job, as_volcano_job, bind, made, wait_released
from tests.e2e.support.manifests import bare_pod, pod, volcano_job
from tests.e2e.support.sandbox import HOST, Yard


@pytest.mark.parametrize("gang", [as_volcano_job, as_batch_job])
def test_a_gang_whose_seat_a_foreign_pod_takes_goes_back_whole_and_starts_elsewhere(
    idle_scheduler: Stack, yard: Yard, gang: Gang
) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(*gang(yard, "train", 2, 8))
    released = wait_released(yard, "train-", 2)

    yard.add(pod(yard, "foreign", 8, nodeName=yard.nodes[0]))
    yard.wait_running("foreign", 1)
    # Started anew it knows the foreign pod before it looks at any other.
    idle_scheduler.cluster.kill("kube-scheduler")
    idle_scheduler.cluster.start_component("kube-scheduler")
    yard.wait(
        lambda: [state for _, state in yard.books.admissions(yard.name, "train")] == ["closed"],
        "the gang to go back whole",
    )
    evictions = [code for kind, code, _ in yard.books.decisions(yard.name, "train") if kind == "evict"]
    assert evictions == (["Refused"] if gang is as_volcano_job else ["SeatTaken"])
    assert not yard.nodes_of("train-")

    yard.add_nodes(1)
    yard.wait_running("train-", 2)
    assert set(yard.nodes_of("train-").values()) == set(yard.nodes[1:])
    assert yard.get("Pod", "foreign")["status"]["phase"] == "Running"
    assert len(released) == 2


def add_unfriendly(yard: Yard, node: str, gpus: int = 0) -> None:
    """A foreign pod beside which the stock scheduler puts no pod of ``train``, though the node has room."""
    others = {"labelSelector": {"matchLabels": {"volcano.sh/job-name": "train"}}, "topologyKey": HOST}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [others]}}
    yard.add(pod(yard, "foreign", gpus, nodeName=node, affinity=rule))
    yard.wait_running("foreign", 1)


def rather_on(node: str) -> dict[str, object]:
    """Affinity of a pod that is to be seated on this node first, whatever else makes a node a good one."""
    here = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    terms = [{"weight": 100, "preference": here}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def test_a_gang_that_a_node_refuses_is_not_sent_there_again_at_once(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    add_unfriendly(yard, yard.nodes[0], 4)
    train = volcano_job(yard, "train", 1, 4)
    train["spec"]["tasks"][0]["template"]["spec"]["affinity"] = rather_on(yard.nodes[0])
    yard.add(train)
    yard.wait(
        lambda: len(yard.books.admissions(yard.name, "train")) == 1, "train to be sent to the only node"
    )
    yard.add_nodes(1)
    yard.wait_running("train-", 1)
    assert yard.nodes_of("train-") == {"train-worker-0": yard.nodes[1]}
    assert len(yard.books.admissions(yard.name, "train")) == 2, "the first retry found another place"


def test_a_pod_of_its_own_that_a_node_refuses_is_made_again_for_another(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    add_unfriendly(yard, yard.nodes[0], 4)
    single = bare_pod(yard, "single", 4, affinity=rather_on(yard.nodes[0]))
    single["metadata"]["labels"]["volcano.sh/job-name"] = "train"
    yard.add(single)
    yard.wait(
        lambda: len(yard.books.admissions(yard.name, "single")) == 1, "single to be sent to the only node"
    )
    yard.add_nodes(1)
    yard.wait_running("single", 1)
    assert yard.nodes_of("single") == {"single": yard.nodes[1]}
    assert len(made(yard, "single")) == 2, "the first retry found another place"


def test_a_member_that_its_node_refuses_after_the_start_goes_on_elsewhere(yard: Yard) -> None:
    yard.add_nodes(3)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 8))
    yard.wait_running("train-", 2)
    nodes, uid = yard.nodes_of("train-"), yard.get("Pod", "train-worker-1")["metadata"]["uid"]

    add_unfriendly(yard, nodes["train-worker-0"])
    yard.delete("Pod", "train-worker-0")
    yard.wait(
        lambda: len(yard.running("train-")) == 2 and yard.nodes_of("train-") != nodes,
        "the member to run elsewhere",
    )
    assert yard.nodes_of("train-")["train-worker-0"] not in nodes.values()
    assert yard.get("Pod", "train-worker-1")["metadata"]["uid"] == uid, "the other one stays"


def test_a_node_that_is_removed_costs_its_seats_and_nothing_else(yard: Yard) -> None:
    yard.add_nodes(3)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 8))
    yard.wait_running("train-", 2)
    nodes = yard.nodes_of("train-")
    other = yard.get("Pod", "train-worker-1")["metadata"]["uid"]

    yard.remove_node(nodes["train-worker-0"])
    yard.wait(
        lambda: (
            len(yard.running("train-")) == 2
            and yard.nodes_of("train-")["train-worker-0"] != nodes["train-worker-0"]
        ),
        "the lost member to run elsewhere",
    )
    assert yard.get("Pod", "train-worker-1")["metadata"]["uid"] == other


def test_a_gang_goes_on_elsewhere_once_its_dead_node_is_gone(yard: Yard) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 8))
    yard.wait_running("train-", 2)
    dead = yard.nodes_of("train-")["train-worker-0"]
    yard.add(volcano_job(yard, "next", 1, 8))
    yard.wait_reason("next", "NoFit")

    yard.stack.cluster.kill_node(dead, at_once=True)
    yard.wait(
        lambda: "deletionTimestamp" in yard.get("Pod", "train-worker-0")["metadata"],
        "Kubernetes to give the pod up",
    )
    yard.add_nodes(1)
    yard.wait_running("next-", 1)
    assert dead not in yard.nodes_of("next-").values(), "the silent node may still run the old pod"
    assert len(yard.running("train-")) == 1

    yard.add_nodes(1)
    yard.remove_node(dead)
    yard.wait_running("train-", 2)


def test_a_node_that_dies_before_its_gang_has_started_sends_it_back_whole(
    idle_scheduler: Stack, yard: Yard
) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 8))
    wait_released(yard, "train-", 2)
    bind(yard, "train-worker-1")
    [dead] = yard.seats_of("train-worker-0")

    yard.stack.cluster.kill_node(dead, at_once=True)
    yard.delete("Pod", "train-worker-0", now=True)
    yard.wait(
        lambda: "closed" in [state for _, state in yard.books.admissions(yard.name, "train")],
        "the gang to go back",
    )
    # Nobody of it runs any more; what has ended stays until that is stored.
    bound = [each for each in yard.pods("train-") if each["spec"].get("nodeName")]
    assert all(each["status"]["phase"] in ("Succeeded", "Failed") for each in bound), bound
    yard.wait(lambda: not yard.nodes_of("train-"), "no pod of the gang to be left on a node")
    yard.add_nodes(1)
    idle_scheduler.cluster.resume("kube-scheduler")
    yard.wait_running("train-", 2)
    assert dead not in yard.nodes_of("train-").values()
