"""A node agent beside a real API server: with the account, the rights and the policy that it has in a cluster."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from admission.agent.agent import Agent
from admission.agent.settings import AgentSettings
from deploy.local.client import LocalClient
from deploy.local.cluster import LocalCluster
from deploy.local.processes import free_port
from queues.api.api_resources import DEVICES, LEASES, NODES, PODS
from queues.api.names import AGENT_NAMESPACE
from queues.errors import ApiError
from tests.fakes.nvml.fake_nvml import FakeNvml
from tests.fakes.stepped_agent import ScriptedDevices, reading
from tests.kube.support.agent_account import agent_client, agent_kubeconfig, two_nodes
from tests.kube.support.cluster_objects import pod
from tests.kube.support.guarded_namespace import MUSTER
from tests.waiting import LIMIT, until


def _device(admin: LocalClient, name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = admin.get(DEVICES.path(name=name))
    except ApiError as error:
        if error.facts["status"] == 404:
            return None
        raise
    return found


class RunningAgent:
    """An agent in this process, with devices that the test changes."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.node, _ = two_nodes(cluster)
        self.name = str(self.node["metadata"]["name"])
        self.admin: LocalClient = cluster.client()
        self.client = agent_client(cluster, folder, self.node)
        self.kubelet = folder
        settings = AgentSettings(
            node_name=self.name, poll_seconds=0.3, start_spread_seconds=0, kubelet_dir=str(folder)
        )
        library = {"nvidia": ScriptedDevices(reading())}
        self.agent = Agent(settings, self.client, library, rng=random.Random(1))
        self.stop = threading.Event()
        self._thread = threading.Thread(target=self.agent.run, args=(self.stop,))
        self._thread.start()

    def end(self) -> None:
        self.stop.set()
        self.agent.wake.set()
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        self.client.close()
        self.admin.close()

    def device(self) -> dict[str, Any] | None:
        return _device(self.admin, self.name)

    def health(self) -> list[bool]:
        device = self.device()
        return [] if device is None else [each["health"] for each in device["spec"]["devices"]]

    def gives(self, uid: str, *devices: str) -> None:
        """The kubelet writes what it gave to a pod."""
        entry = {
            "PodUID": uid,
            "ContainerName": "main",
            "ResourceName": "nvidia.com/gpu",
            "DeviceIDs": {"0": list(devices)},
        }
        folder = self.kubelet / "device-plugins"
        folder.mkdir(exist_ok=True)
        draft = folder / "draft"
        draft.write_text(json.dumps({"Data": {"PodDeviceEntries": [entry]}}))
        draft.replace(folder / "kubelet_internal_checkpoint")


@pytest.fixture
def agent(agents_cluster: LocalCluster, tmp_path: Path) -> Iterator[RunningAgent]:
    running = RunningAgent(agents_cluster, tmp_path)
    yield running
    running.end()


def test_an_agent_reports_its_devices_and_labels_its_node(agent: RunningAgent) -> None:
    until(lambda: agent.health() == [True, True], "the Device")
    device = agent.device()
    assert device is not None
    (owner,) = device["metadata"]["ownerReferences"]
    assert owner["uid"] == agent.node["metadata"]["uid"]

    def labels() -> dict[str, str]:
        found: dict[str, str] = agent.admin.get(NODES.path(name=agent.name))["metadata"]["labels"]
        return found

    until(lambda: labels().get("muster.dev/gpu-count") == "2", "the labels")
    assert labels()["node.koordinator.sh/gpu-vendor"] == "nvidia"
    lease = LEASES.path(AGENT_NAMESPACE, agent.name)
    until(lambda: bool(agent.admin.get(lease)["spec"]["renewTime"]), "the lease")


def test_what_a_person_says_of_a_device_counts_until_it_is_taken_back(agent: RunningAgent) -> None:
    until(lambda: agent.health() == [True, True], "the Device")
    node = NODES.path(name=agent.name)
    agent.admin.merge(node, {"metadata": {"annotations": {"muster.dev/gpu-unhealthy": "1=smells"}}})
    until(lambda: agent.health() == [True, False], "the mark")
    agent.admin.merge(node, {"metadata": {"annotations": {"muster.dev/gpu-unhealthy": None}}})
    until(lambda: agent.health() == [True, True], "the mark taken back")


