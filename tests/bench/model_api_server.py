"""A model of the API server for benchmarks: ``python -m tests.bench.model_api_server PORT SIZE [SECONDS]``.

It lists in pages, streams changes, and takes writes: JSON patches, merge patches (strategic ones as if they were),
creations and deletions. Nothing else is checked. With SECONDS a Job that is resumed gets its pods, which run for so
long and succeed (``model_jobs``); without, nobody acts on what is written: no Job controller, no scheduler, no kubelet.

``POST /model/delete`` with ``{"path", "prefix", "count"}`` deletes objects, ``POST /model/put`` with ``{"path",
"document"}`` stores one. ``GET /model/moments/NAME`` tells when the first event about a Job was sent, when it was
resumed and when that was answered, in seconds, and how long the client whose process ``POST /model/client`` names had
waited for a processor by then.
"""

import asyncio
import json
import sys
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from queues.api.api_resources import JOBS
from tests.bench import processes
from tests.bench.model_jobs import life_of
from tests.bench.model_objects import ClusterSize, documents, encoded
from tests.fakes.fake_objects import json_patched, merged

Key = tuple[str, str]

_JSON: Final = "application/json"
#: Seconds between bookmarks on a watch without changes.
_BOOKMARK: Final = 30.0


@dataclass(slots=True)
class Collection:
    """The objects of one kind, as bytes, and their changes."""

    objects: dict[Key, bytes] = field(default_factory=dict)
    #: Lines of a watch, and the version of each.
    lines: list[bytes] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    #: The object that each of them is about.
    keys: list[Key] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, kind: str, key: Key, content: bytes, version: int) -> None:
        self.lines.append(b'{"type":"' + kind.encode() + b'","object":' + content + b"}\n")
        self.versions.append(version)
        self.keys.append(key)
        self.changed.set()
        self.changed = asyncio.Event()


