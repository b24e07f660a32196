"""The composition root: builds everything, runs it in one TaskGroup, and ends it in order."""

import asyncio
import logging
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from admission import garbage_collection
from admission.failpoints import armed
from admission.kube.client.client import Client
from admission.kube.webhook.configuration import Callee
from admission.kube.webhook.server import WebhookServer
from admission.leadership import LeaderLease, Leadership, LeaseTiming
from admission.logs import about
from admission.metrics import Metrics, Watching
from admission.replay.fingerprint import fingerprint
from admission.replay.snapshot_file import save
from admission.settings import Settings
from admission.term import LeaderTerm, TermDependencies
from admission.turn_report import Decided
from admission.volcano_jobs.pods import PodRules
from admission.web import app as web
from admission.web.bodies import OutlookBody
from admission.web.outlook import outlooks
from admission.web.reader import Check, NotLeading
from admission.web.sql_reader import SqlReader
from admission.workloads.inputs import Timeouts
from queues.sql.database import IDLE_TIMEOUT, Database, check_schema, migrate
from queues.sql.embedded.server import EmbeddedPostgres
from queues.sql.leadership import holder

_log = logging.getLogger(__name__)

#: The interpreter hands the processor over this often while a decision runs beside the loop. Seconds.
SWITCH_INTERVAL = 0.0005


class Controller:
    """One replica: serves users and the API server always, and leads whenever elected."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._term: LeaderTerm | None = None
        self._client: Client | None = None
        self._leadership: Leadership | None = None
        self._metrics = Metrics(requests=self._requests, informers=self._watching)

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
            database = await self._database(stack)
            self._client = await stack.enter_async_context(
                await Client.connect(
                    settings.kubeconfig, settings.context, concurrency=settings.api_concurrency
                )
            )
            dependencies = self._dependencies(database, self._client)
            patience = LeaseTiming(lease=settings.lease_seconds, retry=settings.retry_seconds)
            leadership = self._leadership = Leadership(database, settings.identity, patience)
            application = web.ReadApi(
                reader=SqlReader(database),
                metrics=self._metrics.text,
                ready=self._checks(database),
                snapshot=lambda: self._snapshot(database),
                outlook=lambda namespace, name, kind: self._outlook(database, namespace, name, kind),
            ).application()
            await stack.enter_async_context(web.serving(application, settings.http_address))
            async with asyncio.TaskGroup() as tasks:
                door = self._door(self._client)
                opened = tasks.create_task(door.run(), name="webhook") if door is not None else None
                work = tasks.create_task(
                    leadership.run(lambda lease: self._serve(dependencies, lease)), name="lead"
                )
                await stop.wait()
                _log.info("stopping")
                work.cancel()
                if opened is not None:
                    opened.cancel()
        return 0

    def _door(self, client: Client) -> WebhookServer | None:
        """The webhook, where the API server can reach this process: at a URL, or by its Service."""
        settings = self._settings
        if settings.webhook_url is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
            return None
        callee = Callee(url=settings.webhook_url, namespace=settings.namespace)
        address = settings.webhook_address
        return WebhookServer(client, callee=callee, host=address.host, port=address.port)

    async def _database(self, stack: AsyncExitStack) -> Database:
        settings = self._settings
        if settings.dsn is not None:
            dsn = settings.dsn.get_secret_value()
        else:
            server = EmbeddedPostgres()
            folder = settings.data_dir or Path.home() / ".local" / "state" / "muster" / "postgres"
            dsn = await asyncio.to_thread(server.start, folder)
            stack.callback(server.stop)
            _log.info("embedded Postgres started", extra={"folder": str(folder)})
        await migrate(dsn)
        # A leader that stands still in the middle of a transaction must not hold up its successor.
        idle = min(IDLE_TIMEOUT, settings.lease_seconds / 2)
        database = await Database.connect(dsn, idle_timeout=idle)
        stack.push_async_callback(database.close)
        async with database.transaction() as tx:
            await check_schema(tx)
        return database

    def _dependencies(self, database: Database, client: Client) -> TermDependencies:
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
                backoff=int(settings.backoff_seconds),
                backoff_limit=int(settings.backoff_max_seconds),
            ),
            turn_every=settings.turn_at_least_every_seconds,
            observe=self._metrics.observe,
            failpoint=armed(os.environ.get("MUSTER_FAULT")),
        )

    async def _serve(self, dependencies: TermDependencies, lease: LeaderLease) -> None:
        term = self._term = LeaderTerm(dependencies, lease)
        self._metrics.leads(lease.term.number)
        try:
            with about(term=lease.term.number):
                await term.run()
        finally:
            self._term = None
            self._metrics.leads(None)

    def _checks(self, database: Database) -> dict[str, Check]:
        async def postgres() -> str | None:
            async with database.transaction() as tx:
                await check_schema(tx)
            return None

        async def leader() -> str | None:
            if self._term is not None and not self._term.ready:
                return "this replica leads and is still reading the cluster"
            return None

        return {"postgres": postgres, "leader": leader}

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


async def run(settings: Settings) -> int:
    """``muster run``. Raises MusterError when it cannot even start."""
    return await Controller(settings).run()
