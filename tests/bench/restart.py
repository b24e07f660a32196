"""Restarts of a large cluster: how long a new leader takes to its first decision, and what large changes cost it.

What is real: ``muster run`` as a process of its own, with its informers over HTTP, its decoding, its world, engine,
intake and ledger, and Postgres. What is a model: the API server (``model_api_server``), a process that lists, streams
and stores, and does nothing else. So this leaves out the API server's own slowness, and all consequences of releasing
pods: none are made, bound or run.

The first leader finds an empty database and a full cluster: it adopts all that runs, which rebuilds the ledger. The
second one finds the database as the first left it, with a closed admission for each finished Job beside.
"""

import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg

from deploy.local.processes import free_port
from queues.api.api_resources import JOBS, QUEUES
from queues.sql.database import raw_connection
from queues.sql.embedded.server import EmbeddedPostgres
from queues.sql.lease_times import LEASE_SECONDS, RETRY_SECONDS
from tests.bench import processes
from tests.bench.mark import Mark
from tests.bench.model_objects import PAUSED, ClusterSize, job_that_mounts, queue
from tests.fakes.kubeconfigs import write_kubeconfig

#: Seconds that any phase may take.
_PATIENCE: Final = 900.0
#: Seconds between two looks.
_LOOK: Final = 0.1

#: Of the second leader, which finds the database full.
_MARKED_PHASES: Final = ("restart", "departures", "admissions")

#: Seconds that are left of the lease, and since when the oldest transaction of Muster that has written goes on.
_SEEN: Final = """
SELECT extract(epoch FROM expires - clock_timestamp())::float AS left,
       coalesce((SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::float FROM pg_stat_activity
                 WHERE application_name LIKE 'muster%' AND backend_xid IS NOT NULL), 0) AS writing
FROM leases
"""

_COUNTS: Final = {
    "workloads": "SELECT count(*) FROM workloads",
    "described": "SELECT count(*) FROM workloads WHERE finished",
    "open": "SELECT count(*) FROM admissions",
    "reasons": "SELECT count(*) FROM reasons",
}

#: The finished Jobs held something once.
_CLOSED_ADMISSIONS: Final = """
INSERT INTO closed_admissions (id, kind, uid, namespace, name, queue, priority, generation, started, opened_at,
                               held_since, admitted_at, closed_at, term, pod_sets, ordinals, nodes, flavors, shape_of,
                               shapes)
SELECT nextval(pg_get_serial_sequence('admissions', 'id')), kind, uid, namespace, name, queue, 0, '1', true, now(),
       now(), now(), now(), 1, '{main,main}', '{0,1}', '{node-00000,node-00001}', '{"",""}', '{0,0}', '[{"pods": 1}]'
FROM workloads WHERE finished
"""


class RestartFailed(Exception):
    """A phase of the benchmark did not end."""


@dataclass(slots=True)
class Look:
    """What is seen of the leader while something goes on."""

    #: The least time that was left of the lease. A renewal that is on time leaves lease minus retry.
    least_lease: float = LEASE_SECONDS
    #: The longest time that a question to the process took which needs nothing but its loop.
    slowest_answer: float = 0.0
    #: The longest time for which a transaction that writes was seen; one may have gone on for a look longer.
    longest_transaction: float = 0.0


@dataclass(slots=True)
class RestartFigures:
    """Seconds and megabytes."""

    size: ClusterSize
    first_start: float = 0.0
    rebuilt: float = 0.0
    decides: float = 0.0
    described: float = 0.0
    departures: float = 0.0
    burst: float = 0.0
    #: Until all claims and volumes are known, from the first Job with one on.
    volumes: float = 0.0
    volumes_mb: float = 0.0
    memory_first_mb: float = 0.0
    memory_decided_mb: float = 0.0
    memory_mb: float = 0.0
    late_renewals: int = 0
    least_lease: dict[str, float] = field(default_factory=dict)
    slowest_answer: dict[str, float] = field(default_factory=dict)
    longest_transaction: dict[str, float] = field(default_factory=dict)
    #: As the leader's metric has it at the end of the phase: of the last 5 minutes, also if the phase is shorter.
    longest_block: dict[str, float] = field(default_factory=dict)
    #: Processor time of the second leader and its children, until its first decision and until the end.
    cpu_decided: float = 0.0
    cpu_seconds: float = 0.0


