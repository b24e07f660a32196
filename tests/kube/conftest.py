"""What tests against a real API server share."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from admission.kube.client import Client
from deploy.local.cluster import LocalCluster
from deploy.local.components import ClusterOptions
from tests.kube.fake_api_server import FakeApiServer


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
    fake = FakeApiServer()
    await fake.start()
    yield fake
    await fake.stop()


@pytest_asyncio.fixture
async def client(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    """Somebody who talks to that server."""
    async with await Client.connect(server.kubeconfig(tmp_path)) as connected:
        yield connected
