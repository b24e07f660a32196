"""What the HTTP servers of Muster share: sockets, JSON answers, and errors as JSON."""

import asyncio
import base64
import errno
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from admission.settings import Address
from admission.trials.submitted import NothingToTry, UnusableDocument
from admission.web.access.callers import Unauthenticated
from admission.web.access.limits import RETRY_AFTER, TooBusy
from admission.web.access.rights import Forbidden
from admission.web.leader.channel import ChannelBroken
from admission.web.leader.forwarding import PLUGIN_FAILED, LeaderFailed, PluginFailed
from admission.web.reader import NotAllowed, NotLeading, PeriodTooLarge, TrialRefused, UnknownName
from queues.errors import ApiError, DatabaseError, MusterError
from queues.read_api import bodies
from queues.reason_codes import did_you_mean
from queues.text_format import rfc3339

_log = logging.getLogger(__name__)
encode: Final = msgspec.json.Encoder().encode

Place = TypeVar("Place")
#: Characters of a place that are read.
_LONGEST_PLACE: Final = 8192

#: Seconds between attempts at a port that the process before still holds, and how many there are.
_PORT_PAUSE: Final = 0.1
_PORT_ATTEMPTS: Final = 50
#: Seconds since the epoch: the year 9999; what comes after cannot be written.
LATEST: Final = 253_402_300_799
#: How times are written, for people.
TIMES: Final = "a time such as 2026-11-01T00:00:00Z, or a day, which begins at midnight UTC: 2026-11-01"
#: For users who may not see what is in a namespace.
OTHER_NAMESPACE: Final = (
    "-n NAMESPACE asks about another namespace. An administrator of this one can grant that right by RBAC."
)
#: Status and hint of an answer for each error of Muster. The first that matches counts.
_STATUS_AND_HINT: Final[tuple[tuple[type[MusterError] | tuple[type[MusterError], ...], int, str], ...]] = (
    (
        Unauthenticated,
        401,
        "Ask through the API server, as kubectl muster does, or send the token of a user or service account.",
    ),
    (Forbidden, 403, "An administrator can grant that right by RBAC."),
    ((NothingToTry, UnusableDocument, TrialRefused), 400, ""),
    (NotAllowed, 403, ""),
    (TooBusy, 429, "Ask again in a second."),
    (NotLeading, 409, "Ask again; another replica may answer."),
    (
        PluginFailed,
        PLUGIN_FAILED,
        "Nothing else is affected. Who wrote the plug-in can find the mistake with `muster plugin check`.",
    ),
    (
        PeriodTooLarge,
        503,
        "Ask for a period that begins later, or ask the view muster_postings on a replica of the database.",
    ),
    (
        (ChannelBroken, LeaderFailed),
        503,
        "Ask again in a few seconds: the leader is at work on other questions, or just began.",
    ),
    (DatabaseError, 503, "Ask again when Postgres is back; /readyz shows when."),
    (ApiError, 503, "Muster asks the API server who you are and what you may see; ask again."),
    (MusterError, 500, "The log of this replica may have the cause."),
)


class BadQuery(Exception):
    """A wrong parameter."""

    def __init__(self, error: str, *, expected: str) -> None:
        super().__init__(error)
        self.expected = expected


def json_answer(body: Any, status: int = 200) -> web.Response:
    """An answer; bytes are JSON already."""
    content = body if isinstance(body, bytes) else encode(body)
    return web.Response(body=content, status=status, content_type="application/json")


def problem(status: int, error: str, *, expected: str = "", hint: str = "") -> web.Response:
    """An answer that is none."""
    answer = json_answer(bodies.ProblemBody(error=error, expected=expected, hint=hint), status)
    if status == 401:
        answer.headers["WWW-Authenticate"] = 'Bearer realm="muster"'
    if status == 429:
        answer.headers["Retry-After"] = str(RETRY_AFTER)
    return answer


def whole_number(name: str, text: str, most: int) -> int:
    """A parameter that is a number from 0 to ``most``. Raises BadQuery."""
    # Digits of other scripts, and numbers that take long to read, are none.
    if not (text.isascii() and text.isdecimal()) or len(text) > 9 or int(text) > most:
        raise BadQuery(f"{name} is {text!r}", expected=f"a whole number from 0 to {most}")
    return int(text)


