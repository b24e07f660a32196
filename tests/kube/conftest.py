"""What tests against a real API server share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.cluster import LocalCluster
from deploy.local.components import ClusterOptions


@pytest.fixture(scope="session")
def door_cluster(kubernetes_binaries: dict[str, Path]) -> Iterator[LocalCluster]:
    """A control plane whose admission policies and webhooks are the tests' own to install and remove."""
    # Some clusters ask for a right on an owner before an object may block its deletion.
    flags = ("--enable-admission-plugins=OwnerReferencesPermissionEnforcement",)
    with LocalCluster(options=ClusterOptions(api_server_flags=flags)) as cluster:
        yield cluster
