"""One run: the real ring under the faults of one seed, from the first replica's start to rest, as a history."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos import row_changes
from tests.chaos.clusters import Cluster
from tests.chaos.drawn.plan import HEALS_AT, Plan
from tests.chaos.faults import Faults
from tests.chaos.history import Fault, History
from tests.chaos.ledger.proxy import PostgresLink
from tests.chaos.ledger.server import ChaosPostgres
from tests.chaos.objectives import turns
from tests.chaos.replicas.fork_server import ForkServer
from tests.chaos.replicas.replica import Replica
from tests.chaos.replicas.short_times import SETTINGS
from tests.chaos.rest import Rest

#: Seconds between two looks of the cluster's components.
_LOOK: Final = 0.02
#: Times that Postgres is asked what its clock says.
_CLOCK_ANSWERS: Final = 8


@dataclass(slots=True)
class Run:
    """Everything that takes part in one run. ``folder`` is its own, and new."""

    plan: Plan
    fork_server: ForkServer
    #: Number of the clock of the first replica.
    first_machine: int
    postgres: ChaosPostgres
    cluster: Cluster
    folder: Path
    rest: Rest = field(init=False)
    faults: Faults = field(init=False)
    replicas: dict[str, Replica] = field(default_factory=dict)
    lines: dict[str, PostgresLink] = field(default_factory=dict)
    noted: list[Fault] = field(default_factory=list)
    began: float = 0.0

    async def play(self) -> History:
        """The whole run. Raises what goes wrong with the harness itself."""
        await self._prepare()
        prepared = max(change.number for change in self.cluster.history())
        began = await self._beginning_by_postgres()
        playing = [asyncio.create_task(self._look_after(), name="components and replicas")]
        try:
            for replica in self.replicas.values():
                replica.start()
            await _or_failure(self._follow_plan(), playing)
            unrest = await _or_failure(self.rest.come(), playing)
            rows = await row_changes.read(self.postgres.dsn())
        finally:
            for task in playing:
                task.cancel()
            for replica in self.replicas.values():
                replica.end()
            await self._close()
        return History(
            seed=self.plan.seed,
            settings=SETTINGS,
            began=began,
            objects=self.cluster.history(),
            prepared=prepared,
            rows=rows,
            faults=tuple(self.noted),
            log=tuple(line for replica in self.replicas.values() for line in replica.lines()),
            turns=tuple(
                turn
                for replica in self.replicas.values()
                for turn in turns.read(replica.name, turns.path_of(replica.log), self.began)
            ),
            unrest=unrest,
        )

    async def _beginning_by_postgres(self) -> float:
        """When the run began, by the clock of Postgres: by the quickest of some answers, for a busy machine delays each
        by as long as admissions last."""
        found = []
        for _ in range(_CLOCK_ANSWERS):
            asked = time.monotonic()
            (row,) = await self.postgres.fetch("SELECT extract(epoch FROM clock_timestamp())::float AS now")
            answered = time.monotonic()
            found.append((answered - asked, row["now"] - (asked + answered) / 2 + self.began))
        return min(found)[1]

    async def _prepare(self) -> None:
        await self.postgres.begin(f"seed_{self.plan.seed}")
        self.rest = Rest(self.postgres, self.cluster)
        self.began = await self.cluster.begin(self.plan.prepared)
        for number, name in enumerate(self.plan.replicas):
            await self._prepare_replica(self.first_machine + number, name)
        self.faults = Faults(
            replicas=self.replicas,
            lines=self.lines,
            cluster=self.cluster,
            postgres=self.postgres,
            clocks=self.fork_server.clocks,
            leader=self.rest.leader,
            note=self._note,
        )

    async def _prepare_replica(self, machine: int, name: str) -> None:
        kubeconfig = await self.cluster.connect(name, self.folder)
        line = self.lines[name] = PostgresLink(name, folder=self.folder / name, server=self.postgres.socket)
        await line.open()
        self.fork_server.clocks.set(machine, 0.0)
        environment = {
            **SETTINGS,
            "MUSTER_DSN": line.dsn(self.postgres.database),
            "MUSTER_KUBECONFIG": str(kubeconfig),
            "MUSTER_HTTP_LISTEN": "127.0.0.1:0",
        }
        failpoints = {
            fault.detail["start"]: (fault.detail["point"], fault.seconds)
            for fault in self.plan.faults
            if fault.name == "failpoint" and fault.target == name
        }
        self.replicas[name] = Replica(
            name=name,
            machine=machine,
            server=self.fork_server,
            log=self.folder / f"{name}.log",
            environment=environment,
            failpoints=failpoints,
            tell=self._note,
        )

    async def _close(self) -> None:
        await self.cluster.end()
        for line in self.lines.values():
            await line.close()
        await self.postgres.end()

    # ── while it runs ───────────────────────────────────────────────────────────────────────────────────────────

    async def _look_after(self) -> None:
        while True:
            self.cluster.look()
            for replica in self.replicas.values():
                replica.look()
            await asyncio.sleep(_LOOK)

    async def _follow_plan(self) -> None:
        steps: list[tuple[float, Callable[[], None]]] = []
        for action in self.plan.actions:
            steps.append((action.at, lambda action=action: self.cluster.act(action)))  # type: ignore[misc]
        for fault in self.plan.faults:
            if fault.name != "failpoint":
                steps.append((fault.at, lambda fault=fault: self.faults.begin(fault)))  # type: ignore[misc]
        for at, step in sorted(steps, key=lambda each: each[0]):
            await asyncio.sleep(max(0.0, self.began + at - time.monotonic()))
            step()
        await asyncio.sleep(max(0.0, self.began + HEALS_AT - time.monotonic()))
        await self.faults.heal()
        nodes = [
            document["metadata"]["name"] for document in self.plan.prepared if document["kind"] == "Node"
        ]
        self.cluster.heal(nodes)
        self._note("healed", "", "")
        # Others may lead long since when one goes on.
        await asyncio.sleep(max(replica.stopped_for for replica in self.replicas.values()))

    def _note(self, name: str, target: str, detail: str) -> None:
        self.noted.append(Fault(at=time.monotonic() - self.began, name=name, target=target, detail=detail))


async def _or_failure(wanted: "asyncio.Future[str] | object", others: list["asyncio.Task[None]"]) -> str:
    """What a coroutine returns, unless another task fails first: then its error."""
    task = asyncio.ensure_future(wanted)  # type: ignore[call-overload, var-annotated]
    await asyncio.wait([task, *others], return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        for other in others:
            if other.done():
                other.result()
    result = await task
    return result or ""
