"""The HTTP server of every replica: health, metrics and the read API. Reads only; nothing changes through it.

/healthz  /readyz  /metrics
/api/v1/queues
/api/v1/pending?queue=&namespace=&limit=
/api/v1/workloads/{namespace}/{name}?kind=
/api/v1/workloads/{namespace}/{name}/outlook?kind=      (leader only)
/api/v1/snapshot                            (leader only)
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiohttp import web

from admission.settings import Address
from admission.web import bodies
from admission.web.reader import Check, NotLeading, UnknownName
from admission.web.sql_reader import SqlReader
from queues.errors import DatabaseError, MusterError
from queues.workload import WorkloadKind

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode

_CHECK_SECONDS: Final = 2.0
_READ_SECONDS: Final = 10.0
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
DEFAULT_LIMIT: Final = 1000
_PATHS: Final = (
    "/healthz, /readyz, /metrics, /api/v1/queues, /api/v1/pending, /api/v1/workloads/NAMESPACE/NAME"
)

#: Namespace, name, kind (None: every kind).
Outlooks = Callable[[str, str, str | None], Awaitable[tuple[bodies.OutlookBody, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadApi:
    """The handlers of the application."""

    reader: SqlReader
    #: The Prometheus text.
    metrics: Callable[[], bytes]
    #: Checks by name, run at each request.
    ready: Mapping[str, Check]
    #: The engine's input, serialised. Raises NotLeading.
    snapshot: Callable[[], Awaitable[bytes]]
    #: Changes that would let pending workloads of a namespace, name and kind in. Raises NotLeading.
    outlook: Outlooks

    def application(self) -> web.Application:
        """The application with all routes."""
        application = web.Application(middlewares=[_errors_as_json])
        application.add_routes(
            [
                web.get("/healthz", self.show_health),
                web.get("/readyz", self.show_readiness),
                web.get("/metrics", self.show_metrics),
                web.get("/api/v1/queues", self.show_queues),
                web.get("/api/v1/pending", self.show_pending),
                web.get("/api/v1/workloads/{namespace}/{name}", self.explain),
                web.get("/api/v1/workloads/{namespace}/{name}/outlook", self.show_outlook),
                web.get("/api/v1/snapshot", self.show_snapshot),
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
        return web.Response(body=self.metrics(), headers={"Content-Type": _METRICS_TYPE})

    async def show_queues(self, _: web.Request) -> web.Response:
        """All queues."""
        return _json(await asyncio.wait_for(self.reader.queues(), _READ_SECONDS))

    async def show_pending(self, request: web.Request) -> web.Response:
        """Pending workloads."""
        _only(request, "queue", "namespace", "limit")
        limit = request.query.get("limit", str(DEFAULT_LIMIT))
        if not limit.isdecimal() or int(limit) > 1_000_000:
            raise _BadQuery(f"limit is {limit!r}", expected="a whole number from 0 to 1000000")
        question = self.reader.pending(
            queue=request.query.get("queue") or None,
            namespace=request.query.get("namespace") or None,
            limit=int(limit),
        )
        return _json(await asyncio.wait_for(question, _READ_SECONDS))

    async def explain(self, request: web.Request) -> web.Response:
        """Everything about the workloads of a name."""
        question = self.reader.explain(**request.match_info, kind=_kind(request))
        return _json(list(await asyncio.wait_for(question, _READ_SECONDS)))

    async def show_outlook(self, request: web.Request) -> web.Response:
        """What would let the workloads of a name in."""
        kind = _kind(request)
        return _json(
            list(await self.outlook(request.match_info["namespace"], request.match_info["name"], kind))
        )

    async def show_snapshot(self, _: web.Request) -> web.Response:
        """The last turn."""
        return web.Response(body=await self.snapshot(), content_type="application/octet-stream")


@asynccontextmanager
async def serving(application: web.Application, listen: Address) -> AsyncIterator[int]:
    """Serves inside the block; gives the port (asked 0: a free one). Raises OSError if it is taken."""
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, listen.host, listen.port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _json(body: bodies.Body | list[bodies.Body], status: int = 200) -> web.Response:
    return web.Response(body=_encode(body), status=status, content_type="application/json")


def _problem(status: int, error: str, *, expected: str = "", hint: str = "") -> web.Response:
    return _json(bodies.ProblemBody(error=error, expected=expected, hint=hint), status)


async def _checked_all(checks: Mapping[str, Check]) -> web.Response:
    found = await asyncio.gather(*(_checked(name, check) for name, check in checks.items()))
    ok = all(check.ok for check in found)
    return _json(bodies.Checks(ok=ok, checks=tuple(found)), 200 if ok else 503)


async def _checked(name: str, check: Check) -> bodies.CheckBody:
    try:
        message = await asyncio.wait_for(check(), _CHECK_SECONDS)
    except TimeoutError:
        message = f"no answer within {_CHECK_SECONDS:g} seconds"
    except Exception as error:
        _log.exception("check %s failed", name)
        message = f"{type(error).__name__}: {error}"
    return bodies.CheckBody(name=name, ok=message is None, message=message or "")


def _kind(request: web.Request) -> str | None:
    _only(request, "kind")
    kind = request.query.get("kind") or None
    if kind is not None and kind not in {str(known) for known in WorkloadKind}:
        raise _BadQuery(f"kind is {kind!r}", expected=f"one of {', '.join(WorkloadKind)}")
    return kind


class _BadQuery(Exception):
    def __init__(self, error: str, *, expected: str) -> None:
        super().__init__(error)
        self.expected = expected


def _only(request: web.Request, *known: str) -> None:
    for name in request.query:
        if name not in known:
            raise _BadQuery(f"{name} is not a parameter of {request.path}", expected=", ".join(known))


#: Status and hint of an answer for each error of Muster. The first that matches counts.
_STATUS_AND_HINT: Final[tuple[tuple[type[MusterError], int, str], ...]] = (
    (NotLeading, 409, "Ask again; another replica may answer."),
    (DatabaseError, 503, "Ask again when Postgres is back; /readyz shows when."),
    (MusterError, 500, "The log of this replica may have the cause."),
)


@web.middleware
async def _errors_as_json(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        answer: web.StreamResponse = await handler(request)
        return answer
    except web.HTTPException as error:
        return _http_problem(request, error)
    except _BadQuery as error:
        return _problem(400, f"{error}.", expected=error.expected)
    except MusterError as error:
        return _muster_problem(error)
    except TimeoutError:
        return _problem(503, f"Postgres gave no answer within {_READ_SECONDS:g} seconds.", hint="Ask again.")
    except Exception:
        _log.exception("%s %s failed", request.method, request.path)
        return _problem(500, "Muster failed to answer.", hint="The log of this replica has the cause.")


def _muster_problem(error: MusterError) -> web.Response:
    if isinstance(error, UnknownName):
        hint = f"Did you mean {' or '.join(error.near)}?" if error.near else ""
        return _problem(404, str(error), hint=hint)
    return next(
        _problem(status, str(error), hint=hint)
        for kind, status, hint in _STATUS_AND_HINT
        if isinstance(error, kind)
    )


def _http_problem(request: web.Request, error: web.HTTPException) -> web.Response:
    if error.status == 404:
        return _problem(404, f"There is nothing at {request.path}.", expected=_PATHS)
    if error.status == 405:
        return _problem(405, f"{request.method} is not possible at {request.path}.", expected="GET")
    return _problem(error.status, f"{error.reason}.")
