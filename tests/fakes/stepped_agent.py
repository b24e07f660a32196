"""Agents for tests: devices that a test changes, a Node and pods that it writes, and an API server in memory."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from admission.agent.agent import Agent
from admission.agent.cluster.api_client import ApiClient
from admission.agent.cluster.node_watch import WatchedNode
from admission.agent.pod_info import PodInfo
from admission.agent.readings import DeviceEvent, DeviceReading, NodeReading, Telemetry
from admission.agent.settings import AgentSettings
from tests.fakes.agent_api import AgentApi

NODE = WatchedNode(uid="uid-1")
POLL = 10.0


def reading(count: int = 2, **telemetry: Any) -> NodeReading:
    """Devices of one model."""
    return NodeReading(
        vendor="nvidia",
        driver_version="570.1",
        devices=tuple(
            DeviceReading(
                id=f"GPU-{index}",
                index=index,
                minor=index,
                model="NVIDIA H100 80GB HBM3",
                memory_bytes=80 << 30,
                telemetry=Telemetry(**telemetry),
            )
            for index in range(count)
        ),
    )


def with_device(whole: NodeReading, index: int, **changes: Any) -> NodeReading:
    """A reading with one device that is otherwise."""
    devices = list(whole.devices)
    devices[index] = replace(devices[index], **changes)
    return replace(whole, devices=tuple(devices))


def running_pod(name: str = "train-0", **facts: Any) -> PodInfo:
    """A pod of a queue."""
    given: dict[str, Any] = {"queue": "team-a", "group": "train", "user": "alice", **facts}
    return PodInfo(uid=f"uid-of-{name}", kubelet_uid=f"uid-of-{name}", namespace="ml", name=name, **given)


class ScriptedDevices:
    """A vendor's library that says what a test has it say."""

    def __init__(self, answer: NodeReading | Exception) -> None:
        self.answer = answer
        #: How often it let go of the driver.
        self.closed = 0

    def read(self) -> NodeReading:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def wait(self, seconds: float) -> tuple[DeviceEvent, ...]:
        return ()

    def close(self) -> None:
        self.closed += 1


class _SeenNode:
    """What the watches would tell."""

    def __init__(self) -> None:
        self.node: WatchedNode | None = NODE
        self.pods: Mapping[str, PodInfo] | None = {}


class SteppedAgent:
    """An agent whose parts take their turns when a test says so."""

    def __init__(
        self,
        folder: Path,
        answer: NodeReading | Exception | None = None,
        *,
        start_spread_seconds: float = 0,
    ) -> None:
        self.folder = folder
        self.api = AgentApi()
        self.api.put("/api/v1/nodes/n1", {"metadata": {"name": "n1", "labels": {}}})
        self.library = ScriptedDevices(reading() if answer is None else answer)
        self.settings = AgentSettings(
            node_name="n1",
            poll_seconds=POLL,
            start_spread_seconds=start_spread_seconds,
            kubelet_dir=str(folder),
        )
        self.checkpoint = folder / "device-plugins/kubelet_internal_checkpoint"
        self.now = 0.0
        self.seen = _SeenNode()
        self.start()

    def start(self) -> None:
        """A new process of the agent on the same node."""
        client = cast(ApiClient, self.api)
        self.agent = Agent(
            self.settings, client, {"nvidia": self.library}, rng=random.Random(1), clock=lambda: self.now
        )
        self.agent.node = cast(Any, self.seen)

    def turn(self, seconds: float = POLL, *, answers: bool = True) -> None:
        """Time passes; the devices are read (``answers``: or that hangs), the loop steps, and everything is written."""
        self.now += seconds
        if answers:
            self.agent.devices[0].read()
        self.agent.step(1_700_000_000 + self.now, self.now)
        at = self.now
        while at < self.now + 5:
            at += max(self.agent.reporter.step(at), 0.01)

    def metrics(self) -> str:
        """What a scrape of the agent gets."""
        self.agent.metrics.requests = dict
        registry = CollectorRegistry()
        registry.register(self.agent.metrics)
        return generate_latest(registry).decode()

    def happened(self, event: DeviceEvent) -> None:
        self.agent.devices[0].happened((event,))

    @property
    def device(self) -> dict[str, Any] | None:
        """The Device object."""
        return self.api.objects.get("/apis/scheduling.koordinator.sh/v1alpha1/devices/n1")

    def health(self) -> list[bool]:
        assert self.device is not None
        return [each["health"] for each in self.device["spec"]["devices"]]

    def conditions(self, index: int) -> set[str]:
        """Types of the problems of a device."""
        assert self.device is not None
        conditions = self.device["spec"]["devices"][index]["conditions"]
        return {each["type"] for each in conditions if each["status"] == "True"} - {"Healthy"}
