"""A process that serves beside the leader: the read API for users, or the webhook for the API server.

    python -m admission.web.process < order

It ends when its standard input does: with the process that started it, whatever ends that.
"""

import asyncio
import logging
import os
import ssl
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final, NoReturn, TypeVar

import msgspec

from admission import logs
from admission.kube.access_reviews import FrontProxy, front_proxy
from admission.kube.client.client import Client
from admission.kube.install.availability import look_again
from admission.kube.webhook.configuration import Callee
from admission.kube.webhook.keyring import KeyringStore
from admission.settings import Settings
from admission.web.access.callers import Callers
from admission.web.access.rights import Rights
from admission.web.app import ReadApi
from admission.web.http import serving
from admission.web.leader.channel import LeaderChannel
from admission.web.leader.forwarding import LeaderQuestions
from admission.web.sql_reader import SqlReader
from admission.web.supervision import OPEN, ServingOrder
from queues.errors import ApiError
from queues.sql.database import Database

_log = logging.getLogger(__name__)

T = TypeVar("T")
#: Connections to Postgres for all users, and seconds for one statement.
_CONNECTIONS: Final = 3
_STATEMENT_SECONDS: Final = 4.0
#: Requests to the API server at a time.
_REQUESTS: Final = 32
#: Below the leader: it gets the processor first.
_NICE: Final = 10
#: Seconds for which the overview of the queues is used again.
_KEEP: Final = 1.0
#: Seconds between attempts to reach the API server.
_PAUSE: Final = 1.0
#: Seconds between two looks at how the API server's proxy identifies itself.
_PROXY_EVERY: Final = 60.0
#: Seconds after the order to end after which the webhook ends anyhow. Answers to users are not waited for.
_GRACE: Final = 0.5


class ProxyChanged(Exception):
    """The API server's proxy identifies itself in another way: begin anew."""


async def run(order: ServingOrder, stop: asyncio.Event) -> None:
    """Serve until ``stop`` is set."""
    settings = Settings.model_validate(order.settings)
    async with await Client.connect(settings.kubeconfig, settings.context, concurrency=_REQUESTS) as client:
        serve = _serve_webhook if order.role == "webhook" else _serve_readers
        serving = asyncio.create_task(serve(order, settings, client), name=order.role)
        stopping = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if serving in done:
            serving.result()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def _serve_webhook(order: ServingOrder, settings: Settings, client: Client) -> NoReturn:
    from admission.kube.webhook.server import WebhookServer

    callee = Callee(url=settings.webhook_url, namespace=settings.namespace)
    address = settings.webhook_address
    server = WebhookServer(client, callee=callee, host=address.host, port=address.port)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_tell(server.open))
        await server.run()


async def _serve_readers(order: ServingOrder, settings: Settings, client: Client) -> NoReturn:
    os.nice(_NICE)
    callee = Callee(namespace=settings.namespace)
    keeper = KeyringStore(client, namespace=settings.namespace, names=callee.names())
    await _persistently("certificates", keeper.keep)
    proxy = await _persistently("the API server's proxy", lambda: front_proxy(client))
    trust(keeper.tls, proxy)
    database = Database.open(
        order.dsn, statement_timeout=_STATEMENT_SECONDS, pool_size=_CONNECTIONS, read_only=True
    )
    reader = SqlReader(database, keep=_KEEP)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        channel = LeaderChannel(Path(order.channel))
        stack.push_async_callback(channel.close)

        async def metrics() -> bytes:
            return (await channel.ask("/metrics", {}))[1]

        application = ReadApi(
            authenticate=Callers(client, proxy).caller,
            rights=Rights(client, namespaces=reader.waiting_namespaces, queues=reader.queue_names),
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
        ).application()
        await stack.enter_async_context(serving(application, settings.read_address, tls=keeper.tls))
        _log.info("read API open")
        _say_open()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keeper.run(), name="certificates")
            tasks.create_task(_watch_proxy(client, proxy), name="proxy")
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
        except ApiError as error:
            if str(error) != told:
                told = str(error)
                _log.warning("waiting for %s: %s", what, error)
        await asyncio.sleep(_PAUSE)


async def _tell(is_open: asyncio.Event) -> None:
    await is_open.wait()
    _say_open()


def _say_open() -> None:
    with suppress(
        BrokenPipeError
    ):  # the process that started this one has ended: so does this one, by its input
        os.write(sys.stdout.fileno(), OPEN)


def _end_with_input(stop: Callable[[], object], grace: float) -> None:
    """In a thread of its own: wait for the end of the input, then end the process, at the latest after ``grace``."""
    # Not by way of sys.stdin: its lock would be held when the interpreter is taken down, which aborts the process.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    if grace:
        with suppress(RuntimeError):  # the loop has ended already
            stop()
        threading.Event().wait(grace)
    os._exit(0)


async def _main(order: ServingOrder) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    grace = _GRACE if order.role == "webhook" else 0.0
    arguments = (lambda: loop.call_soon_threadsafe(stop.set), grace)
    threading.Thread(target=_end_with_input, args=arguments, daemon=True).start()
    await run(order, stop)
    os._exit(0)  # nothing is left to be done: taking the interpreter down would take longer than the rest


def main() -> int:
    """Read the order, and carry it out. Without one nothing is done: what would have given it has ended."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return 0
    order = msgspec.json.decode(line, type=ServingOrder)
    settings = Settings.model_validate(order.settings)
    logs.configure(form=settings.log_format, level=settings.log_level)
    status = 0
    try:
        asyncio.run(_main(order))
    except* ProxyChanged:
        _log.info("the API server's proxy identifies itself in another way")
    except* OSError as errors:  # a port that is taken
        _log.warning("%s cannot be served: %s", order.role, errors.exceptions[0])
        status = 1
    except* Exception:
        _log.critical("%s failed", order.role, exc_info=True)
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
