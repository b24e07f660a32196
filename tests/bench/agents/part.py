"""Part ``agent`` of the benchmarks: on a control plane with the agents' account, its rights, and its policy."""

import asyncio

from admission.kube.client.client import Client
from admission.kube.install.rbac import agent_identity, agent_rbac
from admission.kube.policies.policy_documents import agent_policies
from deploy.local.cluster import LocalCluster
from deploy.local.components import ClusterOptions
from queues.api.api_resources import DEVICES, NAMESPACES, path_of
from queues.api.names import AGENT_NAMESPACE
from queues.errors import NotFound
from tests.bench.agents import many_agents, one_agent
from tests.bench.mark import Mark
from tests.kube.support.agent_account import device_definition
from tests.kube.support.cluster_objects import becomes


def play(agents: int, seconds: float) -> list[Mark]:
    """One agent, then so many of them; each is looked at for so many seconds."""
    options = ClusterOptions(node_lease_seconds=0, node_grace_seconds=86_400)
    with LocalCluster(options=options) as cluster:
        asyncio.run(_prepare(cluster))
        one = one_agent.play(cluster, seconds)
        print(f"the first report of one agent after {one.start_seconds:.2f} s")
        many = many_agents.play(cluster, agents, seconds)
        print(many_agents.table(many))
    return [*one_agent.marks(one), *many_agents.marks(many)]


async def _prepare(cluster: LocalCluster) -> None:
    async with await Client.connect(cluster.kubeconfig) as admin:
        documents = [NAMESPACES.document(AGENT_NAMESPACE), device_definition(), *agent_rbac()]
        for document in [*documents, *agent_policies(agent_identity(), AGENT_NAMESPACE)]:
            await admin.patch(path_of(document), document, kind="apply", field_manager="bench", force=True)
        await becomes(lambda: admin.get(DEVICES.path(), limit=1), despite=NotFound)
