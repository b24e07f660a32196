"""One raw HTTP session to the API server: every request of Muster passes here.

Reads are tried again; a write is tried again only when it certainly did not happen (429, connection refused),
so that who wrote knows. Errors are those of queues.errors, with the server's own message.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Literal, Self

import aiohttp
import msgspec

from admission.kube.api_errors import pause_before_retry, refuse, told, unavailable
from admission.kube.credentials import Credentials
from queues.errors import ApiError

PatchKind = Literal["merge", "json", "apply", "strategic"]

_JSON: Final = "application/json"
_PATCH_TYPES: Final[Mapping[PatchKind, str]] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
    "strategic": "application/strategic-merge-patch+json",
}
#: Seconds between attempts: full jitter below a bound that doubles.
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
#: An answer to a write that says no more than who the object is now.
_BRIEF: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
#: No object of the API server comes near it (etcd takes 1.5 MiB); a longer line is not a watch event.
LONGEST_LINE: Final = 64 * 1024 * 1024


def default_user_agent() -> str:
    """``muster/<version>``."""
    try:
        return f"muster/{version('muster')}"
    except PackageNotFoundError:
        return "muster/0"


class Client:
    """A session with one API server."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        user_agent: str | None = None,
        concurrency: int = 64,
        request_timeout: float = 30.0,
        attempts: int = 6,
    ) -> None:
        self._credentials = credentials
        self._user_agent = user_agent or default_user_agent()
        self._timeout = request_timeout
        self._attempts = attempts
        self._free = asyncio.Semaphore(concurrency)
        #: Answers by (verb, resource, code); code 0: no answer came.
        self.counts: Counter[tuple[str, str, int]] = Counter()
        #: Seconds spent in answered requests, by (verb, resource).
        self.seconds: Counter[tuple[str, str]] = Counter()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=credentials.tls or True, ttl_dns_cache=60),
            # Compression costs both ends more than a cluster's own network does.
            headers={
                "User-Agent": self._user_agent,
                "Accept": "application/json",
                "Accept-Encoding": "identity",
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=2**20,
        )

    @classmethod
    async def connect(
        cls,
        kubeconfig: Path | None = None,
        context: str | None = None,
        *,
        user_agent: str | None = None,
        concurrency: int = 64,
        request_timeout: float = 30.0,
    ) -> Self:
        """A client for the cluster that the kubeconfig or the pod's service account names. Sends nothing yet.

        ``concurrency`` bounds requests in flight, watches not counted; ``request_timeout`` is seconds per
        attempt. Raises ApiUnavailable.
        """
        credentials = await Credentials.load(kubeconfig, context)
        return cls(
            credentials, user_agent=user_agent, concurrency=concurrency, request_timeout=request_timeout
        )

    @property
    def server(self) -> str:
        """Base URL of the API server."""
        return self._credentials.server

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()
        # Sockets of aborted TLS connections are closed in the loop's next passes; it may have no others.
        for _ in range(3):
            await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def get(self, path: str, **query: str | int | bool | None) -> bytes:
        """One object or list, as JSON. Raises ApiError."""
        return await self._request("GET", path, query)

    async def create(
        self,
        path: str,
        body: bytes | Mapping[str, Any],
        *,
        field_manager: str | None = None,
        dry_run: bool = False,
        brief: bool = False,
        guard: Callable[[], None] | None = None,
    ) -> bytes:
        """POST to a collection or a subresource. ``guard`` is called right before sending and may raise.

        ``brief``: the answer has the object's metadata only, which is cheaper for both ends.
        """
        query = {"fieldManager": field_manager, "dryRun": "All" if dry_run else None}
        headers = {"Content-Type": _JSON, **_accepting(brief)}
        return await self._request("POST", path, query, body, headers=headers, guard=guard)

    async def replace(
        self, path: str, body: bytes | Mapping[str, Any], *, guard: Callable[[], None] | None = None
    ) -> bytes:
        """PUT the whole object; its resourceVersion is the precondition."""
        return await self._request("PUT", path, {}, body, headers={"Content-Type": _JSON}, guard=guard)

    async def patch(
        self,
        path: str,
        body: bytes | Mapping[str, Any] | list[Any],
        *,
        kind: PatchKind = "merge",
        field_manager: str | None = None,
        force: bool | None = None,
        brief: bool = False,
        guard: Callable[[], None] | None = None,
    ) -> bytes:
        """PATCH an object or subresource. A failed ``test`` of a JSON patch raises Refused (422)."""
        query: dict[str, str | int | bool | None] = {"fieldManager": field_manager, "force": force}
        headers = {"Content-Type": _PATCH_TYPES[kind], **_accepting(brief)}
        return await self._request("PATCH", path, query, body, headers=headers, guard=guard)

    async def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
        propagation: Literal["Foreground", "Background", "Orphan"] | None = None,
        guard: Callable[[], None] | None = None,
    ) -> bytes:
        """DELETE an object; with ``uid`` only while it is that one, else Conflict. ``grace`` in seconds."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {
            name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value
        }
        if preconditions:
            options["preconditions"] = preconditions
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if propagation is not None:
            options["propagationPolicy"] = propagation
        return await self._request("DELETE", path, {}, options, headers={"Content-Type": _JSON}, guard=guard)

    async def watch(
        self, path: str, *, silence: float, **query: str | int | bool | None
    ) -> AsyncIterator[list[bytes]]:
        """Whole lines of a watch, as many as arrived together; ends when the server ends it.

        A last line that was cut off is dropped. ``silence``: seconds without a byte after which the
        connection counts as dead. Raises ApiError: Gone for 410, ApiUnavailable for a broken or silent
        connection.
        """
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout, sock_read=silence)
        resource = resource_of(path)
        try:
            async with await self._send("GET", path, {**query, "watch": True}, None, {}, limits) as answer:
                self.counts["WATCH", resource, answer.status] += 1
                if answer.status == 401:
                    await self._credentials.authorization(rejected=True)
                if answer.status >= 400:
                    refuse("WATCH", path, answer, await answer.read())
                try:
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
            raise unavailable("WATCH", path, f"nothing heard for {silence:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            self.counts["WATCH", resource, 0] += 1
            raise unavailable("WATCH", path, told(error)) from error

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int | bool | None],
        body: bytes | Mapping[str, Any] | list[Any] | None = None,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        guard: Callable[[], None] | None = None,
    ) -> bytes:
        payload = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        bound = _FIRST_PAUSE
        for attempt in range(1, self._attempts + 1):
            try:
                async with self._free:
                    return await self._attempt(method, path, query, payload, headers, guard)
            except ApiError as error:
                pause = pause_before_retry(method, path, error, bound)
                if pause is None or attempt == self._attempts:
                    raise
            await asyncio.sleep(pause)
            bound = min(bound * 2, _LONGEST_PAUSE)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int | bool | None],
        payload: bytes | None,
        headers: Mapping[str, str],
        guard: Callable[[], None] | None,
    ) -> bytes:
        limits = aiohttp.ClientTimeout(total=self._timeout)
        resource = resource_of(path)
        loop = asyncio.get_running_loop()
        for rejected in (False, True):
            if guard is not None:
                guard()
            started = loop.time()
            try:
                async with await self._send(
                    method, path, query, payload, headers, limits, rejected=rejected
                ) as answer:
                    content = await answer.read()
            except TimeoutError as error:
                self.counts[method, resource, 0] += 1
                raise unavailable(method, path, f"no answer within {self._timeout:g} s") from error
            except (aiohttp.ClientError, OSError) as error:
                self.counts[method, resource, 0] += 1
                failure = unavailable(method, path, told(error))
                failure.facts["unsent"] = isinstance(error, aiohttp.ClientConnectorError)
                raise failure from error
            self.counts[method, resource, answer.status] += 1
            self.seconds[method, resource] += loop.time() - started  # type: ignore[assignment]
            if answer.status < 400:
                return content
            if answer.status != 401 or rejected:
                refuse(method, path, answer, content)
        raise AssertionError("a second 401 is refused")

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int | bool | None],
        payload: bytes | None,
        headers: Mapping[str, str],
        limits: aiohttp.ClientTimeout,
        *,
        rejected: bool = False,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        token = await self._credentials.authorization(rejected=rejected)
        if token:
            headers = {**headers, "Authorization": token}
        return self._session.request(
            method,
            self._credentials.server + path,
            params=_parameters(query),
            data=payload,
            headers=headers,
            timeout=limits,
            proxy=self._credentials.proxy,
            server_hostname=self._credentials.server_name,
            allow_redirects=False,
        )


def _accepting(brief: bool) -> dict[str, str]:
    return {"Accept": f"{_BRIEF},{_JSON}"} if brief else {}


def resource_of(path: str) -> str:
    """``pods/binding`` of ``/api/v1/namespaces/a/pods/b/binding``: what metrics count by."""
    parts = path.strip("/").split("/")
    start = 2 if parts[0] == "api" else 3 if parts[0] == "apis" else 0
    parts = parts[start:]
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
