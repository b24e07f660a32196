"""What the account of the node agents may write: only what is about the Node that its token names."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from admission.agent.cluster.api_client import ApiClient
from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import DEVICES, EVENTS, LEASES, NAMESPACES, NODES, PODS
from queues.api.names import AGENT_NAMESPACE
from queues.errors import ApiRefused, Conflict
from tests.kube.support.agent_account import agent_client, two_nodes


@dataclass(frozen=True)
class Guarded:
    """Two nodes, and the agent of the first one."""

    own: dict[str, Any]
    other: dict[str, Any]
    agent: ApiClient

    def device(self, node: dict[str, Any]) -> dict[str, Any]:
        return DEVICES.document(node["metadata"]["name"], spec={"devices": []})


@pytest.fixture
def guarded(agents_cluster: LocalCluster, tmp_path: Path) -> Iterator[Guarded]:
    own, other = two_nodes(agents_cluster)
    agent = agent_client(agents_cluster, tmp_path, own)
    yield Guarded(own, other, agent)
    agent.close()


def _name(node: dict[str, Any]) -> str:
    return str(node["metadata"]["name"])


def test_an_agent_writes_the_device_of_its_node_and_of_no_other(guarded: Guarded) -> None:
    stored = guarded.agent.create(DEVICES.path(), guarded.device(guarded.own))
    stored["spec"]["devices"] = [{"type": "gpu", "id": "GPU-1", "health": True}]
    guarded.agent.replace(DEVICES.path(name=_name(guarded.own)), stored)
    with pytest.raises(
        ApiRefused, match=f"devices {_name(guarded.other)}: found CREATE by the agent of node"
    ):
        guarded.agent.create(DEVICES.path(), guarded.device(guarded.other))


def test_a_device_made_by_an_administrator_is_not_changed_by_the_agent_of_another_node(
    guarded: Guarded, agents_cluster: LocalCluster
) -> None:
    with agents_cluster.client() as admin:
        stored = admin.create(DEVICES.path(), guarded.device(guarded.other))
    with pytest.raises(ApiRefused, match="found UPDATE by the agent of node"):
        guarded.agent.replace(DEVICES.path(name=_name(guarded.other)), stored)


def test_an_agent_may_say_that_its_node_owns_the_device(guarded: Guarded) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "controller": True, "blockOwnerDeletion": True}
    owner |= {key: guarded.own["metadata"][key] for key in ("name", "uid")}
    device = guarded.device(guarded.own)
    device["metadata"]["ownerReferences"] = [owner]
    guarded.agent.create(DEVICES.path(), device)


def test_an_agent_keeps_no_device_and_no_other_node_from_being_deleted(guarded: Guarded) -> None:
    other = {"apiVersion": "v1", "kind": "Node", "controller": True, "blockOwnerDeletion": True}
    other |= {key: guarded.other["metadata"][key] for key in ("name", "uid")}
    for kept in ({"ownerReferences": [other]}, {"finalizers": ["example.com/kept"]}):
        device = guarded.device(guarded.own)
        device["metadata"] |= kept
        with pytest.raises(ApiRefused, match="found another owner than its Node, or a finalizer"):
            guarded.agent.create(DEVICES.path(), device)


def test_an_agent_leaves_what_an_administrator_put_on_its_device(
    guarded: Guarded, agents_cluster: LocalCluster
) -> None:
    device = guarded.device(guarded.own)
    device["metadata"]["finalizers"] = ["example.com/kept"]
    with agents_cluster.client() as admin:
        stored = admin.create(DEVICES.path(), device)
        stored["spec"]["devices"] = [{"type": "gpu", "id": "GPU-1", "health": True}]
        guarded.agent.replace(DEVICES.path(name=_name(guarded.own)), stored)
        admin.merge(DEVICES.path(name=_name(guarded.own)), {"metadata": {"finalizers": None}})


def test_an_agent_labels_its_node_about_devices_and_in_no_other_way(guarded: Guarded) -> None:
    own = NODES.path(name=_name(guarded.own))
    answer = guarded.agent.merge(own, {"metadata": {"labels": {"muster.dev/gpu-count": "8"}}})
    assert answer["metadata"]["labels"]["muster.dev/gpu-count"] == "8"
    guarded.agent.merge(own, {"metadata": {"labels": {"muster.dev/gpu-count": None}}})
    label = next(iter(guarded.own["metadata"]["labels"]))
    for change in (
        {"metadata": {"labels": {"topology.muster.dev/rack": "r1"}}},
        {"metadata": {"labels": {label: "other"}}},
        {"metadata": {"labels": {label: None}}},
        {"metadata": {"annotations": {"muster.dev/gpu-unhealthy": "all"}}},
        {"metadata": {"finalizers": ["example.com/kept"]}},
        {"spec": {"unschedulable": False}},
        {"spec": {"taints": [{"key": "example.com/a", "effect": "NoSchedule"}]}},
    ):
        with pytest.raises(
            ApiRefused, match="found another change, expected one of the labels about devices only"
        ):
            guarded.agent.merge(own, change)
    with pytest.raises(ApiRefused, match="expected one of the object with its name"):
        guarded.agent.merge(
            NODES.path(name=_name(guarded.other)), {"metadata": {"labels": {"muster.dev/gpu-count": "8"}}}
        )


def test_an_agent_does_not_write_the_status_of_any_node(guarded: Guarded) -> None:
    for node in (guarded.own, guarded.other):
        with pytest.raises(ApiRefused):
            guarded.agent.merge(
                NODES.path(name=_name(node), subresource="status"),
                {"status": {"capacity": {"nvidia.com/gpu": "80"}}},
            )


def test_an_agent_keeps_the_lease_of_its_node_only(guarded: Guarded) -> None:
    guarded.agent.create(LEASES.path(AGENT_NAMESPACE), LEASES.document(_name(guarded.own), AGENT_NAMESPACE))
    renewed = {"spec": {"holderIdentity": "a"}}
    guarded.agent.merge(LEASES.path(AGENT_NAMESPACE, _name(guarded.own)), renewed)
    with pytest.raises(ApiRefused, match=f"leases {_name(guarded.other)}: found CREATE"):
        guarded.agent.create(
            LEASES.path(AGENT_NAMESPACE), LEASES.document(_name(guarded.other), AGENT_NAMESPACE)
        )
    with pytest.raises(ApiRefused):
        guarded.agent.merge(LEASES.path("kube-node-lease", _name(guarded.own)), renewed)


def test_an_agent_writes_no_events(guarded: Guarded) -> None:
    with pytest.raises(ApiRefused, match=r"cannot create resource .*events"):
        guarded.agent.create(EVENTS.path("default"), _event(_name(guarded.own)))


def test_an_agent_reads_its_node_and_pods_and_nothing_else(guarded: Guarded) -> None:
    guarded.agent.list(NODES.path(), fieldSelector=f"metadata.name={_name(guarded.own)}")
    guarded.agent.list(PODS.path(), fieldSelector=f"spec.nodeName={_name(guarded.own)}")
    for path in ("/api/v1/secrets", "/api/v1/configmaps", NAMESPACES.path()):
        with pytest.raises(ApiRefused):
            guarded.agent.get(path)


def test_a_token_that_names_no_node_writes_nothing(
    agents_cluster: LocalCluster, tmp_path: Path, guarded: Guarded
) -> None:
    unbound = agent_client(agents_cluster, tmp_path, None)
    with pytest.raises(ApiRefused, match="The token of this node agent names no node"):
        unbound.create(DEVICES.path(), guarded.device(guarded.own))
    unbound.close()


def test_a_tenant_with_all_rights_of_a_namespace_writes_no_device(
    agents_cluster: LocalCluster, guarded: Guarded
) -> None:
    async def refused() -> None:
        kubeconfig = agents_cluster.kubeconfig_for("tenant")
        async with await Client.connect(kubeconfig) as tenant:
            with pytest.raises(ApiRefused, match="forbidden"):
                await tenant.create(DEVICES.path(), guarded.device(guarded.own))

    asyncio.run(refused())


def test_a_second_creation_is_told_as_a_conflict(guarded: Guarded) -> None:
    guarded.agent.create(DEVICES.path(), guarded.device(guarded.own))
    with pytest.raises(Conflict):
        guarded.agent.create(DEVICES.path(), guarded.device(guarded.own))


def _event(host: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"a.{host}", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "a"},
        "reason": "GpuFault",
        "type": "Warning",
        "source": {"component": "muster-agent", "host": host},
    }
