"""Two tenants: how much longer the gangs of one take while the other floods the cluster with short Jobs.

What is real: ``muster run`` as a process of its own, with informers, world, engine, ledger and writers, and Postgres.
What is a model: the API server with the Job controller, the scheduler and the kubelets (``model_api_server``), which
run the pods of Jobs that are resumed.

Muster's own time begins when the event of a gang's creation is sent, and ends when the write that resumes the gang has
arrived. The time for which Muster's loop was ready to run, and other processes had all processors, is taken off. What
the API server adds before (from the creation to the event) and after (until the write is answered) is counted apart.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp

from deploy.local.processes import free_port
from queues.api.api_resources import JOBS, QUEUES
from queues.sql.embedded.server import EmbeddedPostgres
from tests.bench import processes, report
from tests.bench.mark import Mark
from tests.bench.model_objects import ClusterSize, queue, waiting_job
from tests.bench.restart import model_api_server, temporary_folder
from tests.fakes.kubeconfigs import write_kubeconfig

Document = dict[str, Any]

#: Nodes of 8 GPUs. There is always room for the gangs.
_NODES: Final = 16
#: GPUs that the flood may use at a time.
_QUOTA: Final = 48
#: Seconds that a pod runs, and between two gangs.
_RUNS: Final = 1.0
_EVERY: Final = 0.5
#: Short Jobs that are created in a second.
_RATE: Final = 80
_PATIENCE: Final = 120.0


class FloodFailed(Exception):
    """A gang was not resumed, or Muster ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTimes:
    """Seconds of the gangs of one phase."""

    #: From the event to the write, without the time in which others had the processors, and that time.
    own: list[float] = field(default_factory=list)
    starved: list[float] = field(default_factory=list)
    #: From the creation to the event, and from the write to its answer.
    api_server: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class FloodFigures:
    """A phase without short Jobs, and one with them."""

    jobs: int
    quiet: GangTimes
    flooded: GangTimes
    #: Processor time of Muster in the second phase, and how long that was.
    cpu_seconds: float
    seconds: float

    @property
    def ratio(self) -> float:
        """How many times longer the median gang took."""
        return median(self.flooded.own) / median(self.quiet.own)


def play(jobs: int, folder: Path | None = None) -> FloodFigures:
    """Both phases. ``jobs``: of the flood; ``folder``: keeps the log of Muster."""
    with temporary_folder(folder) as place, _cluster(place) as (model, muster):
        return asyncio.run(_play(jobs, model, muster))


def table(figures: FloodFigures) -> str:
    """A line for each phase."""
    phases = {"without": figures.quiet, f"with {figures.jobs:,} short Jobs": figures.flooded}
    head = f"{'p50 and p95 in seconds':<24}{'Muster':>15}{'no processor':>15}{'API server':>15}  gangs"
    lines = [
        f"{name:<24}{_percentiles(times.own)}{_percentiles(times.starved)}{_percentiles(times.api_server)}"
        f"  {len(times.own):5}"
        for name, times in phases.items()
    ]
    share = figures.cpu_seconds / figures.seconds
    return "\n".join([head, *lines, f"Muster used {share:.0%} of a processor while the short Jobs came"])


def _percentiles(seconds: list[float]) -> str:
    return f"{median(seconds):8.3f}{report.percentile(seconds, 0.95):7.3f}"


def marks(figures: FloodFigures) -> list[Mark]:
    """What must hold."""
    name = "flood: a gang of another tenant, event to write, times longer"
    return [Mark(name=name, reached=figures.ratio, unit="", must=2, aim=1.5, upwards=False)]


async def _play(jobs: int, model: str, muster: subprocess.Popen[bytes]) -> FloodFigures:
    async with aiohttp.ClientSession(model, connector=aiohttp.TCPConnector(limit=16)) as session:
        seconds = jobs / _RATE
        for document in (queue("quiet", parent="root"), queue("flood", parent="root", capability=_QUOTA)):
            await _post(session, "/model/put", {"path": QUEUES.path(), "document": document})
        await _post(session, "/model/client", {"pid": muster.pid})
        await _gangs(session, "gang-first", 4.0)
        quiet = await _gangs(session, "gang-quiet", max(seconds, 10.0))
        began, spent = time.monotonic(), processes.cpu_seconds([muster.pid])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_flood(session, jobs))
            # Not while nothing of the flood is there yet.
            await asyncio.sleep(2.0)
            flooded = tasks.create_task(_gangs(session, "gang-flood", seconds))
        spent = processes.cpu_seconds([muster.pid]) - spent
    return FloodFigures(
        jobs=jobs,
        quiet=quiet,
        flooded=flooded.result(),
        cpu_seconds=spent,
        seconds=time.monotonic() - began,
    )


async def _flood(session: aiohttp.ClientSession, jobs: int) -> None:
    began = time.monotonic()
    for number in range(jobs):
        await asyncio.sleep(max(0.0, began + number / _RATE - time.monotonic()))
        await _create(session, waiting_job(f"short-{number:05d}", "flood", 1))


async def _gangs(session: aiohttp.ClientSession, name: str, seconds: float) -> GangTimes:
    """Gangs of two pods, one after the other, for so long; each is resumed before the next one comes."""
    times, ends, number = GangTimes(), time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        gang = f"{name}-{number}"
        number += 1
        created = time.monotonic()
        await _create(session, waiting_job(gang, "quiet", 2))
        moments = await _moments(session, gang)
        if "sent" not in moments:
            continue  # Muster had it from its first LIST
        starved = moments["starved"] - moments["starved before"]
        times.own.append(moments["resumed"] - moments["sent"] - starved)
        times.starved.append(starved)
        times.api_server.append(moments["sent"] - created + moments["answered"] - moments["resumed"])
        await asyncio.sleep(_EVERY)
    return times


async def _create(session: aiohttp.ClientSession, document: Document) -> None:
    await _post(session, JOBS.path(document["metadata"]["namespace"]), document)


async def _post(session: aiohttp.ClientSession, path: str, document: Document) -> None:
    async with session.post(path, json=document) as answer:
        await answer.read()


async def _moments(session: aiohttp.ClientSession, gang: str) -> dict[str, float]:
    """When the event of a gang was sent, and when it was resumed. Raises FloodFailed."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        async with session.get(f"/model/moments/{gang}") as answer:
            moments: dict[str, float] = await answer.json()
        if "answered" in moments:
            return moments
        await asyncio.sleep(0.05)
    raise FloodFailed(f"{gang} was not resumed within {_PATIENCE:.0f} s")


@contextmanager
def _cluster(place: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The model and a leader; gives the model's URL and the leader's process."""
    size = ClusterSize(nodes=_NODES, pending=0, finished=0, running=0, burst=0, departures=0)
    server = EmbeddedPostgres()
    with model_api_server(size, _RUNS) as model, (place / "muster.log").open("wb") as log:
        port, kubeconfig = free_port(), write_kubeconfig(place / "kubeconfig", model)
        command = ["run", "--kubeconfig", str(kubeconfig), "--http-listen", f"127.0.0.1:{port}"]
        try:
            dsn = server.start(place / "postgres")
            muster = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "admission.cli.muster",
                    *command,
                    "--identity",
                    "leader",
                    "--dsn",
                    dsn,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                yield model, muster
            finally:
                muster.terminate()
                with suppress(subprocess.TimeoutExpired):
                    muster.wait(30)
                muster.kill()
        finally:
            server.stop()
