"""The webhook as a running server, on every replica: what it watches, its certificates, its socket."""

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Final, NoReturn

from aiohttp import web

from admission.kube.client.client import Client
from admission.kube.webhook.configuration import Callee
from admission.kube.webhook.mounted_certificates import CertificatesUnusable, serving_certificates
from admission.kube.webhook.review import app
from admission.kube.webhook.watched_objects import WatchedObjects
from queues.errors import ApiError

_log = logging.getLogger(__name__)

#: Seconds between attempts to get certificates at start: without them nothing can be served.
_RETRY_AFTER: Final = 2.0


class WebhookServer:
    """Serves the webhook. ``run`` it as a task of every replica."""

    def __init__(
        self,
        client: Client,
        *,
        callee: Callee,
        host: str | None,
        port: int,
        certificates: Path | None = None,
        schedulers: Collection[str] | None = None,
    ) -> None:
        """``certificates``: a folder with those that others make. If None, Muster makes them. ``schedulers``: names of
        the stock scheduler, None for the usual ones."""
        self._host = host
        self.watched = WatchedObjects(client, schedulers)
        self.keeper = serving_certificates(client, callee, certificates)
        #: Set while the webhook answers.
        self.open = asyncio.Event()
        #: Where it really listens, once open: asked for 0, a free port.
        self.port = port

    async def run(self) -> NoReturn:
        """Serve for ever. A failure of the API server only delays it. Raises OSError if the port is taken."""
        while True:
            try:
                await self.keeper.keep()
                break
            except (ApiError, CertificatesUnusable) as error:
                _log.warning("the webhook waits for its certificates: %s", error)
                await asyncio.sleep(_RETRY_AFTER)
        runner = web.AppRunner(
            app(self.watched),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=1.0,
            keepalive_timeout=300,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self.port, ssl_context=self.keeper.tls).start()
            self.port = runner.addresses[0][1]
            self.open.set()
            _log.info("webhook open", extra={"port": self.port})
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.watched.run(), name="webhook informers")
                tasks.create_task(self.keeper.run(), name="webhook certificates")
        finally:
            self.open.clear()
            connections = list(runner.server.connections) if runner.server is not None else []
            transports = [connection.transport for connection in connections]
            await runner.cleanup()
            for transport in transports:
                # A TLS connection would go on waiting for the API server's farewell.
                if transport is not None:
                    transport.abort()
            # Their sockets are closed in the loop's next passes; it may have no others.
            for _ in range(3):
                await asyncio.sleep(0)
        raise AssertionError("informers and certificates are kept for ever")