class ModelApiServer:
    """All collections."""

    def __init__(self, job_seconds: float | None = None) -> None:
        """``job_seconds``: how long the pods of resumed Jobs run; None: they get none."""
        self._job_seconds = job_seconds
        #: Of each Job, by name.
        self._moments: dict[str, dict[str, float]] = defaultdict(dict)
        #: Process id of the client that is watched.
        self._client: int | None = None
        self._lives: set[asyncio.Task[None]] = set()
        self.version = 1
        self.collections: dict[str, Collection] = defaultdict(Collection)
        #: The keys of a LIST under way, by the collection's path.
        self._pages: dict[str, list[Key]] = {}

    def load(self, size: ClusterSize) -> None:
        for path, document in documents(size):
            meta = document["metadata"]
            key = (meta.get("namespace", ""), meta["name"])
            self.collections[path].objects[key] = encoded(document, self.version)

    def application(self) -> web.Application:
        application = web.Application(client_max_size=2**26)
        application.router.add_post("/model/delete", self.delete_many)
        application.router.add_post("/model/put", self.put_one)
        application.router.add_post("/model/client", self.client)
        application.router.add_get("/model/moments/{name}", self.moments)
        application.router.add_route("*", "/{path:.*}", self.handle)
        return application

    # ── what the benchmark asks ─────────────────────────────────────────────────────────────────────────────

    async def delete_many(self, request: web.Request) -> web.Response:
        asked = await request.json()
        found = self.collections[asked["path"]].objects
        keys = [key for key in found if key[1].startswith(asked["prefix"])][: asked["count"]]
        for key in keys:
            self._remove(asked["path"], key)
        return web.json_response({"deleted": len(keys)})

    async def put_one(self, request: web.Request) -> web.Response:
        asked = await request.json()
        meta = asked["document"]["metadata"]
        self._put(asked["path"], (meta.get("namespace", ""), meta["name"]), asked["document"])
        return web.json_response({})

    async def client(self, request: web.Request) -> web.Response:
        self._client = int((await request.json())["pid"])
        return web.json_response({})

    def _starved(self) -> float:
        """Seconds for which the client was ready to run and had no processor; 0: it is not known."""
        return 0.0 if self._client is None else processes.starved_seconds(self._client)

    async def moments(self, request: web.Request) -> web.Response:
        return web.json_response(self._moments.get(request.match_info["name"], {}))

    # ── what a client asks ──────────────────────────────────────────────────────────────────────────────────

    async def handle(self, request: web.Request) -> web.StreamResponse:
        received = time.monotonic()
        path, key = _place(request.path)
        if request.method == "GET" and key is None:
            return await (self._watch if request.query.get("watch") == "true" else self._list)(request, path)
        if request.method == "GET":
            return self._answer(path, key)
        body = await request.json() if request.can_read_body else {}
        if request.method == "POST":
            meta = body.setdefault("metadata", {})
            namespace = key[0] if key is not None else meta.get("namespace", "")
            meta.setdefault("uid", f"made-{self.version}")
            if "dryRun" not in request.query:
                self._put(path, (namespace, meta.get("name", "")), body)
            return web.json_response(body, status=201)
        if key is None or key not in self.collections[path].objects:
            return _refusal(404, "NotFound")
        if request.method == "DELETE":
            self._remove(path, key)
            return web.json_response({"kind": "Status", "status": "Success"})
        answer = self._patch(path, key, body)
        if self._job_seconds is not None and path == JOBS.path() and self._is_first_resumption(key):
            self._moments[key[1]] |= {
                "resumed": received,
                "answered": time.monotonic(),
                "starved": self._starved(),
            }
            self._begin_life(key, self._job_seconds)
        return answer

    def _is_first_resumption(self, key: Key) -> bool:
        suspended = json.loads(self.collections[JOBS.path()].objects[key])["spec"].get("suspend")
        return not suspended and "resumed" not in self._moments[key[1]]

    def _begin_life(self, key: Key, seconds: float) -> None:
        task = asyncio.create_task(self._live(key, seconds))
        self._lives.add(task)
        task.add_done_callback(self._lives.discard)

    async def _live(self, key: Key, seconds: float) -> None:
        """What a Job controller, a scheduler and a kubelet write once a Job is resumed."""
        job = json.loads(self.collections[JOBS.path()].objects[key])
        for pause, path, document in life_of(job, seconds):
            await asyncio.sleep(pause)
            self._put(path, (key[0], document["metadata"]["name"]), document)

    def _patch(self, path: str, key: Key, body: Any) -> web.Response:
        before = json.loads(self.collections[path].objects[key])
        try:
            after = merged(before, body) if isinstance(body, dict) else json_patched(before, body)
        except (AssertionError, KeyError):
            return _refusal(422, "Invalid")
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
        self._put(path, key, after)
        return self._answer(path, key)

    def _answer(self, path: str, key: Key | None) -> web.Response:
        found = self.collections[path].objects.get(key) if key is not None else None
        return _refusal(404, "NotFound") if found is None else web.Response(body=found, content_type=_JSON)

    async def _list(self, request: web.Request, path: str) -> web.Response:
        found = self.collections[path].objects
        start, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 10**9)
        if start == 0:
            self._pages[path] = list(found)
        keys = self._pages[path]
        items = b",".join(found[key] for key in keys[start : start + limit] if key in found)
        meta = {"resourceVersion": str(self.version)}
        if start + limit < len(keys):
            meta["continue"] = str(start + limit)
        body = b'{"kind":"List","metadata":' + json.dumps(meta).encode() + b',"items":[' + items + b"]}"
        return web.Response(body=body, content_type=_JSON)

    async def _watch(self, request: web.Request, path: str) -> web.StreamResponse:
        collection = self.collections[path]
        since = int(request.query["resourceVersion"])
        position = len([version for version in collection.versions if version <= since])
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            await self._stream(response, collection, position)
        return response

    async def _stream(self, response: web.StreamResponse, collection: Collection, position: int) -> None:
        """Send changes from a position on, until the client goes."""
        while True:
            changed = collection.changed
            lines = collection.lines[position : position + 500]
            if lines:
                self._note_sent(collection.keys[position : position + len(lines)])
                position += len(lines)
                await response.write(b"".join(lines))
                continue
            try:
                await asyncio.wait_for(changed.wait(), _BOOKMARK)
            except TimeoutError:
                meta = {"metadata": {"resourceVersion": str(self.version)}}
                await response.write(json.dumps({"type": "BOOKMARK", "object": meta}).encode() + b"\n")

    def _note_sent(self, keys: list[Key]) -> None:
        for _, name in keys:
            if self._job_seconds is not None and "sent" not in self._moments[name]:
                self._moments[name] |= {"sent": time.monotonic(), "starved before": self._starved()}

    def _put(self, path: str, key: Key, document: dict[str, Any]) -> None:
        collection = self.collections[path]
        self.version += 1
        kind = "MODIFIED" if key in collection.objects else "ADDED"
        content = collection.objects[key] = encoded(document, self.version)
        collection.tell(kind, key, content, self.version)

    def _remove(self, path: str, key: Key) -> None:
        collection = self.collections[path]
        self.version += 1
        document = json.loads(collection.objects.pop(key))
        collection.tell("DELETED", key, encoded(document, self.version), self.version)


def _place(path: str) -> tuple[str, Key | None]:
    """The path of a collection in all namespaces, and namespace and name of an object; None: all of them are meant."""
    parts = path.strip("/").split("/")
    head = 2 if parts[0] == "api" else 3
    root, rest = parts[:head], parts[head:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    collection = "/" + "/".join([*root, rest[0]])
    if len(rest) == 1:
        return collection, (namespace, "") if namespace else None
    return collection, (namespace, rest[1])


def _refusal(status: int, reason: str) -> web.Response:
    document = {"kind": "Status", "status": "Failure", "message": reason, "reason": reason, "code": status}
    return web.json_response(document, status=status)


async def _serve(port: int, size: ClusterSize, job_seconds: float | None) -> None:
    server = ModelApiServer(job_seconds)
    server.load(size)
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    print("serving", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(
        _serve(
            int(sys.argv[1]),
            ClusterSize(**json.loads(sys.argv[2])),
            float(sys.argv[3]) if sys.argv[3:] else None,
        )
    )
