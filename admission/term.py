"""One term of leadership: the world is read, then turns follow one another, and their outcome is carried out.

Everything here ends with the term; nothing of it is used in the next one.
"""

import asyncio
import logging
from collections import ChainMap
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from time import time
from typing import NoReturn

from admission import garbage_collection
from admission.cycle import Cycle
from admission.kube.client.client import Client
from admission.kube.watch.informers import Informers
from admission.kube.writers.finalizers import FinalizerRemover
from admission.kube.writers.priority_classes import ClassFact, NonPreemptingClasses
from admission.kube.writers.recreate import RecreationWriter
from admission.kube.writers.release import ReleaseWriter
from admission.kube.writers.status_loop import StatusLoop
from admission.kube.writers.volcano_jobs import VolcanoJobWriter
from admission.leadership import LeaderLease
from admission.reconcile.volcano_jobs import VolcanoJobController
from admission.reconcile.world_status import WorldStatuses
from admission.turn_report import TurnReport
from admission.volcano_jobs.pods import PodRules
from admission.workloads.inputs import Timeouts
from admission.world.world import World
from queues.errors import DatabaseError, DatabaseUnavailable
from queues.sql.database import Database
from queues.sql.partitions import ensure_partitions
from queues.sql.read.world import load_world
from queues.sql.tables import PARTITIONED
from queues.workload import WorkloadKey
from queues.world_rows import WorldRows

_log = logging.getLogger(__name__)

#: Seconds between attempts while Postgres cannot be reached.
DATABASE_PAUSE = 0.5
#: Seconds between two turns in which no workload asks for admission: pods that start and end are taken in together.
REST = 0.05
#: Seconds for which statuses and events wait after pods were released: more pods may follow.
BUSY = 0.5
#: Seconds between two looks at the priority classes.
TWINS_EVERY = 1.0
#: Seconds between two looks at the partitions of the history.
PARTITIONS_EVERY = 6 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TermDependencies:
    """Connections and settings that every term uses."""

    database: Database
    client: Client
    rules: PodRules
    #: Priority class → its twin that never preempts; kept by the leader, read by the writer that makes pods.
    twins: dict[str, str]
    patience: Timeouts
    #: Seconds; a turn is made at least this often.
    turn_every: float
    observe: Callable[[TurnReport], None]
    #: Called at each named point of the ring (``admission.failpoints``).
    failpoint: Callable[[str], None]