def play(size: ClusterSize, folder: Path | None = None) -> RestartFigures:
    """All phases, one after the other. ``folder``: keeps the logs of the leaders."""
    return asyncio.run(_play(size, folder))


def marks(figures: RestartFigures) -> list[Mark]:
    """What must hold of a cluster of this size."""

    def seconds(name: str, reached: float, must: float, aim: float) -> Mark:
        return Mark(name=name, reached=reached, unit="s", must=must, aim=aim, upwards=False)

    size = figures.size
    late = Mark(
        name="restart: renewals of the lease that were late",
        reached=figures.late_renewals,
        unit="",
        must=0,
        aim=0,
        upwards=False,
    )
    memory = Mark(
        name="restart: peak memory of the leader",
        reached=max(figures.memory_first_mb, figures.memory_mb),
        unit="MB",
        must=700,
        aim=450,
        upwards=False,
    )
    block = max(figures.longest_block[phase] for phase in _MARKED_PHASES)
    transaction = max(figures.longest_transaction[phase] for phase in _MARKED_PHASES)
    return [
        seconds("restart: a new leader decides after", figures.decides, 30, 15),
        seconds(f"restart: {size.departures:,} departures at once take", figures.departures, 10, 5),
        seconds(f"restart: {size.burst:,} admissions at once take", figures.burst, 60, 30),
        late,
        seconds("restart: longest block of the second leader's loop", block, 0.1, 0.1),
        seconds("restart: longest transaction that writes", transaction, 1, 1),
        memory,
    ]


def table(figures: RestartFigures) -> str:
    """The figures, a line each."""
    size = figures.size
    told = [
        ("first start, empty database: decides after", figures.first_start, "s"),
        (f"  … {size.running:,} running Jobs are adopted, all is stored after", figures.rebuilt, "s"),
        ("restart: decides after", figures.decides, "s"),
        ("  … all descriptions are compared after", figures.described, "s"),
        (f"{size.departures:,} departures", figures.departures, "s"),
        (f"{size.burst:,} admissions", figures.burst, "s"),
        (f"{size.claims:,} claims with their volumes, and the CSINodes: known after", figures.volumes, "s"),
        ("  … resident memory that they add", figures.volumes_mb, "MB"),
        ("  … for each claim", figures.volumes_mb * 1000 / max(1, size.claims), "kB"),
        ("peak memory of the first leader", figures.memory_first_mb, "MB"),
        ("peak memory of the second leader at its first decision", figures.memory_decided_mb, "MB"),
        ("peak memory of the second leader, volumes aside", figures.memory_mb, "MB"),
        ("processor time of the second leader until its first decision", figures.cpu_decided, "s"),
        ("processor time of the second leader in all", figures.cpu_seconds, "s"),
    ]
    lines = [f"{name:<70}{value:9.2f} {unit}" for name, value, unit in told]
    lines += [
        f"{'least time left of the lease, ' + name:<70}{figures.least_lease[name]:9.2f} s"
        f"   slowest answer {figures.slowest_answer[name]:6.3f} s"
        f"   longest block of the loop {figures.longest_block[name]:6.3f} s"
        f"   longest transaction that writes {figures.longest_transaction[name]:6.3f} s"
        for name in figures.least_lease
    ]
    return "\n".join(lines)


async def _play(size: ClusterSize, folder: Path | None) -> RestartFigures:
    figures = RestartFigures(size)
    with ExitStack() as stack:
        place = stack.enter_context(temporary_folder(folder))
        model = stack.enter_context(model_api_server(size))
        server = EmbeddedPostgres()
        dsn = server.start(place / "postgres")
        stack.callback(server.stop)
        cluster = _Cluster(place, model, dsn, figures)
        await cluster.first_start(stack)
        await cluster.restart(stack)
        await cluster.departures()
        await cluster.burst()
        await cluster.volumes()
        cluster.finish()
    return figures


