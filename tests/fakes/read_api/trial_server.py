"""An API server with Queues that passes trials on to a replica of Muster, and a full cluster behind it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from queues.quota.queue import Limits
from tests.builders import facts
from tests.builders.trials.worlds_in_memory import GPU, WorldInMemory, batch_job, stored, two_racks
from tests.fakes.fake_reader import FakeLeader, FakeReader, served
from tests.unit.admission.cli.plugin.queue_server import QueueServer

TRIALS = "/apis/read.muster.dev/v1/trials"


class TrialServer(QueueServer):
    """An API server that passes trials on to a replica of Muster."""

    muster = ""
    #: None: the replica's.
    answers: Callable[[], web.Response] | None = None
    silent = False
    tried = 0

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path != TRIALS:
            return await super()._handle(request)
        self.tried += 1
        if self.silent:
            await asyncio.sleep(3600)
        if self.answers is not None:
            return self.answers()
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.muster + TRIALS, data=await request.read()) as answer,
        ):
            return web.Response(
                body=await answer.read(), status=answer.status, content_type="application/json"
            )


def crowded() -> WorldInMemory:
    """Queue team uses all that it may, and two Jobs of it wait; other has borrowed the rest for one gang."""
    world = two_racks()
    world.see(
        facts.queue("team", limits=Limits(deserved={GPU: 16_000}, capability={GPU: 16_000})),
        facts.queue("other", limits=Limits(deserved={GPU: 8_000})),
    )
    for name, pods, queue in (
        ("day", 2, "team"),
        ("guest", 2, "other"),
        ("late", 1, "team"),
        ("next", 1, "team"),
    ):
        document = batch_job(name, pods, queue=queue, gpu=8)
        document["metadata"]["annotations"] = {"muster.dev/run-time": "2h"}
        world.store(stored(document, name))
        world.settle()
    return world


@asynccontextmanager
async def crowded_server() -> AsyncIterator[TrialServer]:
    """The API server of that cluster."""
    async with TrialServer() as server, served(FakeReader(), leader=FakeLeader(crowded())) as url:
        server.muster = url
        await server.add("root")
        await server.add("team", parent="root", deserved={GPU: 16}, capability={GPU: 16})
        await server.add("other", parent="root", deserved={GPU: 8})
        yield server
