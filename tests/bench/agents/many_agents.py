"""Hundreds of agents in one process against one API server: what they ask, and what that costs it.

The agents are those of the product, threads and connections included; only their devices are made up. Nodes are silent:
what the API server does beside them is measured before they start, and taken off.
"""

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import gt
from pathlib import Path
from typing import Any

from admission.agent.agent import Agent
from admission.agent.cluster.api_client import ApiClient
from admission.agent.readings import DeviceEvent, EventKind
from admission.agent.settings import AgentSettings
from admission.api_connection import Access
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import DEVICES, NODES
from tests.bench import processes
from tests.bench.mark import Mark
from tests.fakes.stepped_agent import ScriptedDevices, reading
from tests.kube.support.agent_account import agent_token, authority
from tests.waiting import until

_XID = DeviceEvent(kind=EventKind.XID, device="GPU-1", code=79)
#: Agents of a real cluster that these figures are for.
_CLUSTER = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """What was asked of the API server in a time, and what it used for that beyond its own."""

    name: str
    seconds: float
    requests: dict[str, int]
    #: Writes of Devices and Nodes.
    writes: int
    #: Of leases.
    renewals: int
    processor_seconds: float


@dataclass(slots=True)
class ManyAgents:
    """All phases."""

    agents: int
    phases: list[Phase] = field(default_factory=list)
    #: Resident memory of the API server that each agent's connections and watches take, in MB.
    memory_mb: float = 0.0
    #: Seconds from one event on every node until the last Device had it.
    storm_seconds: float = 0.0

    def phase(self, name: str) -> Phase:
        return next(each for each in self.phases if each.name == name)