class _Cluster:
    """The model, the database, and the leader of the moment."""

    def __init__(self, place: Path, model: str, dsn: str, figures: RestartFigures) -> None:
        self.place = place
        self.model = model
        self.dsn = dsn
        self.figures = figures
        self.size = figures.size
        self.leader: subprocess.Popen[bytes] | None = None
        self.http = ""
        self.kubeconfig = write_kubeconfig(place / "kubeconfig", model)

    async def first_start(self, stack: ExitStack) -> None:
        self._start(stack, "first")
        size, figures = self.size, self.figures
        began = time.monotonic()
        async with self._looking("first start"):
            await self._until("the first leader decides", self._decided)
            figures.first_start = time.monotonic() - began

            async def all_stored() -> bool:
                found = await self._counts()
                # Whether what waits in a full queue has its reason is seen from the number of reasons.
                return (
                    found["workloads"] == size.finished + size.pending + size.running
                    and found["open"] == size.running
                    and found["reasons"] >= size.pending
                )

            await self._until("all is stored", all_stored)
            figures.rebuilt = time.monotonic() - began
        assert self.leader is not None
        figures.memory_first_mb = processes.peak_memory_mb(self.leader.pid)
        self._stop()

    async def restart(self, stack: ExitStack) -> None:
        connection = await self._connect()
        await connection.execute(_CLOSED_ADMISSIONS)
        await connection.execute("VACUUM ANALYZE")
        before = await connection.fetchval("SELECT term FROM leases")
        await connection.close()
        figures = self.figures
        self._start(stack, "second")

        async def elected() -> bool:
            question = "SELECT term FROM leases WHERE expires > clock_timestamp()"
            return bool((await self._ask(question) or 0) > before)

        await self._until("the second leader is elected", elected)
        began = time.monotonic()
        async with self._looking("restart"):
            await self._until("the second leader decides", self._decided)
            figures.decides = time.monotonic() - began
            assert self.leader is not None
            figures.cpu_decided = processes.cpu_seconds([self.leader.pid])
            figures.memory_decided_mb = processes.peak_memory_mb(self.leader.pid)
            await asyncio.to_thread(processes.wait_until_idle, [self.leader.pid], share=0.6, patience=120.0)
            figures.described = time.monotonic() - began

    async def departures(self) -> None:
        left = self.size.finished + self.size.pending + self.size.running - self.size.departures
        began = time.monotonic()
        async with self._looking("departures"):
            asked = {"path": JOBS.path(), "prefix": "finished-", "count": self.size.departures}
            await asyncio.to_thread(self._post, "/model/delete", asked)

            async def gone() -> bool:
                return (await self._counts())["workloads"] == left

            await self._until("all have departed", gone)
        self.figures.departures = time.monotonic() - began

    async def burst(self) -> None:
        wanted = self.size.running + self.size.burst
        began = time.monotonic()
        async with self._looking("admissions"):
            document = queue(PAUSED, parent="root", paused=False)
            document["metadata"]["generation"] = 2
            await asyncio.to_thread(self._post, "/model/put", {"path": QUEUES.path(), "document": document})

            async def admitted() -> bool:
                return (await self._counts())["open"] == wanted

            await self._until("all are admitted", admitted)
        self.figures.burst = time.monotonic() - began
        assert self.leader is not None
        self.figures.memory_mb = processes.peak_memory_mb(self.leader.pid)

    async def volumes(self) -> None:
        """A Job with a claim comes: the informers of volumes start."""
        assert self.leader is not None
        pid = self.leader.pid
        await asyncio.to_thread(processes.wait_until_idle, [pid], share=0.6, patience=120.0)
        before = processes.memory_mb(pid)
        began = time.monotonic()
        async with self._looking("volumes"):
            # There is no such claim, so the Job says so once all are known.
            asked = {"path": JOBS.path(), "document": job_that_mounts("nowhere")}
            await asyncio.to_thread(self._post, "/model/put", asked)

            async def known() -> bool:
                return bool(await self._ask("SELECT count(*) FROM reasons WHERE code = 'VolumeMissing'"))

            await self._until("all volumes are known", known)
            self.figures.volumes = time.monotonic() - began
            await asyncio.to_thread(processes.wait_until_idle, [pid], share=0.6, patience=120.0)
        self.figures.volumes_mb = processes.memory_mb(pid) - before

    def finish(self) -> None:
        assert self.leader is not None
        self.figures.cpu_seconds = processes.cpu_seconds([self.leader.pid])
        for log in self.place.glob("*.log"):
            self.figures.late_renewals += len(re.findall("lease not renewed|term ended", log.read_text()))
        self._stop()

    # ── the leader ──────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, stack: ExitStack, name: str) -> None:
        port = free_port()
        self.http = f"http://127.0.0.1:{port}"
        log = stack.enter_context((self.place / f"{name}.log").open("wb"))
        command = ["run", "--kubeconfig", str(self.kubeconfig), "--http-listen", f"127.0.0.1:{port}"]
        self.leader = subprocess.Popen(
            [sys.executable, "-m", "admission.cli.muster", *command, "--identity", name, "--dsn", self.dsn],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        stack.callback(self._stop)

    def _stop(self) -> None:
        if self.leader is not None:
            self.leader.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.leader.wait(30)
            self.leader.kill()
            self.leader = None

    async def _decided(self) -> bool:
        return await self.metric("muster_turns_total") > 0

    async def metric(self, name: str) -> float:
        """What the leader tells by a metric without labels; 0: nothing yet."""
        text = await asyncio.to_thread(_read, f"{self.http}/metrics")
        found = re.search(rb"^%b (\S+)$" % name.encode(), text, re.M)
        return 0.0 if found is None else float(found[1])

    # ── what is seen ────────────────────────────────────────────────────────────────────────────────────────

    def _looking(self, phase: str) -> "_Looking":
        return _Looking(self, phase)

    async def _until(self, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not await holds():
            if self.leader is not None and self.leader.poll() is not None:
                raise RestartFailed(f"{what}: muster ended with status {self.leader.returncode}")
            if time.monotonic() > deadline:
                raise RestartFailed(f"{what}: not within {_PATIENCE:.0f} s; {await self._counts()}")
            await asyncio.sleep(_LOOK)

    async def _counts(self) -> dict[str, int]:
        connection = await self._connect()
        try:
            return {name: await connection.fetchval(question) for name, question in _COUNTS.items()}
        finally:
            await connection.close()

    async def _ask(self, question: str) -> Any:
        row = await self.row(question)
        return None if row is None else row[0]

    async def row(self, question: str) -> asyncpg.Record | None:
        """The first row of an answer of the ledger."""
        connection = await self._connect()
        try:
            return await connection.fetchrow(question)
        except asyncpg.UndefinedTableError:
            return None  # the schema is not there yet
        finally:
            await connection.close()

    async def _connect(self) -> asyncpg.Connection:
        return await raw_connection(self.dsn)

    def _post(self, path: str, body: Any) -> None:
        request = urllib.request.Request(f"{self.model}{path}", json.dumps(body).encode(), method="POST")
        request.add_header("Content-Type", "application/json")
        urllib.request.urlopen(request, timeout=120).read()


class _Looking:
    """Looks at lease and transactions and asks the leader, again and again, while something goes on."""

    def __init__(self, cluster: _Cluster, phase: str) -> None:
        self._cluster = cluster
        self._phase = phase
        self._seen = Look()

    async def __aenter__(self) -> None:
        self._tasks = [asyncio.create_task(self._ledger()), asyncio.create_task(self._answers())]

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        figures = self._cluster.figures
        figures.least_lease[self._phase] = self._seen.least_lease
        figures.slowest_answer[self._phase] = self._seen.slowest_answer
        figures.longest_transaction[self._phase] = self._seen.longest_transaction
        figures.longest_block[self._phase] = await self._cluster.metric("muster_loop_block_seconds")
        if self._seen.least_lease < LEASE_SECONDS - 2 * RETRY_SECONDS:
            figures.late_renewals += 1

    async def _ledger(self) -> None:
        while True:
            seen = await self._cluster.row(_SEEN)
            if seen is not None:
                self._seen.least_lease = min(self._seen.least_lease, seen["left"])
                self._seen.longest_transaction = max(self._seen.longest_transaction, seen["writing"])
            await asyncio.sleep(_LOOK)

    async def _answers(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.to_thread(_read, f"{self._cluster.http}/healthz")
            self._seen.slowest_answer = max(self._seen.slowest_answer, time.monotonic() - began)
            await asyncio.sleep(_LOOK)


def _read(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            content: bytes = answer.read()
            return content
    except OSError:
        return b""


@contextmanager
def temporary_folder(folder: Path | None) -> Iterator[Path]:
    """A folder for logs and database; ``folder``: keeps them."""
    place = folder or Path(tempfile.mkdtemp(prefix="muster-bench-"))
    place.mkdir(parents=True, exist_ok=True)
    try:
        yield place
    finally:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def model_api_server(size: ClusterSize, job_seconds: float | None = None) -> Iterator[str]:
    """The model API server; gives its URL. ``job_seconds``: how long pods of Jobs run; None: they get none."""
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.model_api_server", str(port), json.dumps(asdict(size))]
    command += [] if job_seconds is None else [str(job_seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        if b"serving" not in process.stdout.readline():
            raise RestartFailed(f"the model API server ended with status {process.wait(10)}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
