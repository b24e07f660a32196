"""Gangs whose pods have rules about other pods start at the first attempt, where the real scheduler binds them all."""

from collections import Counter
from typing import Any

import pytest

from deploy.local.nodes import RACK
from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import EACH_KIND, GangMaker
from tests.e2e.support.manifests import pod_spec
from tests.e2e.support.sandbox import HOST, Sandbox

RULES = "requiredDuringSchedulingIgnoredDuringExecution"


def of(app: str) -> Document:
    return {"matchLabels": {"app": app}}


def apart(key: str) -> Document:
    return {"affinity": {"podAntiAffinity": {RULES: [{"topologyKey": key, "labelSelector": of("train")}]}}}


def spread(key: str) -> Document:
    fields = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": of("train")}
    return {"topologySpreadConstraints": [{"topologyKey": key, **fields}]}


def start(sandbox: Sandbox, gang: GangMaker, pods: int, rules: dict[str, Any]) -> list[str]:
    """The gang with these rules and the label ``app: train`` runs at the first attempt; the nodes of its pods."""
    documents = gang(sandbox, "train", pods, 1)
    for document in documents:
        if document["kind"] == "PodGroup":
            continue
        spec = document["spec"]
        made = spec["tasks"][0]["template"] if "tasks" in spec else spec.get("template", document)
        made["metadata"].setdefault("labels", {})["app"] = "train"
        made["spec"].update(rules)
    sandbox.add(*documents)
    sandbox.wait_running("train-", pods)
    assert len(sandbox.ledger.admissions(sandbox.name, "train")) == 1, "at the first attempt"
    return list(sandbox.nodes_of("train-").values())


@pytest.mark.parametrize("gang", EACH_KIND)
def test_pods_that_keep_apart_by_rack_get_a_rack_each(sandbox: Sandbox, gang: GangMaker) -> None:
    sandbox.add_nodes(6)
    sandbox.add_queue()
    assert len(sandbox.racks(start(sandbox, gang, 3, apart(RACK)))) == 3


@pytest.mark.parametrize("gang", EACH_KIND)
@pytest.mark.parametrize("key", [HOST, RACK])
def test_pods_are_spread_over_nodes_and_racks(sandbox: Sandbox, gang: GangMaker, key: str) -> None:
    sandbox.add_nodes(6)
    sandbox.add_queue()
    nodes = start(sandbox, gang, 6, spread(key))
    racks = Counter(rack for node in nodes for rack in sandbox.racks([node]))
    assert sorted(racks.values()) == [2, 2, 2]
    assert key == RACK or len(set(nodes)) == 6


@pytest.mark.parametrize("gang", EACH_KIND)
def test_pods_go_to_a_pod_that_runs(sandbox: Sandbox, gang: GangMaker) -> None:
    nodes = sandbox.add_nodes(6)
    sandbox.add_queue()
    spec = {**pod_spec(sandbox.name, 0), "nodeSelector": {HOST: nodes[5]}}
    metadata = {"name": "cache", "labels": {"app": "cache"}}
    sandbox.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    sandbox.wait_running("cache", 1)
    term = {"topologyKey": HOST, "labelSelector": of("cache")}
    assert set(start(sandbox, gang, 2, {"affinity": {"podAffinity": {RULES: [term]}}})) == {nodes[5]}
