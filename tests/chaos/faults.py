"""Carries out the faults of a plan."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.clusters import Cluster
from tests.chaos.drawn.steps import LEADER, PlannedFault
from tests.chaos.ledger.proxy import PostgresLink
from tests.chaos.ledger.server import ChaosPostgres
from tests.chaos.network.interception import Interception
from tests.chaos.network.link import Line
from tests.chaos.replicas.clock import Clocks
from tests.chaos.replicas.replica import Replica


@dataclass(slots=True)
class Faults:
    """What goes wrong in one run, and the means to it."""

    replicas: dict[str, Replica]
    lines: dict[str, PostgresLink]
    cluster: Cluster
    postgres: ChaosPostgres
    clocks: Clocks
    #: Name of the replica that leads; "": none does.
    leader: Callable[[], Awaitable[str]]
    #: Notes what was done: name, target, detail.
    note: Callable[[str, str, str], None]
    _doing: set["asyncio.Task[None]"] = field(default_factory=set)

    def begin(self, fault: PlannedFault) -> None:
        """Do it; returns at once."""
        task = asyncio.create_task(self._carry_out(fault), name=str(fault))
        self._doing.add(task)

    async def heal(self) -> None:
        """Nothing is wrong any more. Raises what a fault failed with."""
        done = list(self._doing)
        for task in done:
            if not task.get_name().startswith(_UNBREAKABLE):
                task.cancel()
        results = await asyncio.gather(*done, return_exceptions=True)
        for line in self.lines.values():
            line.heal()
        for replica in self.replicas.values():
            self.clocks.set(replica.machine, 0.0, calm=True)
        await self.postgres.heal()
        for replica in self.replicas.values():
            replica.heal()
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _carry_out(self, fault: PlannedFault) -> None:
        carry_out: dict[str, Callable[[PlannedFault, str], Any]] = {
            "kill": self._kill,
            "stop": self._stop,
            "strike-write": self._strike_write,
            "strike-commit": self._strike_commit,
            "api-server-line": self._api_line,
            "api-server-trouble": self._trouble,
            "api-server-restarted": self._restart_api,
            "watches-cut": self._watches,
            "past-forgotten": self._watches,
            "watches-silent": self._silence,
            "job-syncs-pause": self._pause_job_syncs,
            "postgres-line": self._postgres_line,
            "postgres-slow": self._postgres_slow,
            "lease-connection-silent": self._lease_connection_silent,
            "postgres-killed": self._postgres_killed,
            "postgres-failed-over": self._failed_over,
            "postgres-sessions-ended": self._sessions_ended,
            "postgres-read-only": self._read_only,
            "postgres-full": self._full,
            "postgres-clock-set": self._ledger_clock_set,
            "clock-set": self._clock_set,
            "writes-overtaken": self._overtake,
        }
        target = fault.target
        if target == LEADER:
            target = await self.leader() or next(iter(self.replicas))
        self.note(fault.name, target, str(fault))
        await carry_out[fault.name](fault, target)

    # ── replicas ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _kill(self, fault: PlannedFault, target: str) -> None:
        self.replicas[target].back_after = fault.detail["back_after"]
        self.replicas[target].kill()

    async def _stop(self, fault: PlannedFault, target: str) -> None:
        self.replicas[target].stop(fault.seconds)

    def _strike(self, fault: PlannedFault) -> Callable[[str], None]:
        def strike(replica: str) -> None:
            how = fault.detail["how"]
            if how == "kill":
                self.replicas[replica].kill()
            elif how == "stop":
                self.replicas[replica].stop(fault.seconds)
            self.note(f"{fault.name}-{how}", replica, "")

        return strike

    async def _strike_write(self, fault: PlannedFault, target: str) -> None:
        detail = fault.detail
        self.cluster.strike_write(
            Interception(passes=detail["passes"], before=detail["before"], strike=self._strike(fault))
        )

    async def _strike_commit(self, fault: PlannedFault, target: str) -> None:
        detail = fault.detail
        self.lines[target].commits.waiting.append(
            Interception(
                passes=detail["passes"],
                before=detail["before"],
                strike=self._strike(fault),
                only_seats=detail.get("only_seats", False),
            )
        )

    async def _clock_set(self, fault: PlannedFault, target: str) -> None:
        self.clocks.set(self.replicas[target].machine, fault.detail["offset"])

    # ── API server ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _api_line(self, fault: PlannedFault, target: str) -> None:
        self.cluster.set_line(target, Line(fault.detail["line"]))
        await asyncio.sleep(fault.seconds)
        self.cluster.set_line(target, Line.OPEN)

    async def _trouble(self, fault: PlannedFault, target: str) -> None:
        self.cluster.set_trouble(fault.detail, on=True)
        await asyncio.sleep(fault.seconds)
        self.cluster.set_trouble(fault.detail, on=False)

    async def _restart_api(self, fault: PlannedFault, target: str) -> None:
        await self.cluster.restart(fault.seconds)

    async def _watches(self, fault: PlannedFault, target: str) -> None:
        act = self.cluster.cut_watches if fault.name == "watches-cut" else self.cluster.forget_past
        act(fault.detail["kinds"])

    async def _silence(self, fault: PlannedFault, target: str) -> None:
        self.cluster.set_silence(fault.detail["kinds"], on=True)
        await asyncio.sleep(fault.seconds)
        if fault.detail.get("breaks"):
            self.cluster.cut_watches(fault.detail["kinds"])
        self.cluster.set_silence(fault.detail["kinds"], on=False)

    async def _pause_job_syncs(self, fault: PlannedFault, target: str) -> None:
        self.cluster.set_job_sync_pauses(on=True)
        await asyncio.sleep(fault.seconds)
        self.cluster.set_job_sync_pauses(on=False)

    async def _overtake(self, fault: PlannedFault, target: str) -> None:
        self.cluster.overtake_writes(fault.detail)

    # ── Postgres ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _postgres_line(self, fault: PlannedFault, target: str) -> None:
        self.lines[target].set_line(Line(fault.detail["line"]))
        await asyncio.sleep(fault.seconds)
        self.lines[target].set_line(Line.OPEN)

    async def _postgres_slow(self, fault: PlannedFault, target: str) -> None:
        self.lines[target].delay = fault.detail["delay"]
        await asyncio.sleep(fault.seconds)
        self.lines[target].delay = 0.0

    async def _lease_connection_silent(self, fault: PlannedFault, target: str) -> None:
        self.lines[target].set_silence(on=True)
        await asyncio.sleep(fault.seconds)
        self.lines[target].set_silence(on=False)

    async def _postgres_killed(self, fault: PlannedFault, target: str) -> None:
        await self.postgres.crash(fault.seconds)

    async def _failed_over(self, fault: PlannedFault, target: str) -> None:
        """As a client sees it: the primary dies, the standby takes no writes for a while, then it is the primary."""
        await self.postgres.set_read_only(True)
        await self.postgres.crash(0.0)
        await asyncio.sleep(fault.seconds)
        await self.postgres.set_read_only(False)

    async def _ledger_clock_set(self, fault: PlannedFault, target: str) -> None:
        await self.postgres.set_clock(fault.detail["offset"])

    async def _sessions_ended(self, fault: PlannedFault, target: str) -> None:
        await self.postgres.end_sessions()

    async def _read_only(self, fault: PlannedFault, target: str) -> None:
        await self.postgres.set_read_only(True)
        await asyncio.sleep(fault.seconds)
        await self.postgres.set_read_only(False)

    async def _full(self, fault: PlannedFault, target: str) -> None:
        await self.postgres.set_full(True)
        await asyncio.sleep(fault.seconds)
        await self.postgres.set_full(False)


#: Faults that come to their own end: half of them done, there would be no server.
_UNBREAKABLE = ("postgres-killed", "postgres-failed-over", "api-server-restarted")
