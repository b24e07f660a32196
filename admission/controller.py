"""The composition root: builds everything, runs it in one TaskGroup, and ends it in order."""

import asyncio
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from admission import garbage_collection
from admission.containment.decision_thread import DecisionThread
from admission.containment.failed_turns import FailedTurns
from admission.containment.postgres_check import PostgresCheck
from admission.containment.repeated_failures import RepeatedFailures
from admission.engine.snapshot import Snapshot
from admission.failpoints import armed
from admission.kube.client.client import Client
from admission.kube.cluster_ledger import ClusterLedger
from admission.kube.database_outage import DatabaseOutage
from admission.kube.queue_definition import QueueDefinition
from admission.kube.watch.api_server_contact import ApiServerContact
from admission.kube.watch.lag import Lag
from admission.kube.webhook.validity import Validity
from admission.kube.workload_kinds import usable_kinds
from admission.kube.writers.dry_runs import PATIENCE
from admission.leadership import (
    LeaderLease,
    Leadership,
    LeaseTiming,
    LedgerGuard,
    first_error,
    terms_in_a_row,
)
from admission.logs import about
from admission.loop_watchdog import LoopWatchdog
from admission.metrics import LeaderFigures, Metrics, ProcessFigures
from admission.reconcile.expected_starts import ExpectedStart
from admission.replay.fingerprint import fingerprint
from admission.settings import IN_CLUSTER, STATE, Settings, ledger_dsn
from admission.term import LeaderTerm, TermDependencies
from admission.trials.world_view import WorldView
from admission.turn_report import Decided
from admission.volcano_jobs.pods import PodRules
from admission.web import http
from admission.web.health import MOST_CONNECTIONS, HealthApi, kept_text
from admission.web.leader.answers import LeaderAnswers
from admission.web.reader import Check
from admission.web.supervision import ServingProcess, order
from admission.workloads.inputs import Timeouts
from admission.workloads.kinds import use_kinds
from queues.api.schedules.cron import zone_of
from queues.errors import DatabaseUnavailable, MusterError, SchemaTooFarBehind, SchemaTooNew, UnreleasedSchema
from queues.plan import Reason
from queues.quota.budgets import BudgetUse
from queues.sql.database import IDLE_TIMEOUT, Database, check_schema, migrate
from queues.sql.dsn import Dsn
from queues.sql.embedded.server import EmbeddedPostgres
from queues.sql.history.ended_runs import EndedRun, ended_runs
from queues.sql.history.retention import Retention
from queues.sql.revisions import READY
from queues.text_format import duration
from queues.workload import Workload, WorkloadKey

_log = logging.getLogger(__name__)

#: The interpreter hands the processor over this often while a decision runs next to the loop. Seconds.
SWITCH_INTERVAL = 0.0005
#: Seconds of the pauses between attempts to migrate a database that cannot be reached, or is of another version.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
#: Seconds by which a leader may be behind the cluster and still be ready.
WATCHES_BEHIND = 30.0


