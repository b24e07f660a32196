"""What tests against a real API server share."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from admission.kube.client.client import Client
from admission.kube.install.uninstall import Removal, uninstall
from admission.kube.policies.policy_documents import PolicyOptions, mutating_policies, validating_policies
from deploy.local.cluster import LocalCluster
from deploy.local.components import ClusterOptions
from queues.errors import ApiError
from tests.fakes.fake_api_server import FakeApiServer
from tests.kube.support.cluster_objects import applied, becomes, exists
from tests.kube.support.guarded_namespace import (
    MUSTER,
    GuardedNamespace,
    guarded_namespace_in,
    policies_are_in_force,
)
from tests.kube.support.installation import HOME, JOBS, NAMESPACE, cleared, usable
from tests.kube.support.posted_volcano_jobs import ReportingWriter, removing_finalizers
from tests.kube.support.webhook_door import Running, running_door
from tests.waiting import LIMIT, in_background

CRDS = Path(__file__).parents[2] / "deploy/chart/crds"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def door_cluster(kubernetes_binaries: dict[str, Path]) -> Iterator[LocalCluster]:
    """A control plane whose admission policies and webhooks are the tests' own to install and remove."""
    # Some clusters ask for a right on an owner before an object may block its deletion.
    flags = ("--enable-admission-plugins=OwnerReferencesPermissionEnforcement",)
    with LocalCluster(options=ClusterOptions(api_server_flags=flags)) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    """An API server that says what the test tells it to say."""
    async with FakeApiServer() as fake:
        yield fake


@pytest_asyncio.fixture
async def client(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    """Somebody who talks to that server."""
    async with await Client.connect(server.kubeconfig(tmp_path)) as connected:
        yield connected


@pytest_asyncio.fixture(scope="session")
async def nodes(local_cluster: LocalCluster) -> list[str]:
    """Nodes of the shared control plane, which knows Volcano's kinds from here on."""

    def prepare() -> list[str]:
        with local_cluster.client() as api:
            for path in CRDS.glob("*volcano*.yaml"):
                crd = yaml.safe_load(path.read_text())
                try:
                    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
                except ApiError as error:
                    if error.facts["status"] != 409:
                        raise
        return local_cluster.add_nodes(4, prefix="jobs")

    return await asyncio.to_thread(prepare)


@pytest_asyncio.fixture
async def api(local_cluster: LocalCluster, nodes: list[str]) -> AsyncIterator[Client]:
    """Somebody who talks to the shared control plane."""
    async with await Client.connect(local_cluster.kubeconfig) as client:
        yield client


@pytest_asyncio.fixture
async def namespace(local_cluster: LocalCluster) -> AsyncIterator[str]:
    """A namespace of the test's own, in which deleted pods are let go. It stays as the test leaves it."""
    name = f"jobs-{next(_numbers)}"
    async with await Client.connect(local_cluster.kubeconfig) as somebody:
        await somebody.create("/api/v1/namespaces", {"metadata": {"name": name}})
        async with in_background(removing_finalizers(somebody, name)):
            yield name


@pytest_asyncio.fixture
async def jobs(api: Client) -> AsyncIterator[ReportingWriter]:
    """The writer that makes and removes the pods of Volcano Jobs."""
    made = ReportingWriter(api)
    yield made
    await made.stop()


@pytest_asyncio.fixture(scope="session")
async def guarded_cluster(door_cluster: LocalCluster) -> LocalCluster:
    options = PolicyOptions(identity=MUSTER)
    async with await Client.connect(door_cluster.kubeconfig, request_timeout=LIMIT) as client:
        for document in [*mutating_policies(options), *validating_policies(options)]:
            await applied(client, document)
        await policies_are_in_force(client)
    return door_cluster


@pytest_asyncio.fixture(scope="session")
async def running(door_cluster: LocalCluster) -> AsyncIterator[Running]:
    """Muster's policies and webhook, installed on that control plane once all tests with policies alone are over."""
    async for one in running_door(door_cluster):
        yield one


@pytest_asyncio.fixture
async def guarded(guarded_cluster: LocalCluster) -> AsyncIterator[GuardedNamespace]:
    async for one in guarded_namespace_in(guarded_cluster, {}):
        yield one


@pytest_asyncio.fixture
async def gated(guarded_cluster: LocalCluster) -> AsyncIterator[GuardedNamespace]:
    async for one in guarded_namespace_in(guarded_cluster, {"labels": {"muster.dev/gated": "true"}}):
        yield one


@pytest.fixture(scope="session")
def install_cluster(kubernetes_binaries: dict[str, Path]) -> Iterator[LocalCluster]:
    """A control plane for the tests of installing and uninstalling."""
    with LocalCluster() as cluster:
        yield cluster


@pytest_asyncio.fixture
async def admin(install_cluster: LocalCluster) -> AsyncIterator[Client]:
    """An administrator. Muster is installed or not: that takes seconds, so tests do it only if need be."""
    async with await Client.connect(install_cluster.kubeconfig, request_timeout=LIMIT) as one:
        await one.delete(JOBS, propagation="Background")
        await becomes(lambda: cleared(one))
        await becomes(lambda: usable(one, HOME))
        yield one


@pytest_asyncio.fixture
async def bare(admin: Client) -> Client:
    """An administrator of a cluster without Muster, but for the namespace: deleting one takes seconds."""
    await uninstall(admin, Removal(delete_crds=True), lambda line: None)
    await becomes(lambda: usable(admin, HOME))
    if not await exists(admin, HOME):
        await admin.create("/api/v1/namespaces", NAMESPACE)
    return admin
