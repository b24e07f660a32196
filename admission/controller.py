"""The composition root: builds everything, runs it in one TaskGroup, and ends it in order."""

import asyncio
import logging
import math
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from admission import garbage_collection
from admission.containment.decision_thread import DecisionThread
from admission.containment.failed_turns import FailedTurns
from admission.containment.loop_watchdog import LoopWatchdog
from admission.containment.postgres_check import PostgresCheck
from admission.containment.repeated_failures import RepeatedFailures
from admission.failpoints import armed
from admission.kube.client.client import Client
from admission.kube.watch.api_server_contact import ApiServerContact
from admission.kube.webhook.configuration import Callee
from admission.kube.webhook.server import WebhookServer
from admission.leadership import LeaderLease, Leadership, LeaseTiming, first_error, terms_in_a_row
from admission.logs import about
from admission.metrics import Metrics, Watching
from admission.replay.fingerprint import fingerprint
from admission.replay.snapshot_file import save
from admission.settings import IN_CLUSTER, Settings, ledger_dsn
from admission.term import LeaderTerm, TermDependencies
from admission.turn_report import Decided
from admission.volcano_jobs.pods import PodRules
from admission.web import app as web
from admission.web.bodies import OutlookBody
from admission.web.outlook import outlooks
from admission.web.reader import Check, NotLeading
from admission.web.sql_reader import SqlReader
from admission.workloads.inputs import Timeouts
from queues.errors import DatabaseUnavailable, MusterError
from queues.sql.database import IDLE_TIMEOUT, Database, check_schema, migrate
from queues.sql.embedded.server import EmbeddedPostgres
from queues.sql.leadership import holder

_log = logging.getLogger(__name__)

#: The interpreter hands the processor over this often while a decision runs beside the loop. Seconds.
SWITCH_INTERVAL = 0.0005
#: Seconds of the pauses between attempts to migrate a database that cannot be reached.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
#: Where an administrator's tools look for what Muster leaves on disk.
STATE = Path(".local") / "state" / "muster"