class Controller:
    """One replica: serves users and the API server always, and leads whenever elected."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._term: LeaderTerm | None = None
        self._client: Client | None = None
        self._leadership: Leadership | None = None
        self._watchdog = LoopWatchdog()
        self._failed_turns = FailedTurns(settings.failed_turns_folder, fingerprint(), settings.identity)
        #: The processes next to this one, by role.
        self._beside: dict[str, ServingProcess] = {}
        self._metrics = Metrics(
            process=ProcessFigures(
                answers=lambda: self._client.counts if self._client is not None else {},
                retries=lambda: self._client.retries if self._client is not None else {},
                serving=lambda: {role: each.open.is_set() for role, each in self._beside.items()},
                certificates=self._certificates,
                snapshot=self._last_snapshot,
                budgets=self._budget_use,
                longest_block=self._watchdog.longest,
            ),
            leader=self._leader_figures,
        )
        self._metrics_text = kept_text(self._metrics.written)

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT; returns the exit code."""
        settings = self._settings
        sys.setswitchinterval(SWITCH_INTERVAL)
        garbage_collection.collect_seldom()
        garbage_collection.return_freed_memory()
        _log.info("starting", extra={"configuration": fingerprint()})
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with AsyncExitStack() as stack:
            database = await self._open_database(stack)
            self._client = await stack.enter_async_context(
                await Client.connect(
                    settings.kubeconfig, settings.context, concurrency=settings.api_concurrency
                )
            )
            timing = LeaseTiming(lease=settings.lease_seconds, retry=settings.retry_seconds)
            dependencies = self._dependencies(database, self._client, terms_in_a_row(timing))
            definition = QueueDefinition(self._client)
            outage = DatabaseOutage(
                self._client, leads=self._leads, lasts=settings.lease_seconds, instance=settings.identity
            )
            leadership = self._leadership = Leadership(
                database,
                settings.identity,
                timing,
                failures=dependencies.failed_terms,
                unfit=lambda: _why_unfit(dependencies, definition),
                after_term=garbage_collection.collect_all,
                standing=self._watchdog.standing,
                served=outage.note,
            )
            channel, answers = await self._channel(stack, database)
            serving = self._beside = self._serving(database.dsn, channel)
            checks = self._checks(database, dependencies)
            checks |= {role: process.problem for role, process in serving.items()}
            metrics = self._metrics_text if settings.metrics_access == "open" else None
            health = HealthApi(ready=checks, metrics=metrics).application()
            plain = http.serving(health, settings.http_address, most=MOST_CONNECTIONS)
            await stack.enter_async_context(plain)
            tasks = {
                "lead": self._lead(leadership, dependencies, outage),
                "outage of postgres": outage.run(),
                "forecasts": answers.forecasts.run(),
            }
            await self._run_tasks(tasks, serving, stop)
        return 0

    async def _run_tasks(
        self,
        work: Mapping[str, Coroutine[Any, Any, None]],
        serving: Mapping[str, ServingProcess],
        stop: asyncio.Event,
    ) -> None:
        """Serve and do this work, by name, until stopped. Raises MusterError for a database that can never be used."""
        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [
                    tasks.create_task(self._watchdog.run(), name="loop watchdog"),
                    *(tasks.create_task(each, name=name) for name, each in work.items()),
                    *(tasks.create_task(process.run(), name=role) for role, process in serving.items()),
                ]
                await stop.wait()
                _log.info("stopping")
                for task in running:
                    task.cancel()
        except* MusterError as errors:
            failure = first_error(errors)
        if failure is not None:
            raise failure

    async def _channel(self, stack: AsyncExitStack, database: Database) -> tuple[Path, LeaderAnswers]:
        """Opens the socket on which the process that serves users asks this one; only this user can reach it."""

        async def learn(limit: int) -> tuple[EndedRun, ...]:
            async with database.snapshot() as tx:
                return await ended_runs(tx, limit)

        folder = Path(stack.enter_context(TemporaryDirectory(prefix="muster-")))
        channel = folder / "leader.sock"
        answers = LeaderAnswers(
            self._last,
            self._metrics_text,
            identity=self._settings.identity,
            problems=self._problems,
            world_view=self._world_view,
            learn=learn,
            tell=self._tell_starts,
            unknown=self._unknown_starts,
        )
        await stack.enter_async_context(http.serving(answers.application(), channel))
        return channel, answers

    def _serving(self, dsn: Dsn, channel: Path) -> dict[str, ServingProcess]:
        """The processes next to this one, by role.

        There is a webhook where the API server can reach it: at a URL, or by its Service.
        """
        settings = self._settings
        is_called = settings.webhook_url is not None or IN_CLUSTER in os.environ
        return {
            role: ServingProcess(order(role, settings, dsn=dsn, channel=channel))
            for role in ("read", *(("webhook",) if is_called else ()))
        }

    async def _open_database(self, stack: AsyncExitStack) -> Database:
        """The pool; the server may be down. Raises InvalidSettings, DatabaseError (of the embedded one)."""
        settings = self._settings
        dsn = ledger_dsn(settings)
        if dsn is None:
            server = EmbeddedPostgres()
            folder = settings.data_dir or Path.home() / STATE / "postgres"
            dsn = await asyncio.to_thread(server.start, folder)
            stack.callback(server.stop)
            _log.info("embedded Postgres started", extra={"folder": str(folder)})
        # A leader that stands still in the middle of a transaction must not hold up its successor.
        database = Database.open(dsn, idle_timeout=min(IDLE_TIMEOUT, settings.lease_seconds / 2))
        database.observe = self._metrics.observe_transaction
        stack.push_async_callback(database.close)
        return database

    def _leads(self) -> bool:
        return self._leadership is not None and self._leadership.lease is not None

    async def _lead(
        self, leadership: Leadership, dependencies: TermDependencies, outage: DatabaseOutage
    ) -> None:
        await _migrate_when_up(dependencies.database, outage)
        await leadership.run(lambda lease: self._serve(dependencies, lease))

    def _dependencies(
        self, database: Database, client: Client, failed_terms: RepeatedFailures
    ) -> TermDependencies:
        settings = self._settings
        rules = PodRules(
            scheduler=settings.scheduler_name,
            aliases=frozenset(settings.scheduler_aliases),
        )
        return TermDependencies(
            database=database,
            client=client,
            rules=rules,
            patience=Timeouts(
                refusal_grace=math.ceil(settings.refusal_grace_seconds),
                dead_node=math.ceil(settings.dead_node_seconds),
                eviction_grace=math.ceil(settings.eviction_grace_seconds),
                backoff=math.ceil(settings.backoff_seconds),
                backoff_limit=math.ceil(settings.backoff_max_seconds),
                dry_run=math.ceil(2 * PATIENCE) if settings.dry_runs else 0,
            ),
            dry_runs=settings.dry_runs,
            retention=Retention(
                decisions=settings.retention_decisions_days,
                ended_work=settings.retention_ended_work_days,
                postings=settings.retention_postings_days,
            ),
            budget_zone=zone_of(settings.budget_time_zone),
            turn_every=settings.turn_at_least_every_seconds,
            observe=self._metrics.observe,
            address=settings.announced_url,
            put_off=self._metrics.put_off,
            observe_dry_run=self._metrics.observe_dry_run,
            decision_thread=DecisionThread(settings.decision_limit_seconds),
            keep_failed_turn=self._failed_turns.keep,
            contact=ApiServerContact(client, settings.api_server_lost_seconds),
            ledger_guard=LedgerGuard(database, ClusterLedger(client)),
            failed_terms=failed_terms,
            failpoint=armed(os.environ.get("MUSTER_FAULT")),
        )

    async def _serve(self, dependencies: TermDependencies, lease: LeaderLease) -> None:
        use_kinds(await usable_kinds(dependencies.client))
        term = self._term = LeaderTerm(dependencies, lease)
        self._metrics.leads(lease.term.number)
        try:
            with about(term=lease.term.number):
                await term.run()
        except Exception as error:
            self._metrics.ended(first_error(error))
            raise
        finally:
            self._term = None
            self._metrics.leads(None)

    def _checks(self, database: Database, dependencies: TermDependencies) -> dict[str, Check]:
        async def ledger() -> str | None:
            return dependencies.ledger_guard.problem

        async def leader() -> str | None:
            if self._term is not None and not self._term.ready:
                return "this replica leads and is still reading the cluster"
            return None

        async def watches() -> str | None:
            lag = self._term.lag() if self._term is not None and self._term.ready else Lag()
            return f"{lag.why}, {duration(int(lag.seconds))} behind" if lag.seconds > WATCHES_BEHIND else None

        return {
            "postgres": PostgresCheck(database),
            "ledger": ledger,
            "leader": leader,
            "decision": dependencies.decision_thread.problem,
            "watches": watches,
        }

    def _last(self) -> Decided | None:
        """The last decision of this replica; None if it does not lead."""
        cycle = self._term.cycle if self._term is not None else None
        return cycle.last if cycle is not None else None

    def _problems(self, namespace: str, name: str) -> list[tuple[Workload, Reason]]:
        statuses = self._term.statuses if self._term is not None else None
        return list(statuses.problems_of(namespace, name)) if statuses is not None else []

    def _tell_starts(self, starts: Mapping[WorkloadKey, ExpectedStart]) -> None:
        """Have the objects of workloads say when they should start."""
        statuses = self._term.statuses if self._term is not None else None
        if statuses is not None:
            statuses.starts.forecast(starts)

    def _unknown_starts(self) -> frozenset[WorkloadKey]:
        """Workloads with no start that can be expected, though the engine would admit them some time."""
        statuses = self._term.statuses if self._term is not None else None
        return frozenset() if statuses is None else statuses.own_updates()

    def _world_view(self) -> WorldView | None:
        """What trials start from; None if this replica does not lead."""
        term = self._term
        if term is None or term.world is None:
            return None
        return WorldView(
            world=term.world,
            context=term.informers.context,
            now=int(time.time()),
        )

    def _last_snapshot(self) -> Snapshot | None:
        last = self._last()
        return last.snapshot if last is not None else None

    def _budget_use(self) -> BudgetUse | None:
        term = self._term
        return None if term is None or term.world is None else term.world.budgets.use

    def _certificates(self) -> dict[tuple[str, str], Validity]:
        return {
            (role, name): valid
            for role, process in self._beside.items()
            for name, valid in process.certificates.items()
        }

    def _leader_figures(self) -> LeaderFigures:
        term = self._term
        if term is None:
            return LeaderFigures()
        keeper, unseen, world = term.history_keeper, term.unseen_pods, term.world
        return LeaderFigures(
            informers=term.informers.hearings(),
            retention_lag={} if keeper is None else keeper.lag(),
            unlisted_jobs=0 if unseen is None else unseen.unlisted,
            node_health=None if world is None else world.node_inventory.health(),
            silent_checks={} if world is None else world.admission_checks.silent(int(time.time())),
        )


