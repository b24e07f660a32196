"""One term of leadership: the world is read, then turns follow one another, and their outcome is carried out.

Everything here ends with the term; nothing of it is used in the next one. A turn that Postgres cannot serve now is put
off, with growing pauses and without reading the world again; any other error ends the term.
"""

import asyncio
import logging
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from typing import NoReturn

from admission import garbage_collection
from admission.containment.decider import Decider
from admission.containment.decision_thread import DecisionThread
from admission.containment.repeated_failures import RepeatedFailures
from admission.cycle import Cycle
from admission.decode.template_trials import DryRunOutcome
from admission.engine.snapshot import Snapshot
from admission.failpoints import Failpoint
from admission.history_keeper import HistoryKeeper
from admission.kube.client.client import Client
from admission.kube.job_starts.job_starter import JobStarter
from admission.kube.job_starts.started_jobs import StartedJobs
from admission.kube.node_recovery import NodeRecovery, RecoveryJobs
from admission.kube.provisioning import ProvisioningLoop
from admission.kube.watch.api_server_contact import ApiServerContact
from admission.kube.watch.informers import Informers, VolumeInformers
from admission.kube.watch.lag import Lag, lag_of
from admission.kube.watch.unseen_pods import UnseenPods
from admission.kube.workload_kinds import KindsChanged, KindsWatch
from admission.kube.writers.automatic_groups import AutomaticGroups
from admission.kube.writers.dry_runs import DryRunWriter
from admission.kube.writers.recreate import RecreationWriter
from admission.kube.writers.release import ReleaseWriter
from admission.kube.writers.repeated_writes import (
    RepeatedWrites,
    check_asked,
    check_withdrawn,
    command_deleted,
    finalizer_changed,
    finalizer_removed,
)
from admission.kube.writers.status import write_deciding_condition
from admission.kube.writers.status_loop import StatusLoop
from admission.kube.writers.volcano_jobs import VolcanoJobWriter
from admission.leadership import PROVEN_SECONDS, Heart, LeaderLease, LedgerGuard, first_error, lease_clock
from admission.provisioning.request_progress import NodesAsked
from admission.reconcile.volcano_jobs import VolcanoJobController
from admission.reconcile.world_status import WorldStatuses
from admission.turn_report import TurnReport
from admission.volcano_jobs.pods import PodRules
from admission.workloads.inputs import Timeouts, joined
from admission.workloads.kinds import known_kinds
from admission.world.learned.inherited_seats import InheritedSeats
from admission.world.world import World
from queues.errors import AnotherLedger, DatabaseTooSlow, DatabaseUnavailable
from queues.kind_names import KindName
from queues.ledger_record import LedgerRecord, require_same
from queues.plan import Reason
from queues.slices import slices
from queues.sql.database import Database
from queues.sql.history.retention import Retention
from queues.sql.world import load_world
from queues.workload import AdmissionId, WorkloadKey
from queues.world_rows import WorldRows

_log = logging.getLogger(__name__)

#: Seconds of the pauses between attempts while Postgres cannot serve a turn.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
#: Seconds between two turns in which no workload asks for admission: pods that start and end are taken in together.
REST = 0.05
#: Seconds after each turn for descriptions and departures, if there are many.
STORE_REST = 0.5
#: Seconds for which they wait at most while workloads ask for admission.
STORE_REST_EVERY = 0.5
#: Seconds for which statuses and events wait after pods were released: more pods may follow.
BUSY = 0.5
#: Seconds for which the API server may work on a request that an earlier term sent.
INHERITED_FOR = 60.0
#: Seconds between two moments at which what was read so far is left out of garbage collection, until the first turn.
FREEZE_EVERY = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TermDependencies:
    """Connections and settings that every term uses."""

    database: Database
    client: Client
    rules: PodRules
    patience: Timeouts
    #: Templates are tried by dry runs before their workloads are decided on.
    dry_runs: bool
    retention: Retention
    #: Of the calendar whose months budgets of queues are for.
    budget_zone: tzinfo
    #: Seconds; a turn is made at least this often.
    turn_every: float
    observe: Callable[[TurnReport], None]
    #: Where other replicas reach the read API of this one; "": they do not.
    address: str
    #: Called for each turn that is put off.
    put_off: Callable[[], None]
    #: Called after each dry run, with the seconds that it took.
    observe_dry_run: Callable[[DryRunOutcome, float], None]
    decision_thread: DecisionThread
    #: Keeps the snapshot of a turn that cannot be decided; blocks.
    keep_failed_turn: Callable[[Snapshot], Path | None]
    contact: ApiServerContact
    ledger_guard: LedgerGuard
    #: How the terms before this one ended.
    failed_terms: RepeatedFailures
    #: Called at each named point of the ring (``admission.failpoints``).
    failpoint: Failpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writers:
    """What carries out the turns of one term at the API server; statuses and events apart."""

    world: World
    release: ReleaseWriter
    recreate: RecreationWriter
    jobs: VolcanoJobWriter
    groups: AutomaticGroups
    dry_runs: DryRunWriter
    finalizers: RepeatedWrites
    predecessors: RepeatedWrites
    commands: RepeatedWrites
    checks: RepeatedWrites

    def problems(self) -> MutableMapping[WorkloadKey, Reason]:
        """What the API server refuses, by workload: a view."""
        return ChainMap(
            self.jobs.problems, self.release.problems, self.recreate.problems, self.groups.problems
        )

    async def stop(self) -> None:
        """End what is under way."""
        queues = (self.release.queue, self.recreate.queue, self.groups.queue)
        repeated = (self.finalizers, self.predecessors, self.commands, self.checks)
        for each in (*queues, self.jobs, self.dry_runs, *repeated):
            await each.stop()