class Controller:
    """One replica: serves users and the API server always, and leads whenever elected."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._term: LeaderTerm | None = None
        self._client: Client | None = None
        self._leadership: Leadership | None = None
        self._watchdog = LoopWatchdog()
        self._metrics = Metrics(
            requests=self._requests, informers=self._watching, longest_block=self._watchdog.longest
        )

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT; returns the exit code."""
        settings = self._settings
        sys.setswitchinterval(SWITCH_INTERVAL)
        garbage_collection.collect_seldom()
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
            leadership = self._leadership = Leadership(
                database,
                settings.identity,
                timing,
                failures=dependencies.failed_terms,
                unfit=lambda: _why_unfit(dependencies),
            )
            application = web.ReadApi(
                reader=SqlReader(database),
                metrics=self._metrics.text,
                ready=self._checks(database),
                snapshot=lambda: self._snapshot(database),
                outlook=lambda namespace, name, kind: self._outlook(database, namespace, name, kind),
            ).application()
            await stack.enter_async_context(web.serving(application, settings.http_address))
            await self._run_tasks(leadership, dependencies, stop)
        return 0

    async def _run_tasks(
        self, leadership: Leadership, dependencies: TermDependencies, stop: asyncio.Event
    ) -> None:
        """Serve the webhook and lead, until stopped. Raises MusterError for a database that can never be used."""
        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                door = self._door(dependencies.client)
                running = [
                    tasks.create_task(self._watchdog.run(), name="loop watchdog"),
                    tasks.create_task(self._lead(leadership, dependencies), name="lead"),
                ]
                if door is not None:
                    running.append(tasks.create_task(door.run(), name="webhook"))
                await stop.wait()
                _log.info("stopping")
                for task in running:
                    task.cancel()
        except* MusterError as errors:
            failure = first_error(errors)
        if failure is not None:
            raise failure

    def _door(self, client: Client) -> WebhookServer | None:
        """The webhook, where the API server can reach this process: at a URL, or by its Service."""
        settings = self._settings
        if settings.webhook_url is None and IN_CLUSTER not in os.environ:
            return None
        callee = Callee(url=settings.webhook_url, namespace=settings.namespace)
        address = settings.webhook_address
        return WebhookServer(client, callee=callee, host=address.host, port=address.port)

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
        stack.push_async_callback(database.close)
        return database

    async def _lead(self, leadership: Leadership, dependencies: TermDependencies) -> None:
        await _migrate_when_up(dependencies.database)
        await leadership.run(lambda lease: self._serve(dependencies, lease))

    def _dependencies(
        self, database: Database, client: Client, failed_terms: RepeatedFailures
    ) -> TermDependencies:
        settings = self._settings
        twins: dict[str, str] = {}
        rules = PodRules(
            scheduler=settings.scheduler_name,
            aliases=frozenset(settings.scheduler_aliases),
            non_preempting=twins,
        )
        return TermDependencies(
            database=database,
            client=client,
            rules=rules,
            twins=twins,
            patience=Timeouts(
                refusal_grace=int(settings.refusal_grace_seconds),
                dead_node=math.ceil(settings.dead_node_seconds),
                backoff=int(settings.backoff_seconds),
                backoff_limit=int(settings.backoff_max_seconds),
            ),
            turn_every=settings.turn_at_least_every_seconds,
            observe=self._metrics.observe,
            put_off=self._metrics.put_off,
            decision_thread=DecisionThread(settings.decision_limit_seconds),
            keep_failed_turn=FailedTurns(
                settings.failed_turns_dir or Path.home() / STATE / "failed-turns", fingerprint()
            ).keep,
            contact=ApiServerContact(client, settings.api_server_lost_seconds),
            failed_terms=failed_terms,
            failpoint=armed(os.environ.get("MUSTER_FAULT")),
        )

    async def _serve(self, dependencies: TermDependencies, lease: LeaderLease) -> None:
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

    def _checks(self, database: Database) -> dict[str, Check]:
        async def leader() -> str | None:
            if self._term is not None and not self._term.ready:
                return "this replica leads and is still reading the cluster"
            return None

        return {"postgres": PostgresCheck(database), "leader": leader}

    async def _snapshot(self, database: Database) -> bytes:
        last = await self._last(database)
        return await asyncio.to_thread(save, last.snapshot, last.plan, fingerprint())

    async def _outlook(
        self, database: Database, namespace: str, name: str, kind: str | None
    ) -> tuple[OutlookBody, ...]:
        last = await self._last(database)
        return await asyncio.to_thread(outlooks, last.snapshot, last.plan, namespace, name, kind)

    async def _last(self, database: Database) -> Decided:
        """The last decision of this replica. Raises NotLeading."""
        cycle = self._term.cycle if self._term is not None else None
        if cycle is None or cycle.last is None:
            async with database.transaction() as tx:
                leads = await holder(tx)
            raise NotLeading(identity=self._settings.identity, leader=leads or "nobody")
        return cycle.last

    def _requests(self) -> dict[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        if self._client is not None:
            for (verb, _, code), count in self._client.counts.items():
                found[(verb, str(code))] = found.get((verb, str(code)), 0) + count
        return found

    def _watching(self) -> dict[str, Watching]:
        if self._term is None:
            return {}
        return {
            name: Watching(silent_seconds=h.silent_seconds, lists=h.lists, objects=h.objects)
            for name, h in self._term.informers.hearings().items()
        }


async def _migrate_when_up(database: Database) -> None:
    """Bring the schema up to date, as soon as Postgres can be reached. Raises DatabaseError: it never can be."""
    pauses = RepeatedFailures("attempts to migrate", first=FIRST_PAUSE, longest=LONGEST_PAUSE)
    while True:
        try:
            await migrate(database.dsn)
            async with database.transaction() as tx:
                await check_schema(tx)
            return
        except DatabaseUnavailable as error:
            seconds = pauses.note(error)
            _log.warning("waiting for Postgres", extra={"why": str(error), "seconds": round(seconds, 1)})
            await asyncio.sleep(seconds)


async def _why_unfit(dependencies: TermDependencies) -> str | None:
    """Why this process must not lead now; None: it may."""
    if dependencies.decision_thread.is_busy():
        return "a decision of an earlier term still runs"
    if await dependencies.contact.is_lost():
        return "the API server does not answer"
    return None


async def run(settings: Settings) -> int:
    """``muster run``. Raises MusterError when it cannot even start."""
    return await Controller(settings).run()
