"""A control plane whose node agents have their account, its rights, and the policy that holds them."""

import asyncio
from pathlib import Path

import pytest_asyncio

from admission.kube.client.client import Client
from admission.kube.install.rbac import agent_identity, agent_rbac
from admission.kube.policies.policy_documents import agent_policies
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import DEVICES, NAMESPACES, NODES, path_of
from queues.api.names import AGENT_NAMESPACE
from queues.errors import ApiRefused, NotFound
from tests.kube.support.agent_account import agent_client, device_definition, two_nodes
from tests.kube.support.cluster_objects import becomes
from tests.waiting import until


@pytest_asyncio.fixture(scope="module")
async def agents_cluster(door_cluster: LocalCluster) -> LocalCluster:
    async with await Client.connect(door_cluster.kubeconfig) as admin:
        namespace = NAMESPACES.document(AGENT_NAMESPACE)
        documents = [namespace, device_definition(), *agent_rbac()]
        for document in [*documents, *agent_policies(agent_identity(), AGENT_NAMESPACE)]:
            await admin.patch(path_of(document), document, kind="apply", field_manager="test", force=True)
        await becomes(lambda: admin.get(DEVICES.path(), limit=1), despite=NotFound)
    await asyncio.to_thread(_policy_is_in_force, door_cluster)
    return door_cluster


def _policy_is_in_force(cluster: LocalCluster) -> None:
    """The API server notices a new policy after a moment."""
    own, other = two_nodes(cluster)

    def refused(folder: Path) -> bool:
        agent = agent_client(cluster, folder, own)
        try:
            agent.merge(
                NODES.path(name=other["metadata"]["name"]),
                {"metadata": {"labels": {"muster.dev/gpu-count": "1"}}},
            )
        except ApiRefused as error:
            return "expected one of the object with its name" in str(error)
        finally:
            agent.close()
        return False

    folder = cluster.directory / "agent-tokens"
    folder.mkdir(exist_ok=True)
    until(lambda: refused(folder), "the policy of agents")