class LeaderTerm:
    """The work of one term."""

    def __init__(self, dependencies: TermDependencies, lease: LeaderLease) -> None:
        self._dependencies = dependencies
        self._lease = lease
        self._started_jobs = StartedJobs()
        self._recovery_jobs = RecoveryJobs()
        self.informers = Informers(
            dependencies.client,
            listeners={"volcano-jobs": self._started_jobs, "jobs": self._recovery_jobs},
        )
        self._volume_informers = VolumeInformers(dependencies.client, self.informers.hand_in)
        self.world: World | None = None
        self.cycle: Cycle | None = None
        self.history_keeper: HistoryKeeper | None = None
        self.unseen_pods: UnseenPods | None = None
        self.statuses: WorldStatuses | None = None
        self.ready = False
        #: What the cluster has recorded of this term; None if nothing yet.
        self._record: LedgerRecord | None = None
        #: Time of the loop at which the last turn ended.
        self._turned = 0.0
        #: Time of the loop from which descriptions and departures are stored though workloads ask.
        self._rest_due = 0.0
        self._put_off = RepeatedFailures("turns", first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        #: Time of the loop until which writes that can wait do wait.
        self._busy_until = 0.0

    async def run(self) -> None:
        """Lead until the term is over. Whatever it raises, the next term begins afresh. It returns if that is to begin
        with other kinds."""
        try:
            await self._lead()
        except* KindsChanged as changed:
            _log.info("the term ends", extra={"why": str(first_error(changed))})

    async def _lead(self) -> None:
        dependencies = self._dependencies
        async with asyncio.TaskGroup() as tasks:
            self.informers.start(tasks, collect=False)
            tasks.create_task(self._freeze_what_is_read(), name="freeze objects")
            heard = [self.informers.by_name[name] for name in ("nodes", "pods")]
            contact = dependencies.contact.keep(lambda: [informer.heard for informer in heard])
            tasks.create_task(contact, name="contact with the API server")
            self._record = await dependencies.ledger_guard.claim(self._lease)
            fresh = dependencies.ledger_guard.keep_nonce_fresh(self._lease)
            tasks.create_task(fresh, name="nonce of the ledger")
            if (failing := self._failing()) is not None:
                # Said first: this term may end as early as the ones before it.
                await write_deciding_condition(dependencies.client, self._check_lease, failing)
            await self.informers.all_synced()
            self.world = await self._world(await self._rows())
            self.informers.changes.tenant_of = self.world.queue_facts.tenant_of
            tasks.create_task(self._turns(self.world, tasks), name="turns")
            kinds = KindsWatch(
                dependencies.client,
                self._check_lease,
                known_kinds(),
                holding=self._holding,
                now=self._lease.now,
            )
            tasks.create_task(kinds.run(), name="added kinds")

    def _holding(self, kind: KindName) -> int:
        """How many workloads of a kind hold seats."""
        world = self.world
        open_ones = () if world is None else world.admissions.values()
        return len({each.workload for each in open_ones if each.workload.kind == kind})

    def _check_lease(self) -> None:
        """Raises Fenced once the lease is not certain, or the cluster says that another ledger leads it."""
        self._lease.check_lease()
        if self._record is None:
            return
        try:
            require_same(self._record, self.informers.ledger_record())
        except AnotherLedger as error:
            self._lease.end()
            raise self._lease.term.fenced(str(error)) from error

    async def _rows(self) -> WorldRows:
        """What the ledger says. What the informers have listed stays if Postgres cannot answer now."""
        keys: dict[WorkloadKey, WorkloadKey] = {}
        async for facts in slices(self.informers.workloads()):
            keys.update((fact.key, fact.key) for fact in facts)
        with_told = True
        while True:
            try:
                async with self._dependencies.database.snapshot() as tx:
                    return await load_world(tx, shared=keys, with_told=with_told)
            except DatabaseUnavailable as error:
                self._check_lease()
                # No decision waits for what is only shown.
                with_told &= not isinstance(error, DatabaseTooSlow)
                await self._pause(error)

    async def _world(self, rows: WorldRows) -> World:
        """The world as stored and as seen. What the rows hold becomes the world's."""
        dependencies = self._dependencies
        world = World(replace(rows, admissions=()), dependencies.patience, dependencies.budget_zone)
        async for admissions in slices(rows.admissions):
            world.put_admissions(admissions)
        self.informers.drain()
        async for objects in slices(world.devices.resolved(self.informers.everything())):
            world.put(objects)
        world.drop_gone(rows.queues, rows.nodes)
        return world

    async def _freeze_what_is_read(self) -> None:
        """Until the first turn objects only become more: each collection would visit all that was read so far."""
        while not self.ready:
            garbage_collection.freeze_objects()
            await asyncio.sleep(FREEZE_EVERY)

    async def _turns(self, world: World, tasks: asyncio.TaskGroup) -> NoReturn:
        dependencies, check_lease = self._dependencies, self._check_lease
        unseen = self._run_beside(world, tasks)
        job_controller = VolcanoJobController(dependencies.rules)
        writers = self._writers(world)
        inherited = InheritedSeats(world, lease_clock(), INHERITED_FOR)
        world.refusals = writers.problems()
        statuses = self._status_loop(world, job_controller, unseen, tasks)
        decider = Decider(dependencies.decision_thread, dependencies.keep_failed_turn)
        cycle = self.cycle = Cycle(
            dependencies.database,
            self._lease.term,
            world,
            awaited=lambda key: joined(
                writers.release.awaited.of(key),
                writers.jobs.awaited.of(key),
                unseen.of(key),
                inherited.of(key, lease_clock()),
            ),
            transitions=job_controller.transitions,
            clock=self._lease.now,
            decider=decider,
            failpoint=dependencies.failpoint,
        )
        try:
            if dependencies.dry_runs:
                await writers.dry_runs.ask_first()
            while True:
                self._mark_due(world, job_controller, inherited)
                try:
                    report = await cycle.turn(self.informers.take())
                except DatabaseUnavailable as error:
                    check_lease()
                    await self._pause(error, statuses)
                    continue
                check_lease()
                self._turned = asyncio.get_running_loop().time()
                self._note_served(statuses)
                if not self.ready:
                    await self._begin_to_serve(statuses, tasks)
                dependencies.observe(report)
                self._volume_informers.keep(tasks, needed=world.volumes.is_needed(int(report.now)))
                await self._prepare(writers, report)
                await self._carry_out(writers, job_controller, unseen, report)
                statuses.reconcile(report.dirty_workloads, report)
                self._remove_what_is_done(writers, statuses)
                rested = asyncio.get_running_loop().time() + REST
                left = await self._store_rest(cycle)
                self._keep_predecessors(writers)
                if not (left or cycle.is_due() or self.informers.changed.is_set()):
                    await self._wait(cycle.next_look - self._lease.now())
                if not cycle.has_stopped():
                    await self._rest(rested)
        finally:
            decider.close()
            await writers.stop()

    async def _begin_to_serve(self, statuses: StatusLoop, tasks: asyncio.TaskGroup) -> None:
        """After the first turn."""
        garbage_collection.freeze_objects()
        dependencies = self._dependencies
        heart = Heart(dependencies.database, self._lease, self.lag, address=dependencies.address)
        await heart.beat()
        tasks.create_task(heart.run(), name="heartbeat")
        tasks.create_task(self._prove(statuses), name="prove the term")
        self.ready = True

    def _writers(self, world: World) -> "_Writers":
        dependencies, check_lease = self._dependencies, self._check_lease
        client, failpoint = dependencies.client, dependencies.failpoint
        hand_in, look_again = self.informers.hand_in, self.informers.changed.set
        return _Writers(
            world=world,
            release=ReleaseWriter(
                client,
                world,
                check_lease,
                requeue=self._requeue,
                failpoint=failpoint,
                released=self._note_released,
            ),
            recreate=RecreationWriter(
                client, world, check_lease, hand_in=hand_in, requeue=self._requeue, failpoint=failpoint
            ),
            jobs=VolcanoJobWriter(
                client,
                world,
                check_lease,
                requeue=self._requeue,
                failpoint=failpoint,
                priorities=lambda: self.informers.context.priorities,
                released=self._note_released,
            ),
            groups=AutomaticGroups(client, world, check_lease, requeue=self._requeue),
            dry_runs=DryRunWriter(
                client,
                world,
                check_lease,
                rules=dependencies.rules,
                hand_in=hand_in,
                observe=dependencies.observe_dry_run,
            ),
            finalizers=RepeatedWrites(look_again),
            predecessors=RepeatedWrites(look_again),
            commands=RepeatedWrites(look_again),
            checks=RepeatedWrites(look_again),
        )

    def _note_released(self, ids: Iterable[AdmissionId]) -> None:
        """Pods of these admissions were handed to the scheduler."""
        if self.cycle is not None:
            self.cycle.stages.note_released(ids, self._lease.now())

    def _status_loop(
        self,
        world: World,
        job_controller: VolcanoJobController,
        unseen: UnseenPods,
        tasks: asyncio.TaskGroup,
    ) -> StatusLoop:
        self.statuses = WorldStatuses(
            world,
            job_controller,
            ChainMap(world.refusals, world.refused_rows.workloads),
            failing=self._failing,
            keeping=unseen.problem,
        )
        loop = StatusLoop(
            self._dependencies.client,
            self._check_lease,
            self.statuses,
            busy=self._is_busy,
            instance=self._lease.term.holder,
        )
        tasks.create_task(loop.run(), name="statuses")
        return loop

    def _remove_what_is_done(self, writers: "_Writers", statuses: StatusLoop) -> None:
        """Finalizers of pods whose end is stored, and Commands that were carried out."""
        world, client, check = writers.world, self._dependencies.client, self._check_lease
        leaving = world.volcano_jobs.may_disappear()
        writers.finalizers.reconcile(finalizer_removed(client, check, pod) for pod in leaving)
        if world.commands.awaits_queues():
            statuses.look_at_queues()
        now = int(self._lease.now())
        questions, surplus = world.admission_checks.questions(), world.admission_checks.surplus()
        writers.checks.reconcile(
            (
                *(check_asked(client, check, each, now) for each in questions),
                *(check_withdrawn(client, check, each) for each in surplus),
            )
        )
        done = world.commands.finished(world.facts, world.volcano_jobs.stored, world.queues, now)
        writers.commands.reconcile(command_deleted(client, check, command) for command in done)

    def _keep_predecessors(self, writers: "_Writers") -> None:
        """Jobs that others are to come after do not disappear before their end is stored."""
        client, world = self._dependencies.client, writers.world
        changes = world.dependencies.finalizer_changes(world.is_stored)
        writers.predecessors.reconcile(finalizer_changed(client, self._check_lease, each) for each in changes)

    def _run_beside(self, world: World, tasks: asyncio.TaskGroup) -> UnseenPods:
        """What goes on next to the turns."""
        dependencies, check_lease, now = self._dependencies, self._check_lease, self._lease.now
        client, instance = dependencies.client, self._lease.term.holder
        self.history_keeper = HistoryKeeper(
            dependencies.database,
            self._lease.term,
            dependencies.retention,
            now,
            half_lives=world.usage_history.half_lives,
            summed_up=self._summed_up,
            budgets_since=world.budgets.counted_since,
        )
        recovery = NodeRecovery(
            client,
            check_lease,
            world,
            self._recovery_jobs,
            hand_in=self.informers.hand_in,
            now=now,
            instance=instance,
        )
        starter = JobStarter(
            client,
            check_lease,
            self._started_jobs,
            now=now,
            namespace_queues=lambda: self.informers.context.queues,
            instance=instance,
            busy=self._is_busy,
        )
        unseen = self.unseen_pods = UnseenPods(client, world, requeue=self._requeue)
        requests = ProvisioningLoop(client, check_lease, world, now=now, tell=self._tell_progress)
        tasks.create_task(self.history_keeper.run(), name="history")
        tasks.create_task(recovery.run(), name="recovery of nodes")
        tasks.create_task(starter.run(), name="starts of jobs")
        tasks.create_task(unseen.run(), name="unseen pods")
        tasks.create_task(requests.run(), name="requests for nodes")
        return unseen

    def _is_busy(self) -> bool:
        """Whether writes that can wait do wait."""
        return asyncio.get_running_loop().time() < self._busy_until

    def _tell_progress(self, known: Mapping[WorkloadKey, NodesAsked]) -> None:
        """How far requests for nodes are."""
        if self.cycle is not None and self.cycle.progress.put(known):
            self.cycle.world.ledger.without_more_nodes = self.cycle.progress.refused
            self.cycle.world.snapshot_is_stale = True
            self.informers.changed.set()

    def _mark_due(
        self, world: World, job_controller: VolcanoJobController, inherited: InheritedSeats
    ) -> None:
        """Workloads whose time has come are looked at in the next turn."""
        for key in (*job_controller.due(int(self._lease.now())), *inherited.due(lease_clock())):
            world.mark_dirty(key)

    def _note_served(self, statuses: StatusLoop) -> None:
        """Postgres has served a turn."""
        if self._put_off.count:
            self._put_off.clear()
            statuses.look_at_queues()

    def _failing(self) -> Reason | None:
        """What people are to see about turns or terms that fail; None if they do not."""
        return self._put_off.told() or self._dependencies.failed_terms.told()

    async def _pause(self, error: DatabaseUnavailable, statuses: StatusLoop | None = None) -> None:
        """Put the turn off: memory has not moved ahead of the ledger, so the same world is decided on again.

        ``statuses``: None before the first turn.
        """
        self._dependencies.put_off()
        seconds = self._put_off.note(error)
        _log.warning("turn put off", extra={"why": str(error), "seconds": round(seconds, 1)})
        if self._put_off.just_reached():
            _log.error("every turn is put off", extra={"why": str(error)})
            if statuses is not None:
                statuses.look_at_queues()
            elif (failing := self._failing()) is not None:
                await write_deciding_condition(self._dependencies.client, self._check_lease, failing)
        await asyncio.sleep(seconds)

    async def _prove(self, statuses: StatusLoop) -> None:
        """A term that goes on for a while has got over what ended the terms before it."""
        await asyncio.sleep(PROVEN_SECONDS)
        self._dependencies.failed_terms.clear()
        statuses.look_at_queues()

    def lag(self) -> Lag:
        """How far what this term has stored is behind the cluster."""
        turned = asyncio.get_running_loop().time() - self._turned
        return lag_of(self.informers.hearings(), turned=turned, turn_every=self._dependencies.turn_every)

    def _summed_up(self, half_lives: frozenset[int]) -> None:
        """Past use that was missing can be read."""
        if self.world is not None and self.world.usage_history.missing & half_lives:
            self.world.usage_history.needs_reading = True
            self.informers.changed.set()

    def _requeue(self, key: WorkloadKey) -> None:
        if self.world is not None:
            self.world.look_again(key)
            self.informers.changed.set()

    async def _prepare(self, writers: "_Writers", report: TurnReport) -> None:
        """What workloads lack to be decided on: what their templates become, and the PodGroups of their owners."""
        async for dirty in slices(report.dirty_workloads):
            writers.groups.reconcile(dirty)
            if self._dependencies.dry_runs:
                writers.dry_runs.reconcile(dirty)
        if self._dependencies.dry_runs:
            writers.dry_runs.ask_anew()

    async def _carry_out(
        self,
        writers: "_Writers",
        job_controller: VolcanoJobController,
        unseen: UnseenPods,
        report: TurnReport,
    ) -> None:
        world, jobs = writers.world, writers.jobs
        async for dirty in slices(report.dirty_workloads, weight=world.weight):
            writers.recreate.reconcile(dirty)
            for key in dirty:
                if key not in world.states:
                    jobs.forget(key)
                elif key not in world.facts:
                    jobs.abandon(key)
            writers.release.reconcile(dirty)
            unseen.reconcile(dirty)
            jobs.reconcile(job_controller.work(world, dirty, report.now))
        if jobs.queue.is_busy() or writers.release.queue.is_busy():
            self._busy_until = asyncio.get_running_loop().time() + BUSY

    async def _store_rest(self, cycle: Cycle) -> bool:
        """Store what no decision waits for, until a workload asks for admission. Whether more is left."""
        loop = asyncio.get_running_loop()
        if self.informers.pressing.is_set() and loop.time() < self._rest_due:
            return True
        until, self._rest_due = loop.time() + STORE_REST, loop.time() + STORE_REST_EVERY
        while left := await cycle.store_rest():
            if cycle.has_stopped() or self.informers.pressing.is_set() or loop.time() >= until:
                break
        return left

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
