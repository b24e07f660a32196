"""Where pods go together, on the real control plane: HyperNodes and parts."""

from collections.abc import Iterator

import pytest

from tests.e2e.support.api_paths import Document
from tests.e2e.support.manifests import volcano_job
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