async def _migrate_when_up(database: Database, outage: DatabaseOutage) -> None:
    """Bring the schema up to date, as far as replicas of the version before can live with.

    Waits for Postgres, and for a schema that this version knows: until then this replica is not ready, and reads and
    reviews are answered. It does not end, else it would be started again and again, and find the same. Raises
    DatabaseError: it never can be.
    """
    pauses = RepeatedFailures("attempts to migrate", first=FIRST_PAUSE, longest=LONGEST_PAUSE)
    told = ""
    while True:
        try:
            await migrate(database.dsn, READY)
            async with database.transaction() as tx:
                await check_schema(tx)
            return
        except DatabaseUnavailable as error:
            outage.note(error)
            seconds = pauses.note(error)
            _log.warning("waiting for Postgres", extra={"why": str(error), "seconds": round(seconds, 1)})
        except (SchemaTooNew, SchemaTooFarBehind, UnreleasedSchema) as error:
            seconds = pauses.note(error)
            if str(error) != told:
                told = str(error)
                _log.warning("waiting for a schema that this version knows", extra={"why": told})
        await asyncio.sleep(seconds)


async def _why_unfit(dependencies: TermDependencies, definition: QueueDefinition) -> str | None:
    """Why this process must not lead now; None if it may."""
    if dependencies.decision_thread.is_busy():
        return "a decision of an earlier term still runs"
    if await dependencies.contact.is_lost():
        return "the API server does not answer"
    if (why := await definition.why_refused()) is not None:
        return why
    return await dependencies.ledger_guard.why_refused()


async def run(settings: Settings) -> int:
    """``muster run``. Raises MusterError when it cannot even start."""
    return await Controller(settings).run()
