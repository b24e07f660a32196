"""``kubectl muster`` with the real kubectl, through the real API server's service proxy, with RBAC."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest_asyncio

from admission.settings import Address
from admission.web.app import serving
from deploy.local.cluster import LocalCluster
from queues.errors import ApiError
from tests.fakes.fake_reader import FakeReader, fake_app

NAMESPACE = "muster-plugin"


@dataclass(frozen=True)
class Plugin:
    cluster: LocalCluster

    async def kubectl(
        self, *words: str, kubeconfig: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig or self.cluster.kubeconfig)}
        environment.pop("MUSTER_SERVER", None)
        argv = [str(self.cluster.kubectl), *words]
        return await asyncio.to_thread(
            subprocess.run, argv, env=environment, capture_output=True, text=True, timeout=60, check=False
        )


def own_address() -> str:
    """An address of this machine that the API server agrees to talk to: not the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # a documentation address: nothing is sent
        return str(probe.getsockname()[0])


def publish(cluster: LocalCluster, port: int) -> None:
    """A Service with one pod behind it; the API server lets nothing but pods answer for a Service."""
    address = own_address()
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "muster-0"},
        "spec": {"nodeName": "elsewhere", "containers": [{"name": "muster", "image": "muster"}]},
    }
    running = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "muster"},
        "spec": {"ports": [{"name": "http", "port": 8080, "targetPort": port}]},
    }
    behind = {"ip": address, "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": "muster-0"}}
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "muster"},
        "subsets": [{"addresses": [behind], "ports": [{"name": "http", "port": port}]}],
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    here = f"/api/v1/namespaces/{NAMESPACE}"
    with cluster.client() as api:
        api.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        with contextlib.suppress(ApiError):  # its controller was faster; if neither is there, the pod fails
            api.create(f"{here}/serviceaccounts", account)
        api.create(f"{here}/pods", pod)
        api.merge(f"{here}/pods/muster-0/status", running)
        api.create(f"{here}/services", service)
        api.create(f"{here}/endpoints", endpoints)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plugin(local_cluster: LocalCluster) -> AsyncIterator[Plugin]:
    async with serving(fake_app(FakeReader(), {}), Address("0.0.0.0", 0)) as port:
        await asyncio.to_thread(publish, local_cluster, port)
        yield Plugin(local_cluster)


async def test_kubectl_finds_the_plugin_and_the_plugin_finds_muster(plugin: Plugin) -> None:
    said = await plugin.kubectl("muster", "queues", "--muster-namespace", NAMESPACE)

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[1].split() == [
        "root",
        "open",
        "nvidia.com/gpu",
        "48",
        "64",
        "64",
        "0.75",
        "3",
        "4",
    ]


async def test_problems_of_muster_come_through_the_proxy(plugin: Plugin) -> None:
    said = await plugin.kubectl("muster", "explain", "tune-4", "-n", "ml", "--muster-namespace", NAMESPACE)

    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr == "Error: There is no workload tune-4 in namespace ml.\nDid you mean tune-3?\n"


async def test_whoever_may_not_read_is_told_which_right_is_missing(plugin: Plugin) -> None:
    alice = plugin.cluster.kubeconfig_for("alice", ["nobody"])

    said = await plugin.kubectl("muster", "queues", "--muster-namespace", NAMESPACE, kubeconfig=alice)

    assert said.returncode == 1
    assert 'User "alice" cannot get resource "services/proxy"' in said.stderr
    assert "the Role muster-reader in namespace muster-plugin" in said.stderr


async def test_a_cluster_without_muster_is_told_as_such(plugin: Plugin) -> None:
    said = await plugin.kubectl("muster", "queues", "--muster-namespace", "default")

    assert said.returncode == 1
    assert "There is no service muster in namespace default. Is Muster installed there?" in said.stderr


async def test_flags_before_the_plugins_name_are_refused_by_kubectl(plugin: Plugin) -> None:
    said = await plugin.kubectl("-n", "ml", "muster", "pending")

    assert said.returncode == 1
    assert "flags cannot be placed before plugin name" in said.stderr


async def test_kubectl_completes_with_names_from_muster(plugin: Plugin) -> None:
    said = await plugin.kubectl("__complete", "muster", "--muster-namespace", NAMESPACE, "queues", "team-")

    assert said.stdout == "team-a\topen, 2 pending, 3 admitted\nteam-b\topen, 1 pending, 1 admitted\n:4\n"