def time_of(name: str, given: Mapping[str, str]) -> int | None:
    """A parameter as seconds since the epoch. None if it is not given. Raises BadQuery."""
    said = given.get(name)
    if not said:
        return None
    try:
        moment = datetime.fromisoformat(said)
        seconds = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        seconds = -1
    if not 0 <= seconds <= LATEST:
        raise BadQuery(f"{name} is {said[:80]!r}", expected=TIMES)
    return seconds


def period_in(given: Mapping[str, str], ends: int | None = None) -> tuple[int, int | None]:
    """The parameters ``from`` and ``to`` in seconds since the epoch; None: ``to`` is not given.

    ``ends``: what counts in place of ``to``, None if that counts. Raises BadQuery.
    """
    begins, stated = time_of("from", given), time_of("to", given)
    if begins is None:
        raise BadQuery("from is missing", expected=TIMES)
    ends = stated if ends is None else ends
    if ends is not None and ends <= begins:
        raise BadQuery(f"to is {rfc3339(ends)}", expected=f"a time after from, {rfc3339(begins)}")
    return begins, ends


def resource_in(given: Mapping[str, str]) -> str | None:
    """The parameter ``resource``. None if it is not given. Raises BadQuery."""
    resource = given.get("resource") or None
    if resource is not None and not resource.isprintable():
        expected = "the name of a resource, such as nvidia.com/gpu"
        raise BadQuery(f"resource is {resource[:80]!r}", expected=expected)
    return resource


def flag(name: str, text: str | None) -> bool:
    """A parameter that is ``true`` or ``false``, which it is without a value. Raises BadQuery."""
    if text not in (None, "", "true", "false"):
        raise BadQuery(f"{name} is {text[:100]!r}", expected="true or false")
    return text == "true"


def text_of_place(place: object) -> str:
    """Where the next page begins, as ``continue`` has it. None if there is none."""
    return "" if place is None else base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def place_in(text: str | None, form: type[Place]) -> Place | None:
    """A parameter ``continue`` that ``text_of_place`` made. None for the beginning. Raises BadQuery."""
    if not text:
        return None
    try:
        padded = text[:_LONGEST_PLACE] + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=form)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise BadQuery(f"continue is {text[:100]!r}", expected="what the page before gave") from None


def numbered_place(text: str | None) -> int | None:
    """A parameter ``continue`` that is a number. None for the beginning. Raises BadQuery."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise BadQuery(f"continue is {text[:100]!r}", expected="what the page before gave")
    return int(text)


def errors_as_json(paths: str) -> Any:
    """A middleware. ``paths``: what there is, for users of an unknown one."""

    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            if "\0" in request.path or any("\0" in value for value in request.query.values()):
                raise BadQuery("there is a NUL in the question", expected="names and values without it")
            for name in request.query:
                if len(request.query.getall(name)) > 1:
                    raise BadQuery(f"{name[:100]} is given more than once", expected="each parameter once")
            answer: web.StreamResponse = await handler(request)
            return answer
        except web.HTTPException as error:
            return _http_problem(request, error, paths)
        except BadQuery as error:
            return problem(400, f"{error}.", expected=error.expected)
        except MusterError as error:
            return muster_problem(error)
        except TimeoutError:
            return problem(503, "There was no answer in time.", hint="Ask again.")
        except Exception as error:
            return _failed(request, error)

    return middleware


def _failed(request: web.Request, error: Exception) -> web.Response:
    """The answer for a defect. A client that has left is no defect, and reads no answer."""
    has_left = request.transport is None or request.transport.is_closing()
    if isinstance(error, ConnectionError) and has_left:
        _log.debug("the client of %s %s left: %s", request.method, request.path, error)
        return problem(400, "The client left before its question was read.")
    _log.error("%s %s failed", request.method, request.path, exc_info=error)
    return problem(500, "Muster failed to answer.", hint="The log of this replica has the cause.")


def muster_problem(error: MusterError) -> web.Response:
    """The answer for an error of Muster."""
    if isinstance(error, UnknownName):
        hint = did_you_mean(error.near)
        return problem(404, str(error), hint=hint)
    own_hint = error.hint if isinstance(error, Forbidden) else ""
    return next(
        problem(status, str(error), hint=own_hint or hint)
        for kind, status, hint in _STATUS_AND_HINT
        if isinstance(error, kind)
    )


def _http_problem(request: web.Request, error: web.HTTPException, paths: str) -> web.Response:
    if error.status == 404:
        return problem(404, f"There is nothing at {request.path}.", expected=paths)
    if isinstance(error, web.HTTPMethodNotAllowed):
        expected = ", ".join(sorted(error.allowed_methods - {"HEAD"}))
        return problem(405, f"{request.method} is not possible at {request.path}.", expected=expected)
    return problem(error.status, f"{error.reason}.")


class RequestHandler(web.RequestHandler):
    """One connection. A request that cannot be read reaches no middleware: it is answered as JSON too.

    It is not logged: a client can send such requests without end.
    """

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer for an error outside the application; it closes the connection."""
        if not isinstance(exc, HttpProcessingError) or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        self.logger.debug("a request from %s cannot be read", request.remote, exc_info=exc)
        if isinstance(exc, LineTooLong):
            expected = f"lines and headers of at most {self.max_line_size} bytes"
            answer = problem(status, "A line of the request is too long.", expected=expected)
        else:
            answer = problem(status, "The request cannot be read.", expected="a request in HTTP/1.1")
        answer.force_close()
        return answer


