"""The model API server: the objects over HTTP, a port for each replica, with all that goes wrong on the way.

Lists come in pages of one version, watches have bookmarks and end with 410 where the past is forgotten; each write is
known by the replica that sent it. Nobody is authenticated.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import web

from queues.api.api_resources import PODS, ApiResource
from tests.chaos.cluster import requests
from tests.chaos.cluster.line_faults import LineFaults, Trouble
from tests.chaos.cluster.store import RESOURCES, Collection, Key, ObjectStore, Refusal, not_found
from tests.chaos.drawn.pace import PACE
from tests.chaos.history import Document
from tests.chaos.network.link import Line

_JSON: Final = "application/json"
#: Connections that break in the middle are what is wanted here.
_QUIET: Final = logging.getLogger("tests.chaos.http_server")
_QUIET.setLevel(logging.CRITICAL)
#: Seconds between bookmarks.
_BOOKMARK: Final = 0.5
#: Seconds of a slow answer, and after which a late request is carried out: its client waits for less, see
#: ``short_times``.
SLOW: Final = 0.4 * PACE
LATE: Final = 1.8 * PACE
#: Pages that are kept for the next request.
_PAGES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """What a path names."""

    resource: ApiResource
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)


@dataclass(eq=False, slots=True)
class _OpenWatch:
    """A watch of one replica."""

    replica: str
    resource: ApiResource
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    is_cut: bool = False


class ModelApiServer:
    """Serves one store."""

    def __init__(self, store: ObjectStore, faults: LineFaults) -> None:
        self.store = store
        self.faults = faults
        store.changed = self._wake
        self._runners: dict[str, web.ServerRunner] = {}
        self._restarting = asyncio.Lock()
        self._ports: dict[str, int] = {}
        self._transports: dict[str, set[asyncio.BaseTransport]] = {}
        self._watches: set[_OpenWatch] = set()
        self._pages: dict[str, tuple[int, list[bytes]]] = {}
        #: Called before an object itself is patched: a user may be quicker.
        self.before_patch: Callable[[ApiResource, Key], None] = lambda resource, key: None
        #: Called before an object itself is written, with method and body: seconds that this is still on its way.
        self.on_its_way: Callable[[str, ApiResource, Key, bytes], float] = lambda method, *_: 0.0
        #: Requests by replica, method and what became of them.
        self.requests = 0

    # ── ports ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def open(self, replica: str) -> str:
        """Serve a replica; its URL, which stays the same after ``close``."""
        server = web.Server(partial(self._handle, replica), access_log=None, logger=_QUIET)
        runner = web.ServerRunner(server, shutdown_timeout=0.05)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._ports.get(replica, 0), reuse_address=True)
        await site.start()
        self._runners[replica] = runner
        port = self._ports[replica] = runner.addresses[0][1]
        return f"http://127.0.0.1:{port}"

    async def close(self, replicas: Iterable[str] | None = None) -> None:
        """Break all connections, and listen no more."""
        for replica in list(self._runners if replicas is None else replicas):
            self.break_connections(replica)
            await self._runners.pop(replica).cleanup()

    async def restart(self, down: float) -> None:
        """Gone for a while; afterwards the past is forgotten. One that comes meanwhile follows."""
        async with self._restarting:
            replicas = list(self._runners)
            await self.close()
            await asyncio.sleep(down)
            for collection in self.store.collections.values():
                collection.compacted = self.store.version
            for replica in replicas:
                await self.open(replica)

    def break_connections(self, replica: str) -> None:
        for transport in self._transports.pop(replica, ()):
            transport.abort()  # type: ignore[attr-defined]

    def cut_watches(self, kinds: Iterable[str]) -> None:
        """Watches of these kinds (plural; none: all) break in the middle of a line."""
        wanted = set(kinds)
        for watch in self._watches:
            if not wanted or watch.resource.plural in wanted:
                watch.is_cut = True
                watch.wake.set()

    def forget_past(self, kinds: Iterable[str]) -> None:
        """Watches of these kinds (plural; none: all) end with 410, and can only begin after a new list."""
        wanted = set(kinds)
        for collection in self.store.collections.values():
            if not wanted or collection.resource.plural in wanted:
                collection.compacted = self.store.version
        for watch in self._watches:
            watch.wake.set()

    def wake_all(self) -> None:
        for watch in self._watches:
            watch.wake.set()

    def _wake(self, resource: ApiResource) -> None:
        for watch in self._watches:
            if watch.resource is resource:
                watch.wake.set()

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _handle(self, replica: str, request: web.BaseRequest) -> web.StreamResponse:
        self.requests += 1
        if request.transport is not None:
            self._transports.setdefault(replica, set()).add(request.transport)
        body = await request.read()
        if not await self._arrives(replica, request):
            return _broken(request)
        is_watch = request.query.get("watch") == "true"
        trouble = self.faults.trouble(replica, request.method, request.path)
        if trouble is not None and (answer := await self._troubled(trouble, request)) is not None:
            return answer
        try:
            target = _target(request.path)
            if is_watch:
                return await self._watch(replica, request, self.store.collection(target.resource))
            if not target.subresource:
                await asyncio.sleep(self.on_its_way(request.method, target.resource, target.key, body))
            answer = self._carry_out(replica, request, target, body)
        except Refusal as refusal:
            answer = _status(refusal)
        if trouble in (Trouble.ANSWER_LOST, Trouble.LATE):
            return _broken(request)
        if self.faults.line(replica) is Line.NO_ANSWERS:
            await self._until(replica, lambda line: line is not Line.NO_ANSWERS)
            return _broken(request)
        return answer

    async def _arrives(self, replica: str, request: web.BaseRequest) -> bool:
        """Whether a request gets to the server; one that is held up is given up by its client meanwhile."""
        line = self.faults.line(replica)
        if line is Line.NO_REQUESTS:
            await self._until(replica, lambda now: now is not Line.NO_REQUESTS)
            return False
        return line is not Line.CUT

    async def _until(self, replica: str, holds: Any) -> None:
        while not holds(self.faults.line(replica)):
            await self.faults.healed.wait()

    async def _troubled(self, trouble: Trouble, request: web.BaseRequest) -> web.StreamResponse | None:
        """The answer to a request that is not carried out; None: it is."""
        match trouble:
            case Trouble.CONFLICT:
                return _status(
                    Refusal(409, "Conflict", "the object has been modified; please apply your changes to it")
                )
            case Trouble.TOO_MANY:
                answer = _status(Refusal(429, "TooManyRequests", "too many requests, please try again later"))
                answer.headers["Retry-After"] = "0"
                return answer
            case Trouble.ERROR:
                return _status(
                    Refusal(500, "InternalError", "Internal error occurred: etcdserver: request timed out")
                )
            case Trouble.UNAVAILABLE:
                return _status(Refusal(503, "ServiceUnavailable", "apiserver is shutting down"))
            case Trouble.BROKEN:
                return _broken(request)
            case Trouble.SLOW:
                await asyncio.sleep(SLOW)
            case Trouble.LATE:
                await asyncio.sleep(LATE)
        return None

    def _carry_out(
        self, replica: str, request: web.BaseRequest, target: _Target, body: bytes
    ) -> web.Response:
        if request.method == "GET":
            if target.name:
                collection = self.store.collection(target.resource)
                self.store.get(target.resource, target.key)
                return web.Response(body=collection.encoded[target.key], content_type=_JSON)
            return self._list(request, target)
        if self.faults.writes.strike(replica, before=True):
            return _broken(request)
        try:
            return self._write(replica, request, target, body)
        finally:
            self.faults.writes.strike(replica, before=False)

    def _write(self, replica: str, request: web.BaseRequest, target: _Target, body: bytes) -> web.Response:
        store, resource = self.store, target.resource
        document: Any = msgspec.json.decode(body) if body else {}
        if request.method == "POST" and target.subresource == "eviction":
            options = document.get("deleteOptions") or {}
            requests.delete(store, PODS, target.key, options, replica)
            return web.json_response({"kind": "Status", "status": "Success"}, status=201)
        if request.method == "POST":
            made = requests.create(
                store, resource, target.namespace, document, replica, dry_run="dryRun" in request.query
            )
            return _encoded(made, 201)
        if request.method == "DELETE":
            return _encoded(requests.delete(store, resource, target.key, document, replica))
        if request.method == "PATCH":
            kind = request.content_type
            if not target.subresource:
                self.before_patch(resource, target.key)
            return _encoded(
                requests.patch(store, resource, target.key, target.subresource, kind, document, replica)
            )
        raise Refusal(405, "MethodNotAllowed", f"the model has no {request.method}")

    # ── lists and watches ───────────────────────────────────────────────────────────────────────────────────────

    def _list(self, request: web.BaseRequest, target: _Target) -> web.Response:
        limit = int(request.query.get("limit") or 0)
        token = request.query.get("continue")
        if token:
            if token not in self._pages:
                raise Refusal(410, "Expired", "The provided continue parameter is too old")
            version, items = self._pages.pop(token)
        else:
            version, items = self.store.version, self._selected(request, target)
        page, rest = (items[:limit], items[limit:]) if limit else (items, [])
        meta: Document = {"resourceVersion": str(version)}
        if rest:
            meta["continue"] = f"{version}-{len(rest)}-{time.monotonic_ns():x}"
            while len(self._pages) > _PAGES:
                self._pages.pop(next(iter(self._pages)))
            self._pages[meta["continue"]] = (version, rest)
        head = b'{"kind":"List","metadata":' + msgspec.json.encode(meta) + b',"items":['
        return web.Response(body=head + b",".join(page) + b"]}", content_type=_JSON)

    def _selected(self, request: web.BaseRequest, target: _Target) -> list[bytes]:
        name = (request.query.get("fieldSelector") or "").removeprefix("metadata.name=")
        return [
            content
            for key, content in self.store.collection(target.resource).encoded.items()
            if target.namespace in ("", key[0]) and name in ("", key[1])
        ]

    async def _watch(
        self, replica: str, request: web.BaseRequest, collection: Collection
    ) -> web.StreamResponse:
        since = int(request.query.get("resourceVersion") or self.store.version)
        response = web.StreamResponse(headers={"Content-Type": _JSON})
        watch = _OpenWatch(replica, collection.resource)
        self._watches.add(watch)
        try:
            await response.prepare(request)
            with suppress(ConnectionError):
                await self._tell(watch, response, request, collection, since)
        finally:
            self._watches.discard(watch)
        return response

    async def _tell(
        self,
        watch: _OpenWatch,
        response: web.StreamResponse,
        request: web.BaseRequest,
        collection: Collection,
        since: int,
    ) -> None:
        """Send changes after a version, until something ends the watch."""
        ends = time.monotonic() + int(request.query.get("timeoutSeconds") or 300)
        plural = collection.resource.plural
        while request.transport is not None and not request.transport.is_closing():
            watch.wake.clear()
            if (
                self.faults.line(watch.replica) in (Line.NO_ANSWERS, Line.NO_REQUESTS)
                or plural in self.faults.silent
            ):
                await _woken(watch, _BOOKMARK)
                continue
            if since < collection.compacted:
                await response.write(
                    _line("ERROR", {"code": 410, "reason": "Expired", "message": "too old resource version"})
                )
                return
            position = collection.after(since)
            lines = collection.lines[position : position + 200]
            if watch.is_cut:
                half = (lines[0] if lines else _bookmark(since))[:20]
                await response.write(half)
                request.transport.abort()
                return
            if lines:
                since = collection.versions[position + len(lines) - 1]
                await response.write(b"".join(lines))
                continue
            if time.monotonic() > ends:
                return
            if not await _woken(watch, _BOOKMARK) and collection.after(since) == len(collection.versions):
                since = self.store.version
                await response.write(_bookmark(since))


async def _woken(watch: _OpenWatch, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await watch.wake.wait()
    except TimeoutError:
        return False
    return True


def _target(path: str) -> _Target:
    """Raises Refusal: there is nothing."""
    parts = path.strip("/").split("/")
    head = 2 if parts[0] == "api" else 3
    root, rest = parts[:head], parts[head:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    if not rest:
        raise not_found(path)
    resource = RESOURCES.get("/" + "/".join([*root, rest[0]]))
    if resource is None:
        raise not_found(path)
    name, subresource = (*rest[1:], "", "")[:2]
    return _Target(resource=resource, namespace=namespace, name=name, subresource=subresource)


def _line(kind: str, document: Document) -> bytes:
    return msgspec.json.encode({"type": kind, "object": document}) + b"\n"


def _bookmark(version: int) -> bytes:
    return _line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def _encoded(document: Document, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(document), status=status, content_type=_JSON)


def _status(refusal: Refusal) -> web.Response:
    return _encoded(
        {
            "kind": "Status",
            "status": "Failure",
            "message": refusal.message,
            "reason": refusal.reason,
            "code": refusal.status,
        },
        refusal.status,
    )


def _broken(request: web.BaseRequest) -> web.Response:
    """The connection breaks; what is returned goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
