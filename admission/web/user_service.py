"""The read API for users, with its users' rights and its certificates; it runs in a process of its own."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from admission.kube.access_reviews import FrontProxy, front_proxy
from admission.kube.client.client import Client
from admission.kube.install.availability import look_again
from admission.kube.webhook.configuration import Callee
from admission.kube.webhook.mounted_certificates import CertificatesUnusable, serving_certificates
from admission.kube.webhook.validity import CertificatesLoaded, tell_nobody
from admission.kube.workload_kinds import keep_kinds
from admission.settings import Settings
from admission.web.access.callers import Callers
from admission.web.access.rights import Rights
from admission.web.app import ReadApi
from admission.web.http import serving
from admission.web.leader.channel import LeaderChannel
from admission.web.leader.forwarding import LeaderQuestions
from admission.web.leader.silence import telling_silence
from admission.web.replicas import addresses
from admission.web.sql_reader import SqlReader
from admission.web.supervision import ServingOrder
from queues.api.schedules.cron import zone_of
from queues.errors import ApiError
from queues.sql.database import Database

_log = logging.getLogger(__name__)

T = TypeVar("T")
#: Connections to Postgres for all users, and seconds for one statement.
_CONNECTIONS: Final = 3
_STATEMENT_SECONDS: Final = 4.0
#: Seconds for which the overview of the queues is used again.
_KEEP: Final = 1.0
#: Seconds between attempts to reach the API server.
_PAUSE: Final = 1.0
#: Seconds between two looks at how the API server's proxy identifies itself.
_PROXY_EVERY: Final = 60.0


class ProxyChanged(Exception):
    """The API server's proxy identifies itself in another way."""


async def serve(
    order: ServingOrder,
    settings: Settings,
    client: Client,
    say_open: Callable[[], None],
    say_certificates: CertificatesLoaded = tell_nobody,
) -> None:
    """Serve until cancelled, or until the API server's proxy identifies itself in another way: begin anew then."""
    try:
        await _serve(order, settings, client, say_open, say_certificates)
    except* ProxyChanged:
        _log.info("the API server's proxy identifies itself in another way")


async def _serve(
    order: ServingOrder,
    settings: Settings,
    client: Client,
    say_open: Callable[[], None],
    say_certificates: CertificatesLoaded,
) -> NoReturn:
    callee = Callee(namespace=settings.namespace)
    keeper = serving_certificates(client, callee, settings.certificates_dir)
    keeper.loaded = say_certificates
    await _persistently("certificates", keeper.keep)
    proxy = await _persistently("the API server's proxy", lambda: front_proxy(client))
    trust(keeper.tls, proxy)
    database = Database.open(
        settings.dsn_file or order.dsn,
        statement_timeout=_STATEMENT_SECONDS,
        pool_size=_CONNECTIONS,
        read_only=True,
    )
    reader = SqlReader(database, keep=_KEEP, budget_zone=zone_of(settings.budget_time_zone))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        channel = LeaderChannel(Path(order.channel))
        stack.push_async_callback(channel.close)

        async def metrics() -> bytes:
            return (await channel.ask("/metrics", {}))[1]

        application = ReadApi(
            authenticate=Callers(client, proxy).caller,
            rights=Rights(client, kinds=reader.kinds_in_namespaces, queues=reader.queue_names),
            reader=reader,
            leader=LeaderQuestions(
                channel,
                identity=settings.identity,
                host=callee.read_host,
                heartbeat=reader.leader,
                token=client.authorization,
                authorities=keeper.bundle,
            ),
            metrics=metrics,
            replicas=lambda: addresses(client, settings),
        ).application()
        application.middlewares.append(telling_silence(reader.leader))
        await stack.enter_async_context(serving(application, settings.read_address, tls=keeper.tls))
        _log.info("read API open")
        say_open()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keeper.run(), name="certificates")
            tasks.create_task(_watch_proxy(client, proxy), name="proxy")
            tasks.create_task(keep_kinds(client), name="kinds")
            tasks.create_task(look_again(client), name="availability")
    raise AssertionError("certificates are kept for ever")


def trust(tls: ssl.SSLContext, proxy: FrontProxy) -> None:
    """Ask clients for a certificate, and take only those of the API server's proxy. Without one: by token."""
    if proxy.authority:
        tls.load_verify_locations(cadata=proxy.authority)
        tls.verify_mode = ssl.CERT_OPTIONAL


async def _watch_proxy(client: Client, proxy: FrontProxy) -> NoReturn:
    """Raises ProxyChanged."""
    while True:
        await asyncio.sleep(_PROXY_EVERY)
        try:
            if await front_proxy(client) != proxy:
                raise ProxyChanged
        except ApiError as error:
            _log.warning("the API server's proxy could not be looked up: %s", error)


async def _persistently(what: str, attempt: Callable[[], Awaitable[T]]) -> T:
    """Try again and again; a failure is logged once."""
    told = ""
    while True:
        try:
            return await attempt()
        except (ApiError, CertificatesUnusable) as error:
            if str(error) != told:
                told = str(error)
                _log.warning("waiting for %s: %s", what, error)
        await asyncio.sleep(_PAUSE)