def _connection(server: web.Server) -> web.RequestHandler:
    # ``access_log``: None for no log of requests, as for ``AppRunner``; its type does not say so.
    return RequestHandler(server, loop=asyncio.get_running_loop(), access_log=None)  # type: ignore[arg-type]


@asynccontextmanager
async def serving(
    application: web.Application,
    listen: Address | Path,
    *,
    tls: ssl.SSLContext | None = None,
    most: int | None = None,
) -> AsyncIterator[int]:
    """Serves inside the block, at an address or a Unix socket; gives the port (asked 0: a free one).

    ``most``: connections to an address at a time; one more closes the oldest. Raises OSError if the port stays taken.
    """
    runner = web.AppRunner(
        application,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=1.0,
        # When the client has left, the leader's answer is not waited for any more.
        handler_cancellation=isinstance(listen, Path),
    )
    await runner.setup()
    listening: asyncio.Server | None = None
    try:
        if isinstance(listen, Path):
            await web.UnixSite(runner, listen).start()
            yield 0
        else:
            listening = await _listening(runner, listen, tls, most)
            yield listening.sockets[0].getsockname()[1]
    finally:
        if listening is not None:
            listening.close()
        connections = list(runner.server.connections) if runner.server is not None and tls else []
        transports = [connection.transport for connection in connections]
        await runner.cleanup()
        for transport in transports:
            # A TLS connection would go on waiting for its client's farewell.
            if transport is not None:
                transport.abort()


async def _listening(
    runner: web.AppRunner, listen: Address, tls: ssl.SSLContext | None, most: int | None
) -> asyncio.Server:
    loop, server = asyncio.get_running_loop(), runner.server
    assert server is not None, "the runner is set up"
    protocol = lambda: _connection(server) if most is None else _newest(server, most)  # noqa: E731
    for attempt in range(1, _PORT_ATTEMPTS + 1):
        try:
            return await loop.create_server(protocol, listen.host, listen.port, ssl=tls)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or attempt == _PORT_ATTEMPTS:
                raise
        await asyncio.sleep(_PORT_PAUSE)
    raise AssertionError("the last attempt returns or raises")


def _newest(server: web.Server, most: int) -> web.RequestHandler:
    """The next connection, for which the oldest makes room: idle ones keep no probe of the kubelet out."""
    connections = server.connections
    for oldest in connections[: max(0, len(connections) - most + 1)]:
        if oldest.transport is not None:
            oldest.transport.abort()
    return _connection(server)
