"""``kubectl muster job logs``: which pods it asks kubectl about."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from admission.cli.failures import finish
from admission.cli.kubectl_muster import kubectl_muster
from queues.api.api_resources import PODS
from tests.fakes.fake_api_server import FakeApiServer

JOB = {"metadata": {"name": "train"}, "spec": {"tasks": [{"name": "master"}, {"name": "worker"}]}}
Said = tuple[int, str, str]
Asking = Callable[..., Awaitable[Said]]


async def the_job(_: FakeApiServer, __: web.Request) -> web.StreamResponse:
    return web.json_response(JOB)


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    server = FakeApiServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
def ask(
    server: FakeApiServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Asking:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
    kubectl = tmp_path / "bin/kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text('#!/bin/sh\necho "$@"\nexit 3\n')
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{kubectl.parent}:/bin:/usr/bin")

    async def asked(*words: str) -> Said:
        server.once("LIST", the_job)  # the fake has no requests for one object
        line = ("job", "logs", "train", "-n", "ml", *words)
        code = await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", line)
        out, err = capfd.readouterr()
        return code, out, err

    return asked


def pod(name: str, task: str) -> dict[str, Any]:
    labels = {"volcano.sh/job-name": "train", "volcano.sh/task-spec": task}
    return {"metadata": {"name": name, "namespace": "ml", "labels": labels}, "spec": {}}


async def test_all_pods_and_containers_are_asked_for_each_line_with_its_pod(
    server: FakeApiServer, ask: Asking
) -> None:
    for index in range(3):
        await server.put(PODS.path("ml"), pod(f"train-worker-{index}", "worker"))

    assert await ask() == (
        3,
        "logs -n ml -l volcano.sh/job-name=train --prefix --max-log-requests=3 --all-containers --tail=-1\n",
        "",
    )
    code, out, _ = await ask("-t", "worker", "-c", "main", "--tail", "5", "-f")
    assert code == 3
    assert "-l volcano.sh/job-name=train,volcano.sh/task-spec=worker " in out
    assert out.endswith("-c main --tail=5 -f\n")


async def test_what_cannot_be_read_is_one_sentence(
    ask: Asking, monkeypatch: pytest.MonkeyPatch, server: FakeApiServer
) -> None:
    assert await ask() == (
        1,
        "",
        "job train has no pods now; `kubectl muster job view train -n ml` tells why.\n",
    )
    code, _, err = await ask("-t", "workers")
    assert code == 2
    assert "job train has no task workers. It has: master, worker." in err

    await server.put(PODS.path("ml"), pod("train-worker-0", "worker"))
    monkeypatch.setenv("PATH", "/nowhere")
    code, _, err = await ask()
    assert (code, err) == (1, "Error: Running kubectl logs: there is no kubectl on PATH.\n")
