"""A small API server that can be told to misbehave: keeps objects, lists them in pages, streams changes.

``server.once("WATCH", misbehaviour)`` replaces the answer to the next request of that verb; the misbehaviours
at the end of this file are the ways in which real servers and networks fail.
"""

import asyncio
import json
import re
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from tests.fakes.kubeconfigs import write_kubeconfig

Document = dict[str, Any]
Misbehaviour = Callable[["FakeApiServer", web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """A request as it arrived."""

    verb: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class FakeApiServer:
    """Objects of one collection per path, and the history of their changes."""

    token: str = "secret"
    requests: list[Seen] = field(default_factory=list)
    version: int = 10
    #: Changes before this version are forgotten.
    oldest: int = 0
    objects: dict[str, dict[tuple[str, str], Document]] = field(default_factory=lambda: defaultdict(dict))
    history: dict[str, list[tuple[int, Document]]] = field(default_factory=lambda: defaultdict(list))
    _scripts: dict[str, deque[Misbehaviour]] = field(default_factory=lambda: defaultdict(deque))
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _runner: web.AppRunner | None = None
    _address: tuple[str, int] = ("127.0.0.1", 0)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # A watch that is left ends with its connection, not in another test.
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, *self._address)
        await site.start()
        self._address = self._runner.addresses[0][:2]

    async def stop(self) -> None:
        """Close every connection and refuse new ones; ``start`` again listens on the same port."""
        assert self._runner is not None
        await self._runner.cleanup()

    def kubeconfig(self, folder: Path, user: Document | None = None) -> Path:
        """``user``: its credentials; None: the token that the server knows."""
        host, port = self._address
        return write_kubeconfig(folder / "kubeconfig", f"http://{host}:{port}", user or {"token": self.token})

    def once(self, verb: str, misbehaviour: Misbehaviour, times: int = 1) -> None:
        """Answer the next requests of that verb (an HTTP method, LIST or WATCH) so."""
        self._scripts[verb].extend([misbehaviour] * times)

    def seen(self, verb: str) -> list[Seen]:
        return [request for request in self.requests if request.verb == verb]

    async def put(self, path: str, document: Document) -> Document:
        """Create or change an object."""
        self.version += 1
        meta = document.setdefault("metadata", {})
        meta["resourceVersion"] = str(self.version)
        key = (meta.get("namespace", ""), meta["name"])
        kind = "MODIFIED" if key in self.objects[path] else "ADDED"
        self.objects[path][key] = json.loads(json.dumps(document))
        await self.event(path, kind, document)
        return document

    async def remove(self, path: str, name: str, namespace: str = "") -> None:
        self.version += 1
        document = self.objects[path].pop((namespace, name))
        document["metadata"]["resourceVersion"] = str(self.version)
        await self.event(path, "DELETED", document)

    async def remove_unseen(self, path: str, name: str, namespace: str = "") -> None:
        """A deletion that no watch will tell of."""
        self.version += 1
        del self.objects[path][namespace, name]

    async def bookmark(self, path: str) -> None:
        document = {"kind": "X", "metadata": {"resourceVersion": str(self.version)}}
        await self.event(path, "BOOKMARK", document)

    async def event(self, path: str, kind: str, document: Document) -> None:
        async with self._news:
            line = {"type": kind, "object": json.loads(json.dumps(document))}
            self.history[path].append((self.version, line))
            self._news.notify_all()

    def forget_history(self) -> None:
        """From now on, older resource versions are answered 410."""
        self.oldest = self.version
        self.history.clear()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        verb = request.method
        if verb == "GET":
            verb = "WATCH" if query.get("watch") == "true" else "LIST"
        body = await request.read()
        self.requests.append(
            Seen(verb, request.path, query, dict(request.headers), json.loads(body) if body else None)
        )
        if self._scripts[verb]:
            return await self._scripts[verb].popleft()(self, request)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return refusal(401, "Unauthorized", "Unauthorized")
        match verb:
            case "WATCH":
                return await self.watch(request)
            case "LIST":
                return self.list(request)
            case _:
                return web.json_response({"kind": "Status", "status": "Success"})

    def list(self, request: web.Request) -> web.Response:
        """A collection; of a path below one, the object of that name in it."""
        collection, _, name = request.path.rpartition("/")
        if ("", name) in self.objects.get(collection, {}):
            return web.json_response(self.objects[collection]["", name])
        if re.search(r"/namespaces/[^/]+/[^/]+/[^/]+$", request.path):
            return refusal(404, f'{collection.rpartition("/")[2]} "{name}" not found', "NotFound")
        objects = [self.objects[request.path][key] for key in sorted(self.objects[request.path])]
        start, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 10**9)
        meta = {"resourceVersion": str(self.version)}
        if start + limit < len(objects):
            meta["continue"] = str(start + limit)
        return web.json_response({"kind": "List", "metadata": meta, "items": objects[start : start + limit]})

    async def watch(self, request: web.Request, lines: int | None = None) -> web.StreamResponse:
        """Stream changes since the version asked for, for ever or so many."""
        since = int(request.query["resourceVersion"])
        response = web.StreamResponse()
        if since < self.oldest:
            return gone_response()
        await response.prepare(request)
        sent = 0
        while lines is None or sent < lines:
            async with self._news:
                await self._news.wait_for(
                    lambda since=since: any(version > since for version, _ in self.history[request.path])
                )
                pending = [entry for entry in self.history[request.path] if entry[0] > since]
            for version, line in pending[: None if lines is None else lines - sent]:
                await response.write(json.dumps(line).encode() + b"\n")
                since, sent = version, sent + 1
        return response


def refusal(status: int, message: str, reason: str = "", **headers: str) -> web.Response:
    document = {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": status}
    return web.json_response(
        document, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


def gone_response() -> web.Response:
    return refusal(410, "too old resource version: 1 (9)", "Expired")


def answers(status: int, message: str, reason: str = "", **headers: str) -> Misbehaviour:
    """An error of the API server."""

    async def misbehave(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        return refusal(status, message, reason, **headers)

    return misbehave


async def gone(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
    """410 as the answer to the request itself."""
    return gone_response()


def says(*lines: bytes) -> Misbehaviour:
    """These bytes as a watch stream, then its orderly end."""

    async def misbehave(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line)
        return response

    return misbehave


def says_and_breaks(*lines: bytes) -> Misbehaviour:
    """These bytes, then the connection is cut in the middle of the stream."""

    async def misbehave(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line)
        assert request.transport is not None
        request.transport.abort()
        return response

    return misbehave


async def hangs(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
    """Accepts the request and never says a word."""
    response = web.StreamResponse()
    await response.prepare(request)
    await asyncio.Event().wait()
    return response


async def breaks_before_answering(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
    """The connection is cut before any answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