def test_the_devices_of_a_pod_are_reported(agent: RunningAgent, agents_cluster: LocalCluster) -> None:
    document = pod("with-a-device", nodeName=agent.name)
    with LocalClient(agents_cluster.kubeconfig_for(MUSTER, ("system:masters",))) as muster:
        made = muster.create(PODS.path("default"), document)
    agent.gives(made["metadata"]["uid"], "GPU-1")

    def entries() -> list[dict[str, Any]]:
        found = (agent.device() or {}).get("status", {}).get("allocations", [])
        return [entry for allocation in found for entry in allocation["entries"]]

    until(lambda: bool(entries()), "the allocation")
    assert [(entry["name"], entry["minors"]) for entry in entries()] == [("with-a-device", [1])]


# ── as a process ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def nvml(tmp_path: Path) -> FakeNvml:
    fake = FakeNvml(tmp_path / "nvml")
    for _ in range(2):
        fake.add_device("H100", nvlinks="switched")
    return fake


@pytest.fixture
def process(
    agents_cluster: LocalCluster, tmp_path: Path, nvml: FakeNvml
) -> Iterator[tuple[subprocess.Popen[bytes], str, int]]:
    """``muster agent`` of a node with two made up devices; with the name of the node and the port of the metrics."""
    node, _ = two_nodes(agents_cluster)
    name, port = str(node["metadata"]["name"]), free_port()
    kubeconfig = agent_kubeconfig(agents_cluster, tmp_path, node)
    command = [sys.executable, "-m", "admission.cli.muster", "agent", "--kubeconfig", str(kubeconfig)]
    flags = ["--node-name", name, "--metrics-listen", f"127.0.0.1:{port}", "--start-spread-seconds", "0"]
    flags += ["--poll-seconds", "1"]
    with (tmp_path / "agent.log").open("wb") as log:
        running = subprocess.Popen(
            [*command, *flags], env={**os.environ, **nvml.environment()}, stderr=log, stdout=log
        )
        yield running, name, port
        running.kill()
        running.wait()
    print((tmp_path / "agent.log").read_text())


def test_the_process_reports_what_nvml_says_serves_metrics_and_ends(
    process: tuple[subprocess.Popen[bytes], str, int], nvml: FakeNvml, agents_cluster: LocalCluster
) -> None:
    running, name, port = process
    with agents_cluster.client() as admin:

        def health() -> dict[str, bool]:
            devices = (_device(admin, name) or {"spec": {"devices": []}})["spec"]["devices"]
            return {each["id"]: each["health"] for each in devices}

        first, second = (each.uuid.decode() for each in nvml.devices())
        until(lambda: health() == {first: True, second: True}, "the Device")
        nvml.xid(second, 79)
        until(lambda: health() == {first: True, second: False}, "the fault")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT) as answer:
        assert 'muster_gpu_healthy{gang="",gpu="1"' in answer.read().decode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=LIMIT) as answer:
        assert answer.status == 200
    running.send_signal(signal.SIGTERM)
    assert running.wait(LIMIT) == 0


def test_the_process_ends_at_once_also_while_nvml_hangs(
    process: tuple[subprocess.Popen[bytes], str, int], nvml: FakeNvml, agents_cluster: LocalCluster
) -> None:
    running, name, port = process
    with agents_cluster.client() as admin:
        until(lambda: _device(admin, name) is not None, "the Device")
    nvml.slow(3_600_000)
    nvml.xid(next(nvml.devices()).uuid.decode(), 79)

    def hangs() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT) as answer:
            text = answer.read().decode()
        silent = re.search(r'^muster_agent_silent_seconds\{vendor="nvidia"\} (\S+)$', text, re.M)
        return silent is not None and float(silent[1]) > 3

    until(hangs, "a reading that does not come")
    running.send_signal(signal.SIGTERM)
    assert running.wait(LIMIT) == 0
