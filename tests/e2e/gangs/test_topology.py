"""Where pods go together, on the real control plane: HyperNodes, parts, subgroups, host ports."""

from collections.abc import Iterator

import pytest

from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.manifests import batch_job, grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import Yard

HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"


@pytest.fixture
def switches(yard: Yard) -> Iterator[list[str]]:
    """Six nodes in two racks by label, and under three switches of two nodes by HyperNodes."""
    nodes = yard.add_nodes(6, nodes_per_rack=3)
    yard.add_queue()
    made = []
    for number in range(3):
        name = f"{yard.name}-s{number}"
        members = [
            {"type": "Node", "selector": {"exactMatch": {"name": node}}}
            for node in nodes[2 * number : 2 * number + 2]
        ]
        spec = {"tier": 1, "tierName": "switch", "members": members}
        yard.api.create(HYPERNODES, document(name, spec))
        made.append(name)
    yield nodes
    for name in made:
        yard.api.delete(f"{HYPERNODES}/{name}")


def document(name: str, spec: Document) -> Document:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": spec,
    }


def switch_of(nodes: list[str], node: str) -> int:
    return nodes.index(node) // 2


def test_a_gang_lies_under_one_switch_and_its_partitions_too(yard: Yard, switches: list[str]) -> None:
    yard.add(volcano_job(yard, "whole", 2, 8, networkTopology={"mode": "hard", "highestTierAllowed": 1}))
    yard.wait_running("whole-", 2)
    assert len({switch_of(switches, node) for node in yard.nodes_of("whole-").values()}) == 1

    parts = volcano_job(yard, "parts", 4, 8)
    parts["spec"]["tasks"][0]["partitionPolicy"] = {
        "totalPartitions": 2,
        "partitionSize": 2,
        "networkTopology": {"mode": "hard", "highestTierName": "switch"},
    }
    yard.add(parts)
    yard.wait_running("parts-", 4)
    at = yard.nodes_of("parts-")
    under = [switch_of(switches, at[f"parts-worker-{index}"]) for index in range(4)]
    assert under[0] == under[1] != under[2] == under[3]

    yard.add(volcano_job(yard, "late", 2, 8, networkTopology={"mode": "hard", "highestTierAllowed": 1}))
    yard.wait_reason("late", "TopologyNoFit")


def test_subgroups_of_a_group_lie_under_one_switch_each(yard: Yard, switches: list[str]) -> None:
    policy = {
        "name": "stage",
        "subGroupSize": 2,
        "matchLabelKeys": ["stage"],
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    yard.add(pod_group(yard, "pipe", 6, subGroupPolicy=[policy]))
    for index in range(6):
        member = grouped(yard, "pipe", f"pipe-{index}", 8)
        member["metadata"].setdefault("labels", {})["stage"] = str(index % 3)
        yard.add(member)
    yard.wait_running("pipe-", 6)

    at = yard.nodes_of("pipe-")
    for stage in range(3):
        assert switch_of(switches, at[f"pipe-{stage}"]) == switch_of(switches, at[f"pipe-{stage + 3}"])


def test_ranks_of_an_indexed_job_that_asked_to_be_close_follow_the_topology(
    yard: Yard, switches: list[str]
) -> None:
    close = {
        "muster.dev/preferred-topology": "topology.muster.dev/rack",
        "muster.dev/partitions": "2=topology.volcano.sh/tier-1",
    }
    yard.add(batch_job(yard, "ranks", 4, 8, annotations=close, completionMode="Indexed", completions=4))
    yard.wait_running("ranks-", 4)

    at = {
        int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]): pod["spec"]["nodeName"]
        for pod in yard.running("ranks-")
    }
    assert switch_of(switches, at[0]) == switch_of(switches, at[1])
    assert switch_of(switches, at[2]) == switch_of(switches, at[3])


def test_pods_with_the_same_host_port_are_on_different_nodes(yard: Yard) -> None:
    yard.add_nodes(3)
    yard.add_queue()
    job = volcano_job(yard, "ports", 3, 1)
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    yard.add(job)
    yard.wait_running("ports-", 3)

    assert len(set(yard.nodes_of("ports-").values())) == 3

    another = volcano_job(yard, "another", 1, 1)
    another["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["ports"] = container["ports"]
    yard.add(another)
    yard.wait_reason("another", "NoFit")


def test_hypernodes_inside_one_another_say_so_and_stop_nobody(yard: Yard, switches: list[str]) -> None:
    """Each for itself is fine, so the webhook admits them."""
    pair = [f"{yard.name}-a", f"{yard.name}-b"]
    for name, other in (pair, pair[::-1]):
        member = {"type": "HyperNode", "selector": {"exactMatch": {"name": other}}}
        yard.api.create(HYPERNODES, document(name, {"tier": 2, "members": [member]}))
    try:

        def notes() -> list[str]:
            found = yard.api.get(path("Event", "default"))["items"]
            return [each["note"] for each in found if each["regarding"]["name"] in pair]

        yard.wait(lambda: bool(notes()), "an event of a HyperNode to tell it")
        (told,) = notes()
        assert f"inside itself, {pair[0]} → {pair[1]} → {pair[0]}" in told

        yard.add(volcano_job(yard, "fine", 2, 8, networkTopology={"mode": "hard", "highestTierAllowed": 1}))
        yard.wait_running("fine-", 2)
    finally:
        for name in pair:
            yard.api.delete(f"{HYPERNODES}/{name}")