class _Fleet:
    """Agents with a Node each."""

    def __init__(self, cluster: LocalCluster, count: int, folder: Path) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self._api_server = cluster.running["kube-apiserver"].pid
        names = cluster.add_nodes(count, prefix="agents-bench")
        trust = authority(cluster)
        self.clients: list[ApiClient] = []
        self.all: list[Agent] = []
        with cluster.client() as admin:
            for number, name in enumerate(names):
                token = folder / name
                token.write_text(agent_token(admin, admin.get(NODES.path(name=name))))
                endpoint = Access(server=cluster.url, authority=trust, token_file=token)
                self.clients.append(ApiClient(endpoint))
                settings = AgentSettings(node_name=name, kubelet_dir=str(folder))
                vendors = {"nvidia": ScriptedDevices(reading(8))}
                self.all.append(Agent(settings, self.clients[-1], vendors, rng=random.Random(number)))

    def start(self) -> None:
        for each in self.all:
            threading.Thread(target=each.run, args=(self._stop,), daemon=True).start()

    def stop(self) -> None:
        self._stop.set()
        for each in self.all:
            each.wake.set()

    def device_writes(self) -> list[int]:
        """How often each of them has written its Device."""
        return [each.reporter.writes.get("device", 0) for each in self.all]

    def have_written(self) -> bool:
        """Whether each of them has written its Device and the labels of its Node."""
        return all(self.device_writes()) and all("node" in each.reporter.writes for each in self.all)

    def have_faults(self) -> bool:
        """Whether all have noticed what happened."""
        return all(
            any(metric.name == "muster_gpu_condition" and metric.samples for metric in each.metrics.collect())
            for each in self.all
        )

    def writes(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for each in self.all:
            found.update(each.reporter.writes)
            found["lease"] += each.heartbeat.renewals
        return found

    def requests(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for client in self.clients:
            for (verb, status), count in client.requests.items():
                found[f"{verb} {status}"] += count
        return found

    def measured(self, name: str, during: Callable[[], object], beside: float = 0.0) -> Phase:
        """What something took. ``beside``: cores that the API server uses for itself."""
        requests, writes = self.requests(), self.writes()
        used, began = processes.cpu_seconds([self._api_server]), time.monotonic()
        during()
        seconds = time.monotonic() - began
        spent = processes.cpu_seconds([self._api_server]) - used
        written = self.writes() - writes
        return Phase(
            name=name,
            seconds=seconds,
            requests=dict(self.requests() - requests),
            writes=written["device"] + written["node"],
            renewals=written["lease"],
            processor_seconds=spent - beside * seconds,
        )

    def resident_mb(self) -> float:
        status = Path(f"/proc/{self._api_server}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1000


def play(cluster: LocalCluster, agents: int, seconds: float) -> ManyAgents:
    """They start, are idle for so many seconds, and then each has an event at the same moment."""
    figures = ManyAgents(agents=agents)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-agents-")))
        fleet = _Fleet(cluster, agents, folder)
        stack.callback(fleet.stop)
        pid = cluster.running["kube-apiserver"].pid
        processes.wait_until_idle([pid])
        alone = fleet.measured("before", lambda: time.sleep(seconds / 2))
        beside, memory = alone.processor_seconds / alone.seconds, fleet.resident_mb()

        def start() -> None:
            fleet.start()
            until(fleet.have_written, "all reports")
            until(lambda: fleet.writes()["lease"] >= agents, "all leases")

        figures.phases.append(fleet.measured("start", start, beside))
        processes.wait_until_idle([pid])
        figures.phases.append(fleet.measured("idle", lambda: time.sleep(seconds), beside))
        figures.memory_mb = (fleet.resident_mb() - memory) / agents

        def storm() -> None:
            began, written = time.monotonic(), fleet.device_writes()
            for each in fleet.all:
                each.devices[0].happened((_XID,))
            until(
                lambda: fleet.have_faults() and all(map(gt, fleet.device_writes(), written)),
                "all faults",
            )
            figures.storm_seconds = time.monotonic() - began

        figures.phases.append(fleet.measured("storm", storm, beside))
        with cluster.client() as admin:
            stored: list[dict[str, Any]] = admin.get(DEVICES.path())["items"]
        faulty = [each for each in stored if not all(one["health"] for one in each["spec"]["devices"])]
        assert len(faulty) >= agents, f"{len(faulty)} of {agents} Devices have the fault"
    return figures


def marks(figures: ManyAgents) -> list[Mark]:
    """What must hold. Shares of a core are of the API server, and for 5,000 agents.

    It takes about 75 % of a core to renew the leases of 5,000 kubelets, 500 a second of 1.5 ms each: agents have to
    take less.
    """
    idle, start = figures.phase("idle"), figures.phase("start")
    scale = _CLUSTER / figures.agents

    def mark(name: str, reached: float, unit: str, must: float, aim: float) -> Mark:
        return Mark(
            name=f"{figures.agents} agents: {name}",
            reached=reached,
            unit=unit,
            must=must,
            aim=aim,
            upwards=False,
        )

    others = sum(idle.requests.values()) - idle.renewals
    share = idle.processor_seconds / idle.seconds * 100 * scale
    return [
        mark("writes while nothing changes, leases aside", idle.writes, "", 0, 0),
        mark(
            "requests beside leases, each minute and agent",
            others / idle.seconds * 60 / figures.agents,
            "",
            0.6,
            0.4,
        ),
        mark(f"API server while idle, of a core, × {scale:g}", share, "%", 75, 40),
        mark(
            "API server: processor time of a start, each agent",
            start.processor_seconds / figures.agents * 1000,
            "ms",
            60,
            30,
        ),
        mark("an event on every node is written within", figures.storm_seconds, "s", 15, 5),
    ]


def table(figures: ManyAgents) -> str:
    """A line per phase."""
    lines = [f"{'':<8}{'seconds':>8}{'writes':>8}{'CPU s':>8}  requests"]
    for each in figures.phases:
        told = ", ".join(f"{name}: {count}" for name, count in sorted(each.requests.items()))
        lines.append(f"{each.name:<8}{each.seconds:8.1f}{each.writes:8}{each.processor_seconds:8.2f}  {told}")
    return "\n".join([*lines, f"memory of the API server: {figures.memory_mb:.2f} MB each agent"])
