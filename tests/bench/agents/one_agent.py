"""One agent as a process of its own, on a made-up node of 8 GPUs: how long it reads, and what it takes."""

import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from deploy.local.cluster import LocalCluster
from deploy.local.processes import free_port
from tests.bench import processes
from tests.bench.mark import Mark
from tests.fakes.nvml.fake_nvml import FakeNvml
from tests.kube.support.agent_account import agent_kubeconfig, two_nodes
from tests.waiting import until

#: Milliseconds that each call into the made-up NVML takes at least.
CALL: float = 0.05
GPUS, PROCESSES = 8, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OneAgent:
    """What the process took in a minute in which nothing changed."""

    read_milliseconds: float
    start_seconds: float
    memory_mb: float
    #: Of one core.
    processor_percent: float


def play(cluster: LocalCluster, seconds: float) -> OneAgent:
    """Start, wait for the Device, look for so many seconds."""
    with tempfile.TemporaryDirectory(prefix="muster-agent-") as name:
        folder = Path(name)
        nvml = FakeNvml(folder / "nvml")
        for _ in range(GPUS):
            device = nvml.add_device("H100", nvlinks="switched")
            for _ in range(PROCESSES):
                nvml.run(device, os.getpid())
        nvml.slow(CALL)
        node, _ = two_nodes(cluster)
        port = free_port()
        kubeconfig = agent_kubeconfig(cluster, folder, node)
        command = [sys.executable, "-m", "admission.cli.muster", "agent", "--kubeconfig", str(kubeconfig)]
        flags = ["--node-name", node["metadata"]["name"], "--metrics-listen", f"127.0.0.1:{port}"]
        began = time.monotonic()
        process = subprocess.Popen(
            [*command, *flags, "--start-spread-seconds", "0"],
            env={**os.environ, **nvml.environment(), "FAKE_NVML_PAUSE_MS": "500"},
            stderr=subprocess.DEVNULL,
        )
        try:
            until(lambda: _metric(port, 'muster_agent_writes_total{object="node"}') == 1, "the first report")
            started = time.monotonic() - began
            before = processes.cpu_seconds([process.pid])
            # A scrape each 15 seconds belongs to it.
            for _ in range(round(seconds / 15)):
                time.sleep(15)
                _metrics(port)
            used = processes.cpu_seconds([process.pid]) - before
            readings = _metric(port, 'muster_agent_readings_total{vendor="nvidia"}')
            took = _metric(port, 'muster_agent_read_seconds_total{vendor="nvidia"}')
            return OneAgent(
                read_milliseconds=took / readings * 1000,
                start_seconds=started,
                memory_mb=processes.peak_memory_mb(process.pid),
                processor_percent=used / (round(seconds / 15) * 15) * 100,
            )
        finally:
            process.kill()
            process.wait()


def marks(figures: OneAgent) -> list[Mark]:
    """What must hold."""

    def mark(name: str, reached: float, unit: str, must: float, aim: float) -> Mark:
        return Mark(name=f"agent: {name}", reached=reached, unit=unit, must=must, aim=aim, upwards=False)

    return [
        mark(f"{GPUS} GPUs are read in", figures.read_milliseconds, "ms", 120, 60),
        mark("peak memory", figures.memory_mb, "MB", 50, 40),
        mark("processor time while nothing changes, of a core", figures.processor_percent, "%", 0.5, 0.25),
    ]


def _metrics(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text: bytes = answer.read()
            return text.decode()
    except OSError:
        return ""


def _metric(port: int, series: str) -> float:
    found = re.search(rf"^{re.escape(series)} (\S+)$", _metrics(port), re.M)
    return 0.0 if found is None else float(found[1])
