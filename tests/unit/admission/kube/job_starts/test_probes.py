"""Which pods a probe asks, and what counts as an answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from admission.job_starts.job_flow import NetworkProbe
from admission.kube.client.client import Client
from admission.kube.job_starts import probes
from admission.kube.job_starts.probes import passing
from tests.fakes.fake_api_server import FakeApiServer, answers

PODS = "/api/v1/namespaces/team/pods"


def pod(name: str, owner: str = "job", phase: str = "Running", ip: str = "127.0.0.1", **metadata: Any) -> Any:
    owners = [{"kind": "Job", "name": "f-a", "uid": owner}]
    return {
        "metadata": {"name": name, "namespace": "team", "ownerReferences": owners, **metadata},
        "status": {"phase": phase, "podIP": ip},
    }


@asynccontextmanager
async def cluster(folder: Path, *pods: Any) -> AsyncIterator[tuple[FakeApiServer, Client]]:
    async with FakeApiServer() as server:
        for pod in pods:
            await server.put(PODS, pod)
        async with await Client.connect(server.kubeconfig(folder)) as client:
            yield server, client


@asynccontextmanager
async def answering() -> AsyncIterator[int]:
    """A pod's port: /ok answers, /moved leads to it, /broken fails, /slow says nothing."""

    async def answer(request: web.Request) -> web.Response:
        match request.path:
            case "/slow":
                await asyncio.Event().wait()
            case "/moved":
                raise web.HTTPFound("http://127.0.0.1:1/elsewhere")
        return web.Response(status=200 if request.path == "/ok" else 500)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.05, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def probe(port: int, path: str = "", needed: int = 1) -> NetworkProbe:
    return NetworkProbe("f-a", "job", "server", needed, port, path)


async def test_an_answer_counts_if_it_comes_in_time_and_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "ANSWER_SECONDS", 0.3)
    async with answering() as port, cluster(tmp_path, pod("p")) as (server, client):
        asked = {path: probe(port, path) for path in ("", "/ok", "/moved", "/broken", "/slow")}
        found = await passing(client, "team", asked.values())
        assert {path for path, each in asked.items() if each in found} == {"", "/ok", "/moved"}
        assert server.seen("LIST")[0].query["labelSelector"] == (
            "volcano.sh/job-name=f-a,volcano.sh/task-spec=server"
        )
    async with cluster(tmp_path, pod("p")) as (_, client):
        closed = probe(port), probe(port, "/ok")
        assert await passing(client, "team", closed) == frozenset()


@pytest.mark.parametrize(
    "other",
    [
        pod("q", owner="another"),
        pod("q", phase="Pending"),
        pod("q", ip=""),
        pod("q", ip="169.254.169.254"),
        pod("q", ip="localhost"),
        pod("q", deletionTimestamp="2026-03-01T00:00:00Z"),
    ],
)
async def test_pods_that_do_not_run_for_the_job_do_not_count(tmp_path: Path, other: Any) -> None:
    async with answering() as port, cluster(tmp_path, pod("p"), other) as (_, client):
        one, two = probe(port, "/ok"), probe(port, "/ok", needed=2)
        assert await passing(client, "team", [one, two]) == {one}


async def test_two_pods_are_needed_where_two_have_to_start_together(tmp_path: Path) -> None:
    async with answering() as port, cluster(tmp_path, pod("p"), pod("q")) as (_, client):
        two, three = probe(port, "/ok", needed=2), probe(port, needed=3)
        assert await passing(client, "team", [two, three]) == {two}


async def test_pods_that_cannot_be_listed_do_not_pass(tmp_path: Path) -> None:
    async with answering() as port, cluster(tmp_path, pod("p")) as (server, client):
        server.once("LIST", answers(403, "no", "Forbidden"))
        assert await passing(client, "team", [probe(port)]) == frozenset()
        assert await passing(client, "team", []) == frozenset()
