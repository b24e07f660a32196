"""One HTTP session to an API server: requests are sent, tried again where that is safe, and counted.

Reads are tried again; a write is tried again only when it certainly did not happen (429, connection refused),
so that the writer knows. Errors are defined in queues.errors, with the server's own message.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import aiohttp

from admission.kube.client.credentials import Credentials
from admission.kube.client.errors import message_of, pause_before_retry, refuse, unavailable
from queues.errors import ApiError, WatchSilent

Query = Mapping[str, str | int | bool | None]

_ATTEMPTS: Final = 6

#: Seconds between attempts: full jitter below a bound that doubles.
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
#: No object of the API server comes near it (etcd takes 1.5 MiB); a longer line is not a watch event.
LONGEST_LINE: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the API server."""

    method: str
    path: str
    query: Query
    payload: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Called right before sending; may raise.
    check_lease: Callable[[], None] | None = None


class _Unanswered(aiohttp.ClientError):
    """A write has no answer."""


async def _once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """A middleware for writes: without it, aiohttp sends a DELETE a second time when its connection breaks."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Unanswered(message_of(error)) from error


class Session:
    """Connections to one API server."""

    def __init__(self, credentials: Credentials, *, concurrency: int, request_timeout: float) -> None:
        self._credentials = credentials
        self._timeout = request_timeout
        self._free = asyncio.Semaphore(concurrency)
        #: Answers by (verb, resource, code); code 0: no answer came.
        self.counts: Counter[tuple[str, str, int]] = Counter()
        #: Requests that were sent again after a pause, by resource.
        self.retries: Counter[str] = Counter()
        #: Seconds spent in answered requests, by (verb, resource).
        self.seconds: Counter[tuple[str, str]] = Counter()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=credentials.tls or True, ttl_dns_cache=60),
            # Compression costs both ends more than a cluster's own network does.
            headers={"User-Agent": _agent(), "Accept": "application/json", "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=2**20,
        )

    @property
    def server(self) -> str:
        """Base URL of the API server."""
        return self._credentials.server

    async def authorization(self) -> str | None:
        """The Authorization header. None for credentials without a token."""
        return await self._credentials.authorization()

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()
        # Sockets of aborted TLS connections are closed in the loop's next passes; it may have no others.
        for _ in range(3):
            await asyncio.sleep(0)

    async def answer(self, request: Request) -> bytes:
        """The body of the answer. Raises ApiError."""
        bound = _FIRST_PAUSE
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with self._free:
                    return await self._attempt(request)
            except ApiError as error:
                pause = pause_before_retry(request.method, request.path, error, bound)
                if pause is None or attempt == _ATTEMPTS:
                    raise
            self.retries[resource_of(request.path)] += 1
            await asyncio.sleep(pause)
            bound = min(bound * 2, _LONGEST_PAUSE)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, request: Request) -> bytes:
        limits = aiohttp.ClientTimeout(total=self._timeout)
        method, path, resource = request.method, request.path, resource_of(request.path)
        loop = asyncio.get_running_loop()
        for rejected in (False, True):
            if request.check_lease is not None:
                request.check_lease()
            started = loop.time()
            try:
                async with await self._send(request, limits, rejected=rejected) as answer:
                    content = await answer.read()
            except TimeoutError as error:
                self.counts[method, resource, 0] += 1
                raise unavailable(method, path, f"no answer within {self._timeout:g} s") from error
            except (aiohttp.ClientError, OSError) as error:
                self.counts[method, resource, 0] += 1
                failure = unavailable(method, path, message_of(error))
                failure.facts["unsent"] = isinstance(error, aiohttp.ClientConnectorError)
                raise failure from error
            self.counts[method, resource, answer.status] += 1
            self.seconds[method, resource] += loop.time() - started  # type: ignore[assignment]
            if answer.status < 400:
                return content
            if answer.status != 401 or rejected:
                refuse(method, path, answer, content)
        raise AssertionError("a second 401 is refused")

    async def lines(self, request: Request, *, silence: float) -> AsyncIterator[list[bytes]]:
        """Whole lines of a watch, as many as arrived together; ends when the server ends it.

        No line comes first: then the watch is open.

        A last line that was cut off is dropped. ``silence``: seconds without a byte after which the
        connection counts as dead. Raises ApiError: Gone for 410, WatchSilent, ApiUnavailable for a broken
        connection.
        """
        is_open = False
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout, sock_read=silence)
        path, resource = request.path, resource_of(request.path)
        try:
            async with await self._send(request, limits) as answer:
                self.counts["WATCH", resource, answer.status] += 1
                if answer.status == 401:
                    await self._credentials.authorization(rejected=True)
                if answer.status >= 400:
                    refuse("WATCH", path, answer, await answer.read())
                try:
                    is_open = True
                    yield []
                    rest = bytearray()
                    async for chunk in answer.content.iter_any():
                        lines, rest = _split(rest, chunk)
                        if lines:
                            yield lines
                        if len(rest) > LONGEST_LINE:
                            raise unavailable("WATCH", path, f"a line of more than {LONGEST_LINE} bytes")
                finally:
                    # A watch that is left is cut off; TLS would wait for the server's farewell.
                    if answer.connection is not None and answer.connection.transport is not None:
                        answer.connection.transport.abort()
        except TimeoutError as error:
            self.counts["WATCH", resource, 0] += 1
            if is_open:
                reason = f"nothing heard for {silence:g} s"
                raise WatchSilent(method="WATCH", path=path, status=0, reason=reason) from error
            raise unavailable("WATCH", path, "no answer in time") from error
        except (aiohttp.ClientError, OSError) as error:
            self.counts["WATCH", resource, 0] += 1
            raise unavailable("WATCH", path, message_of(error)) from error

    async def _send(
        self, request: Request, limits: aiohttp.ClientTimeout, *, rejected: bool = False
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers, token = request.headers, await self._credentials.authorization(rejected=rejected)
        if token:
            headers = {**headers, "Authorization": token}
        return self._session.request(
            request.method,
            self._credentials.server + request.path,
            params=_parameters(request.query),
            data=request.payload,
            headers=headers,
            timeout=limits,
            proxy=self._credentials.proxy,
            server_hostname=self._credentials.server_name,
            allow_redirects=False,
            middlewares=() if request.method == "GET" else (_once,),
        )


def _agent() -> str:
    try:
        return f"muster/{version('muster')}"
    except PackageNotFoundError:
        return "muster/0"


def resource_of(path: str) -> str:
    """``pods/binding`` of ``/api/v1/namespaces/a/pods/b/binding``: what metrics count by."""
    parts = path.strip("/").split("/")
    parts = parts[{"api": 2, "apis": 3}.get(parts[0], 0) :]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    if not parts:
        return path
    return parts[0] if len(parts) < 3 else f"{parts[0]}/{parts[2]}"


def _parameters(query: Mapping[str, str | int | bool | None]) -> dict[str, str]:
    return {
        name: ("true" if value else "false") if isinstance(value, bool) else str(value)
        for name, value in query.items()
        if value is not None
    }


def _split(rest: bytearray, chunk: bytes) -> tuple[list[bytes], bytearray]:
    """Whole lines, and what is left of the last one. Linear also for a line that comes in many chunks."""
    end = chunk.rfind(b"\n")
    if end < 0:
        rest += chunk
        return [], rest
    rest += chunk[:end]
    lines = [line for line in bytes(rest).split(b"\n") if line]
    return lines, bytearray(chunk[end + 1 :])
