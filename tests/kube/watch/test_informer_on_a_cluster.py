"""The client and the informers on a real API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from admission.facts.pods import PodFact
from admission.kube.client.client import Client
from admission.kube.watch.informer import Informer, Timing
from admission.kube.watch.store import ObjectChange, WatchedKind
from admission.wire import WirePod
from admission.workloads.kinds import read_pod
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import PODS
from queues.errors import ApiRefused, Conflict
from tests.cluster_faults import restart_api_server
from tests.kube.support.cluster_objects import becomes, exists, pod
from tests.waiting import eventually, in_background

GATE = [{"name": "example.org/never"}]


@asynccontextmanager
async def namespace(cluster: LocalCluster, name: str) -> AsyncIterator[Client]:
    """A client, and an empty namespace in which pods may be made."""
    async with await Client.connect(cluster.kubeconfig) as client:
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await client.create("/api/v1/namespaces", document)
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        await becomes(lambda: exists(client, account))
        yield client
        await client.delete(f"/api/v1/namespaces/{name}")


@asynccontextmanager
async def watched(client: Client, name: str, timing: Timing) -> AsyncIterator[Informer[WirePod, PodFact]]:
    kind: WatchedKind[WirePod, PodFact] = WatchedKind(
        name="pods",
        resource=PODS,
        struct=WirePod,
        translate=lambda found, raw: read_pod(found),
        namespace=name,
    )
    shifts: list[ObjectChange[PodFact]] = []
    informer: Informer[WirePod, PodFact] = Informer(client, kind, shifts.extend, timing)
    async with in_background(informer.run()):
        await informer.synced.wait()
        yield informer


async def test_a_restart_of_the_api_server_loses_no_change(local_cluster: LocalCluster) -> None:
    async with namespace(local_cluster, "informer-restart") as client:
        pods = PODS.path("informer-restart")
        timing = Timing(page=2, first_pause=0.05, longest_pause=0.5)
        async with watched(client, "informer-restart", timing) as informer:
            for name in "abc":
                await client.create(pods, pod(name, schedulingGates=GATE))
            await eventually(lambda: len(informer.collection.kept) == 3, "three pods")
            await asyncio.to_thread(restart_api_server, local_cluster)
            await client.delete(f"{pods}/a", grace=0)
            await client.create(pods, pod("d", schedulingGates=GATE))
            await eventually(
                lambda: {name for _, name in informer.collection.kept.places()} == {"b", "c", "d"},
                "the pods after the restart",
            )
            assert informer.problem is None


async def test_refusals_of_a_real_server_have_their_meaning(local_cluster: LocalCluster) -> None:
    async with namespace(local_cluster, "informer-errors") as client:
        pods = PODS.path("informer-errors")
        await client.create(pods, pod("a", schedulingGates=GATE))
        with pytest.raises(Conflict, match="already exists") as again:
            await client.create(pods, pod("a", schedulingGates=GATE))
        assert again.value.facts["code"] == "AlreadyExists"
        with pytest.raises(Conflict, match="UID in the precondition"):
            await client.delete(f"{pods}/a", uid="of-another-one")
        with pytest.raises(ApiRefused, match="Invalid value"):
            await client.create(pods, pod("Upper Case"))
        test = [{"op": "test", "path": "/spec/schedulingGates/0/name", "value": "other"}]
        with pytest.raises(ApiRefused):
            await client.patch(f"{pods}/a", test, kind="json")
