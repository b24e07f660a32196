"""An API server with Queues: changed by merge patches with preconditions, and deleted."""

from typing import Any

from aiohttp import web
from msgspec import json

from queues.api.api_resources import QUEUES, Document
from queues.api.quota.quota_document import merged
from queues.read_api.bodies import QueueBody, QueueList
from tests.fakes.fake_api_server import FakeApiServer, Misbehaviour, Seen, refusal

GPU = "nvidia.com/gpu"
_PATH = QUEUES.path()
_SHOWN = "/apis/read.muster.dev/v1/queues"


class QueueServer(FakeApiServer):
    """Changes and deletes what it has, as long as no script says otherwise."""

    #: What the read API shows of queues.
    shown: tuple[QueueBody, ...] = ()

    async def add(self, name: str, *, status: Document | None = None, **spec: Any) -> None:
        """A queue."""
        document = {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "metadata": {"name": name, "uid": f"uid-{name}"},
            "spec": spec,
            "status": status or {},
        }
        await self.put(_PATH, document)

    def queue(self, name: str) -> Document:
        """A queue as it is."""
        return self.objects[_PATH]["", name]

    def deserved(self) -> dict[str, Any]:
        """What each queue deserves of GPUs."""
        return {
            name: document["spec"].get("deserved", {}).get(GPU)
            for (_, name), document in self.objects[_PATH].items()
        }

    def writes(self) -> list[Seen]:
        """Requests that may have changed something: dry runs are none."""
        return [
            each
            for each in self.requests
            if each.verb in ("PATCH", "DELETE", "POST")
            and "dryRun" not in each.query
            and "dryRun" not in (each.body or {})
        ]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == _SHOWN:
            body = QueueList(now="2026-11-21T10:00:00Z", as_of="2026-11-21T10:00:00Z", items=self.shown)
            return web.Response(body=json.encode(body), content_type="application/json")
        name = request.path.rpartition("/")[2]
        if (
            request.method == "GET"
            and request.path == f"{_PATH}/{name}"
            and ("", name) not in self.objects[_PATH]
            and not self._scripts["LIST"]
        ):
            return refusal(404, f'queues.scheduling.volcano.sh "{name}" not found', "NotFound")
        scripted = bool(self._scripts[request.method])
        if request.method == "POST" and not scripted and request.query.get("dryRun") == "All":
            self.requests.append(Seen("POST", request.path, dict(request.query), dict(request.headers), None))
            return web.json_response(await request.json(), status=201)
        if scripted or request.method not in ("PATCH", "DELETE") or ("", name) not in self.objects[_PATH]:
            return await super()._handle(request)
        body = await request.json() if request.body_exists else None
        self.requests.append(
            Seen(request.method, request.path, dict(request.query), dict(request.headers), body)
        )
        return await (self.patched(request) if request.method == "PATCH" else self.deleted(request))

    async def patched(self, request: web.Request) -> web.Response:
        """The object after the patch, which is stored unless it is a dry run."""
        name, patch = request.path.rpartition("/")[2], await request.json()
        assert request.content_type == "application/merge-patch+json"
        before = self.queue(name)
        version = patch.get("metadata", {}).get("resourceVersion")
        if version not in (None, before["metadata"]["resourceVersion"]):
            return refusal(409, f'Operation cannot be fulfilled on queues "{name}"', "Conflict")
        after: Document = merged(before, patch)
        if request.query.get("dryRun") != "All":
            await self.put(_PATH, after)
        return web.json_response(after)

    async def deleted(self, request: web.Request) -> web.Response:
        """Gone, if it is the one that is meant."""
        name = request.path.rpartition("/")[2]
        body = await request.json() if request.body_exists else {}
        if body.get("preconditions", {}).get("uid") not in (None, self.queue(name)["metadata"]["uid"]):
            return refusal(409, "the UID in the precondition does not match", "Conflict")
        if body.get("dryRun") != ["All"]:
            await self.remove(_PATH, name)
        return web.json_response({"kind": "Status", "status": "Success"})


def first_does(change: Misbehaviour) -> Misbehaviour:
    """Something happens right before the request is answered as usual."""

    async def misbehave(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        assert isinstance(server, QueueServer)
        await change(server, request)
        return await server.patched(request)

    return misbehave


async def answers_after_all(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
    """As usual: for the requests before one that misbehaves."""
    assert isinstance(server, QueueServer)
    return await server.patched(request)
