"""Many seeds: run one after the other in some lanes, checked, and remembered, so that an interrupted run goes on."""

import asyncio
import hashlib
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from tests.chaos.checker.checker import breaches
from tests.chaos.cluster.model_cluster import ModelCluster
from tests.chaos.drawn.plan import MOST_REPLICAS, plan
from tests.chaos.history import History
from tests.chaos.ledger.server import ChaosPostgres
from tests.chaos.objectives.objectives import Measured, measured
from tests.chaos.real.object_watch import HistoryGap
from tests.chaos.real.real_cluster import RealCluster
from tests.chaos.replicas.fork_server import ForkServer
from tests.chaos.run import Run

ROOT: Final = Path(__file__).parents[2]
#: How often a seed is played of which not all was seen.
_ATTEMPTS: Final = 3
#: Files and folders that a result depends on.
_SOURCES: Final = (
    *("admission", "queues", "migrations", "requirements.lock"),
    *("tests/chaos", "tests/fakes", "tests/node_affinity.py"),
)
#: And beside them one on a real API server.
_SOURCES_OF_REAL: Final = ("deploy", "tests/cluster_faults.py")

#: Alembic keeps what it works on in globals of its modules.
_MIGRATING: Final = asyncio.Lock()


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one seed."""

    seed: int
    #: As sentences; none: all is well.
    breaches: tuple[str, ...] = ()
    #: Why the harness could not play it; "": it could.
    failure: str = ""
    #: It was played, and not all of it was seen.
    proves_nothing: bool = False
    seconds: float = 0.0
    replicas: int = 0
    #: How often each fault was carried out.
    faults: dict[str, int] = {}
    terms: int = 0
    admissions: int = 0
    pods: int = 0
    #: None: an older run, or one that failed.
    measured: Measured | None = None

    @property
    def is_good(self) -> bool:
        return not (self.breaches or self.failure)


@dataclass(slots=True)
class Results:
    """Results of one version of the sources, a line each, in a file."""

    folder: Path
    path: Path
    #: On a real API server.
    real: bool
    done: dict[int, Result] = field(default_factory=dict)

    @classmethod
    def of_these_sources(cls, folder: Path, *, real: bool = False) -> "Results":
        folder.mkdir(parents=True, exist_ok=True)
        results = cls(folder, folder / f"results-{'real-' if real else ''}{digest(real=real)}.jsonl", real)
        if results.path.exists():
            whole, _, _ = results.path.read_bytes().rpartition(b"\n")
            # Whoever was killed may have left a part of a line.
            results.path.write_bytes(whole + b"\n" if whole else b"")
            read = [msgspec.json.decode(line, type=Result) for line in whole.splitlines()]
            results.done = {each.seed: each for each in read if not each.failure}
        return results

    def add(self, result: Result) -> None:
        self.done[result.seed] = result
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")

    def history_of(self, seed: int) -> Path:
        return self.folder / f"{'real-' if self.real else ''}seed-{seed}.json"


def digest(*, real: bool) -> str:
    """Twelve hexadecimal digits over all sources that a result depends on."""
    found = hashlib.sha256()
    for place in (*_SOURCES, *(_SOURCES_OF_REAL if real else ())):
        for path in sorted([ROOT / place, *(ROOT / place).rglob("*")]):
            if path.is_file() and path.suffix != ".pyc":
                found.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


@contextmanager
def fork_server() -> Iterator[ForkServer]:
    """The parent of all replicas. Before there is a loop."""
    server = ForkServer()
    try:
        yield server
    finally:
        server.stop()


@dataclass(slots=True)
class Lane:
    """One Postgres, on which one seed is played at a time."""

    number: int
    server: ForkServer
    postgres: ChaosPostgres
    folder: Path

    @classmethod
    @asynccontextmanager
    async def open(cls, number: int, server: ForkServer) -> "AsyncIterator[Lane]":
        folder = Path(tempfile.mkdtemp(prefix="muster-chaos-"))
        postgres = ChaosPostgres(folder / "postgres")
        try:
            await asyncio.to_thread(postgres.start)
            async with _MIGRATING:
                await postgres.prepare([f"replica-{index + 1}" for index in range(MOST_REPLICAS)])
            yield cls(number, server, postgres, folder)
        finally:
            await asyncio.to_thread(postgres.stop)
            shutil.rmtree(folder, ignore_errors=True)

    async def play(self, seed: int, *, real: bool = False) -> History:
        """One seed. ``real``: on a real API server."""
        folder = self.folder / f"seed-{seed}"
        folder.mkdir()
        run = Run(
            plan=plan(seed),
            fork_server=self.server,
            first_machine=self.number * MOST_REPLICAS,
            postgres=self.postgres,
            cluster=RealCluster() if real else ModelCluster(seed),
            folder=folder,
        )
        try:
            return await run.play()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


async def play_all(
    server: ForkServer, seeds: Iterable[int], results: Results, *, lanes: int, tell: Callable[[Result], None]
) -> None:
    """Play those that have no result yet; histories of breaches are kept beside the results."""
    left = [seed for seed in seeds if seed not in results.done]
    left.reverse()

    async def work(number: int) -> None:
        if not left:
            return
        async with Lane.open(number, server) as lane:
            while left:
                result = await play_one(lane, left.pop(), results)
                results.add(result)
                tell(result)

    await asyncio.gather(*(work(number) for number in range(lanes)))


async def play_one(lane: Lane, seed: int, results: Results) -> Result:
    """One seed, checked. A run of which changes were missed proves nothing, and is played again."""
    for _ in range(_ATTEMPTS):
        result = await _play_once(lane, seed, results)
        if not result.proves_nothing:
            break
    return result


async def _play_once(lane: Lane, seed: int, results: Results) -> Result:
    began = time.monotonic()
    try:
        history = await lane.play(seed, real=results.real)
    except HistoryGap as gap:
        why = f"the history has a gap, so that it proves nothing: {gap}"
        return Result(seed=seed, failure=why, proves_nothing=True, seconds=time.monotonic() - began)
    except Exception as error:  # whatever it is, the other seeds are played
        return Result(seed=seed, failure=f"{type(error).__name__}: {error}", seconds=time.monotonic() - began)
    seconds = time.monotonic() - began
    try:
        found = tuple(str(each) for each in breaches(history))
    except Exception as error:  # a history that no check was written for: it is kept
        history.save(results.history_of(seed))
        return Result(seed=seed, failure=f"a check failed: {type(error).__name__}: {error}", seconds=seconds)
    if found:
        history.save(results.history_of(seed))
    return Result(
        seed=seed,
        breaches=found,
        seconds=round(seconds, 2),
        replicas=len({line.replica for line in history.log}),
        faults=dict(Counter(fault.name for fault in history.faults)),
        terms=sum(row.table == "fences" and _is_election(row) for row in history.rows),
        admissions=sum(row.table == "admissions" and row.before is None for row in history.rows),
        measured=measured(history),
        pods=sum(each.resource == "pods" and each.change == "ADDED" for each in history.objects),
    )


def _is_election(row: object) -> bool:
    before, after = getattr(row, "before", None), getattr(row, "after", None)
    return after is not None and (before is None or before["term"] != after["term"])
