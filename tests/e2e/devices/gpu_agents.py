"""``muster agent`` as a process for one node of a sandbox, with devices that are made up."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from queues.api.api_resources import DEVICES, NODES
from queues.errors import ApiError
from tests.e2e.support.sandbox import Sandbox
from tests.fakes.nvml.fake_nvml import FakeNvml
from tests.kube.support.agent_account import agent_kubeconfig
from tests.waiting import LIMIT


class GpuNode:
    """A node, its devices as NVML tells them, and its kubelet's record of which pod has which."""

    def __init__(self, sandbox: Sandbox, name: str, folder: Path) -> None:
        self.sandbox, self.name, self.folder = sandbox, name, folder
        self.nvml = FakeNvml(folder / "nvml")
        (folder / "device-plugins").mkdir(parents=True)

    def uuids(self) -> list[str]:
        return [each.uuid.decode() for each in self.nvml.devices()]

    def device_object(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self.sandbox.api.get(DEVICES.path(name=self.name))
        except ApiError as error:
            if error.facts["status"] == 404:
                return None
            raise
        return found

    def healthy(self) -> list[bool]:
        """Whether each device is, as the agent reports them."""
        found = self.device_object()
        return [] if found is None else [each["health"] for each in found["spec"]["devices"]]

    def give_devices(self) -> None:
        """The kubelet gives the pods that are on the node as many devices as they ask for."""
        left, entries = self.uuids(), list[dict[str, Any]]()
        for pod in self.sandbox.pods():
            if pod["spec"].get("nodeName") == self.name:
                asked = int(pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"])
                entries.append(
                    {
                        "PodUID": pod["metadata"]["uid"],
                        "ContainerName": "main",
                        "ResourceName": "nvidia.com/gpu",
                        "DeviceIDs": {"0": left[:asked]},
                    }
                )
                left = left[asked:]
        self._write_checkpoint(entries)

    def _write_checkpoint(self, entries: list[dict[str, Any]]) -> None:
        draft = self.folder / "device-plugins" / "draft"
        known = {"PodDeviceEntries": entries, "RegisteredDevices": {}}
        draft.write_text(json.dumps({"Data": known}))
        draft.replace(draft.with_name("kubelet_internal_checkpoint"))

    @contextmanager
    def agent(self, metrics: str = "") -> Iterator[None]:
        """Its agent runs while the block goes on. ``metrics``: where it serves them; "": nowhere."""
        sandbox = self.sandbox
        document = sandbox.api.get(NODES.path(name=self.name))
        kubeconfig = agent_kubeconfig(sandbox.stack.cluster, self.folder, document)
        command = [sys.executable, "-m", "admission.cli.muster", "agent", "--kubeconfig", str(kubeconfig)]
        flags = {
            "node-name": self.name,
            "kubelet-dir": str(self.folder),
            "metrics-listen": metrics,
            "start-spread-seconds": "0",
            "poll-seconds": "0.5",
        }
        given = [part for name, text in flags.items() for part in (f"--{name}", text)]
        with (self.folder / "agent.log").open("wb") as log:
            environment = {**os.environ, **self.nvml.environment()}
            running = subprocess.Popen([*command, *given], env=environment, stderr=log, stdout=log)
            try:
                yield
            finally:
                running.terminate()
                running.wait(LIMIT)
                print((self.folder / "agent.log").read_text())
