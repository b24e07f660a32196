"""Where pods go together, on the real control plane: HyperNodes, parts, subgroups, host ports."""

from collections.abc import Iterator

import pytest

from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.manifests import batch_job, grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import Sandbox

HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"


@pytest.fixture
def switches(sandbox: Sandbox) -> Iterator[list[str]]:
    """Six nodes in two racks by label, and under three switches of two nodes by HyperNodes."""
    nodes = sandbox.add_nodes(6, nodes_per_rack=3)
    sandbox.add_queue()
    made = []
    for number in range(3):
        name = f"{sandbox.name}-s{number}"
        members = [
            {"type": "Node", "selector": {"exactMatch": {"name": node}}}
            for node in nodes[2 * number : 2 * number + 2]
        ]
        spec = {"tier": 1, "tierName": "switch", "members": members}
        sandbox.api.create(HYPERNODES, document(name, spec))
        made.append(name)
    yield nodes
    for name in made:
        sandbox.api.delete(f"{HYPERNODES}/{name}")


def document(name: str, spec: Document) -> Document:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": spec,
    }


def switch_of(nodes: list[str], node: str) -> int:
    return nodes.index(node) // 2


def test_a_gang_lies_under_one_switch_and_its_partitions_too(sandbox: Sandbox, switches: list[str]) -> None:
    sandbox.add(
        volcano_job(sandbox, "whole", 2, 8, networkTopology={"mode": "hard", "highestTierAllowed": 1})
    )
    sandbox.wait_running("whole-", 2)
    assert len({switch_of(switches, node) for node in sandbox.nodes_of("whole-").values()}) == 1

    parts = volcano_job(sandbox, "parts", 4, 8)
    parts["spec"]["tasks"][0]["partitionPolicy"] = {
        "totalPartitions": 2,
        "partitionSize": 2,
        "networkTopology": {"mode": "hard", "highestTierName": "switch"},
    }
    sandbox.add(parts)
    sandbox.wait_running("parts-", 4)
    at = sandbox.nodes_of("parts-")
    under = [switch_of(switches, at[f"parts-worker-{index}"]) for index in range(4)]
    assert under[0] == under[1] != under[2] == under[3]

    sandbox.add(volcano_job(sandbox, "late", 2, 8, networkTopology={"mode": "hard", "highestTierAllowed": 1}))
    sandbox.wait_reason("late", "TopologyNoFit")


def test_subgroups_of_a_group_lie_under_one_switch_each(sandbox: Sandbox, switches: list[str]) -> None:
    policy = {
        "name": "stage",
        "subGroupSize": 2,
        "matchLabelKeys": ["stage"],
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    sandbox.add(pod_group(sandbox, "pipe", 6, subGroupPolicy=[policy]))
    for index in range(6):
        member = grouped(sandbox, "pipe", f"pipe-{index}", 8)
        member["metadata"].setdefault("labels", {})["stage"] = str(index % 3)
        sandbox.add(member)
    sandbox.wait_running("pipe-", 6)

    at = sandbox.nodes_of("pipe-")
    for stage in range(3):
        assert switch_of(switches, at[f"pipe-{stage}"]) == switch_of(switches, at[f"pipe-{stage + 3}"])


def test_ranks_of_an_indexed_job_that_asked_to_be_close_follow_the_topology(
    sandbox: Sandbox, switches: list[str]
) -> None:
    close = {
        "muster.dev/preferred-topology": "topology.muster.dev/rack",
        "muster.dev/partitions": "2=topology.volcano.sh/tier-1",
    }
    sandbox.add(batch_job(sandbox, "ranks", 4, 8, annotations=close, completionMode="Indexed", completions=4))
    sandbox.wait_running("ranks-", 4)

    at = {
        int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]): pod["spec"]["nodeName"]
        for pod in sandbox.running("ranks-")
    }
    assert switch_of(switches, at[0]) == switch_of(switches, at[1])
    assert switch_of(switches, at[2]) == switch_of(switches, at[3])


def test_pods_with_the_same_host_port_are_on_different_nodes(sandbox: Sandbox) -> None:
    sandbox.add_nodes(3)
    sandbox.add_queue()
    job = volcano_job(sandbox, "ports", 3, 1)
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    sandbox.add(job)
    sandbox.wait_running("ports-", 3)

    assert len(set(sandbox.nodes_of("ports-").values())) == 3

    another = volcano_job(sandbox, "another", 1, 1)
    another["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["ports"] = container["ports"]
    sandbox.add(another)
    sandbox.wait_reason("another", "NoFit")


def test_hypernodes_inside_one_another_say_so_and_stop_nobody(sandbox: Sandbox, switches: list[str]) -> None:
    """Each for itself is fine, so the webhook admits them."""
    pair = [f"{sandbox.name}-a", f"{sandbox.name}-b"]
    for name, other in (pair, pair[::-1]):
        member = {"type": "HyperNode", "selector": {"exactMatch": {"name": other}}}
        sandbox.api.create(HYPERNODES, document(name, {"tier": 2, "members": [member]}))
    try:

        def notes() -> list[str]:
            found = sandbox.api.get(path("Event", "default"))["items"]
            return [each["note"] for each in found if each["regarding"]["name"] in pair]

        sandbox.wait(lambda: bool(notes()), "an event of a HyperNode to tell it")
        (told,) = notes()
        assert f"inside itself, {pair[0]} → {pair[1]} → {pair[0]}" in told

        sandbox.add(
            volcano_job(sandbox, "fine", 2, 8, networkTopology={"mode": "hard", "highestTierAllowed": 1})
        )
        sandbox.wait_running("fine-", 2)
    finally:
        for name in pair:
            sandbox.api.delete(f"{HYPERNODES}/{name}")
