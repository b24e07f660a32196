"""The plain HTTP server of every replica: health for the kubelet, metrics for Prometheus.

/livez (also /healthz)  /readyz  /metrics
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from admission.web.access.answer_cache import Kept
from admission.web.http import errors_as_json, json_answer, problem
from admission.web.reader import Check
from queues.read_api import bodies

_log = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 2.0
#: Connections at a time: kubelet and Prometheus need a handful. The answers are made on the leader's own loop.
MOST_CONNECTIONS: Final = 64
#: Seconds for which the text of the metrics is given again: with many queues it takes long to write.
_TEXT_KEPT: Final = 1.0
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_PATHS: Final = "/livez, /readyz, /metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthApi:
    """The handlers of the application."""

    #: Checks by name, run at each request.
    ready: Mapping[str, Check]
    #: The Prometheus text. None if only the read API gives it, to users who may have it.
    metrics: Callable[[], Awaitable[bytes]] | None

    def application(self) -> web.Application:
        """The application with all routes."""
        application = web.Application(middlewares=[errors_as_json(_PATHS)])
        application.add_routes(
            [
                web.get("/livez", self.show_health),
                web.get("/healthz", self.show_health),
                web.get("/readyz", self.show_readiness),
                web.get("/metrics", self.show_metrics),
            ]
        )
        return application

    async def show_health(self, _: web.Request) -> web.Response:
        """No checks: a replica that answers is alive."""
        return await _checked_all({})

    async def show_readiness(self, _: web.Request) -> web.Response:
        """All checks."""
        return await _checked_all(self.ready)

    async def show_metrics(self, _: web.Request) -> web.Response:
        """The metrics."""
        if self.metrics is None:
            hint = "Ask for /metrics on readListen with the token of a service account that may get it."
            return problem(403, "Metrics are not open here (metricsAccess).", hint=hint)
        return web.Response(body=await self.metrics(), headers={"Content-Type": METRICS_TYPE})


def kept_text(write: Callable[[], Awaitable[bytes]]) -> Callable[[], Awaitable[bytes]]:
    """The text of the metrics, written anew at most once a second, however many ask for it."""
    kept: Kept[None, bytes] = Kept(_TEXT_KEPT, 1)
    return lambda: kept.get(None, write)


async def _checked_all(checks: Mapping[str, Check]) -> web.Response:
    found = await asyncio.gather(*(_checked(name, check) for name, check in checks.items()))
    ok = all(check.ok for check in found)
    return json_answer(bodies.Checks(ok=ok, checks=tuple(found)), 200 if ok else 503)


async def _checked(name: str, check: Check) -> bodies.CheckBody:
    try:
        message = await asyncio.wait_for(check(), _CHECK_SECONDS)
    except TimeoutError:
        message = f"no answer within {_CHECK_SECONDS:g} seconds"
    except Exception as error:
        _log.exception("check %s failed", name)
        message = f"{type(error).__name__}: {error}"
    return bodies.CheckBody(name=name, ok=message is None, message=message or "")