class LeaderTerm:
    """The work of one term."""

    def __init__(self, dependencies: TermDependencies, lease: LeaderLease) -> None:
        self._dependencies = dependencies
        self._lease = lease
        self.informers = Informers(dependencies.client)
        self.world: World | None = None
        self.cycle: Cycle | None = None
        self.ready = False
        #: Time of the loop until which writes that can wait do wait.
        self._busy_until = 0.0

    async def run(self) -> None:
        """Lead until the term is over. Raises Fenced, DatabaseError: begin again."""
        async with asyncio.TaskGroup() as tasks:
            self.informers.start(tasks)
            rows = await self._rows()
            await self.informers.all_synced()
            tasks.create_task(self._turns(rows, tasks), name="turns")

    async def _rows(self) -> WorldRows:
        async with self._dependencies.database.snapshot() as tx:
            return await load_world(tx)

    async def _turns(self, rows: WorldRows, tasks: asyncio.TaskGroup) -> NoReturn:
        dependencies, check_lease = self._dependencies, self._lease.check_lease
        world = self.world = World(rows, dependencies.patience)
        self.informers.drain()
        world.begin(rows.queues, rows.nodes, self.informers.everything())
        tasks.create_task(self._keep_partitions(), name="partitions")
        job_controller = VolcanoJobController(dependencies.rules)
        release = ReleaseWriter(
            dependencies.client, world, check_lease, requeue=self._requeue, failpoint=dependencies.failpoint
        )
        recreate = RecreationWriter(
            dependencies.client,
            world,
            check_lease,
            hand_in=self.informers.hand_in,
            requeue=self._requeue,
            failpoint=dependencies.failpoint,
        )
        jobs = VolcanoJobWriter(
            dependencies.client,
            check_lease,
            requeue=self._requeue,
            report=lambda report: self._requeue(report.workload),
            failpoint=dependencies.failpoint,
        )
        finalizers = FinalizerRemover(dependencies.client, check_lease, requeue=self.informers.changed.set)
        statuses = StatusLoop(
            dependencies.client,
            check_lease,
            WorldStatuses(
                world, job_controller, ChainMap(jobs.problems, release.problems, recreate.problems)
            ),
            busy=lambda: asyncio.get_running_loop().time() < self._busy_until,
            instance=self._lease.term.holder,
        )
        cycle = self.cycle = Cycle(
            dependencies.database,
            self._lease.term,
            world,
            drain=self.informers.drain,
            creating=jobs.creating,
            transitions=job_controller.transitions,
            clock=time,
            failpoint=dependencies.failpoint,
        )
        tasks.create_task(statuses.run(), name="statuses")
        tasks.create_task(self._keep_twins(), name="priority class twins")
        try:
            while True:
                for key in job_controller.due(int(time())):
                    world.mark_dirty(key)
                try:
                    report = await cycle.turn()
                except DatabaseUnavailable as error:
                    check_lease()
                    _log.warning("turn put off", extra={"why": str(error)})
                    await asyncio.sleep(DATABASE_PAUSE)
                    continue
                check_lease()
                if not self.ready:
                    garbage_collection.freeze_objects()
                self.ready = True
                dependencies.observe(report)
                recreate.reconcile(report.dirty_workloads)
                self._carry_out(job_controller, release, jobs, statuses, report)
                finalizers.reconcile(world.pod_outcomes.may_disappear())
                rested = asyncio.get_running_loop().time() + REST
                if not (world.snapshot_is_stale or self.informers.changed.is_set()):
                    await self._wait(cycle.next_look - time())
                await self._rest(rested)
        finally:
            await release.queue.stop()
            await recreate.queue.stop()
            await jobs.stop()
            await finalizers.stop()

    async def _keep_partitions(self) -> NoReturn:
        """Months of the history that are about to begin; without theirs, rows go to the default partition."""
        while True:
            today = datetime.fromtimestamp(time(), UTC).date()
            try:
                for table in PARTITIONED:
                    async with self._dependencies.database.transaction() as tx:
                        await ensure_partitions(tx, table, today)
            except DatabaseError as error:
                _log.warning("partitions not made", extra={"why": str(error)})
            await asyncio.sleep(PARTITIONS_EVERY)

    async def _keep_twins(self) -> NoReturn:
        twins = NonPreemptingClasses(
            self._dependencies.client, self._lease.check_lease, self._dependencies.twins
        )
        seen: dict[str, ClassFact] = {}
        while True:
            if (classes := self.informers.classes()) != seen:
                seen = classes if await twins.keep(classes) else {}
            await asyncio.sleep(TWINS_EVERY)

    def _requeue(self, key: WorkloadKey) -> None:
        if self.world is not None:
            self.world.mark_dirty(key)
            self.informers.changed.set()

    def _carry_out(
        self,
        job_controller: VolcanoJobController,
        release: ReleaseWriter,
        jobs: VolcanoJobWriter,
        statuses: StatusLoop,
        report: TurnReport,
    ) -> None:
        world, dirty = release.world, report.dirty_workloads
        for key in dirty:
            if key not in world.states:
                jobs.forget(key)
        release.reconcile(dirty)
        jobs.reconcile(job_controller.work(world, dirty, report.now))
        if jobs.creating() or release.queue.is_busy():
            self._busy_until = asyncio.get_running_loop().time() + BUSY
        statuses.reconcile(dirty, report)

    async def _wait(self, seconds: float) -> None:
        """Until something changes, or it is time to look again though nothing did."""
        try:
            async with asyncio.timeout(min(self._dependencies.turn_every, max(0.0, seconds))):
                await self.informers.changed.wait()
        except TimeoutError:
            return

    async def _rest(self, until: float) -> None:
        """Let consequences of earlier turns come together; a workload that asks for admission ends the rest."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self.informers.pressing.wait()
