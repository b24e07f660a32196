"""Muster's policies and webhook on a control plane, without a controller: a user in front of a door that is open."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from admission.kube.client.client import Client
from admission.kube.install.install import Installation, install
from admission.kube.webhook.configuration import Callee
from admission.kube.webhook.server import WebhookServer
from deploy.local.cluster import LocalCluster
from deploy.local.processes import free_port
from queues.api.api_resources import QUEUES
from tests.kube.support.cluster_objects import applied, becomes

NAMESPACE = "muster-system"


class Running:
    """A door that is open, and a user in front of it."""

    def __init__(self, user: Client, door: WebhookServer, port: int, cluster: LocalCluster) -> None:
        self.user, self.door, self.port, self._cluster = user, door, port, cluster

    async def created(self, path: str, document: dict[str, Any]) -> Any:
        return msgspec.json.decode(await self.user.create(path, document))

    async def warnings(self, path: str, patch: Any, *, verb: str = "POST") -> str:
        """What the API server would warn of; "": nothing. Nothing is written."""

        def asked() -> str:
            with self._cluster.client() as client:
                body = json.dumps(patch)
                form = "application/json" if verb == "POST" else "application/merge-patch+json"
                answer = client.send(verb, f"{path}?dryRun=All", body, form)
                answer.read()
                return ", ".join(answer.headers.get_all("Warning") or ())

        return await asyncio.to_thread(asked)


async def running_door(cluster: LocalCluster) -> AsyncIterator[Running]:
    """Muster installed in a cluster, with queues ``team`` and ``team-a`` below it, and its webhook."""
    port = free_port()
    url = f"https://127.0.0.1:{port}"
    async with await Client.connect(cluster.kubeconfig) as admin:
        await install(admin, Installation(webhook_url=url), lambda line: None)
        callee = Callee(namespace=NAMESPACE, url=url)
        door = WebhookServer(admin, callee=callee, host="127.0.0.1", port=port)
        task = asyncio.create_task(door.run())
        await door.open.wait()
        await becomes(lambda: _knows(door, "default"))
        for name, parent in (("team", {}), ("team-a", {"parent": "team"})):
            queue = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind}
            await applied(admin, {**queue, "metadata": {"name": name}, "spec": parent})
        kubeconfig = cluster.kubeconfig_for("alice", ("system:masters",))
        async with await Client.connect(kubeconfig) as alice:
            yield Running(alice, door, port, cluster)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _knows(door: WebhookServer, queue: str) -> bool:
    return queue in (door.watched.known("default").queues or {})
