"""``kubectl muster job logs``: which pods it asks kubectl about; and all of ``job`` about a Job of batch/v1."""

from typing import Any

import pytest
import yaml
from aiohttp import web

from admission.settings import Address
from admission.web.http import serving
from queues.api.api_resources import PODS
from tests.fakes.fake_api_server import FakeApiServer
from tests.fakes.plugin import Asking, Plugin, Said

JOB = {"metadata": {"name": "train"}, "spec": {"tasks": [{"name": "master"}, {"name": "worker"}]}}


async def the_job(_: FakeApiServer, __: web.Request) -> web.StreamResponse:
    return web.json_response(JOB)


def own_kubectl(plugin: Plugin, *last: str) -> None:
    """A kubectl that prints what it is called with."""
    kubectl = plugin.folder / "bin/kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text("\n".join(("#!/bin/sh", 'echo "$@"', *last, "")))
    kubectl.chmod(0o755)
    plugin.monkeypatch.setenv("PATH", f"{kubectl.parent}:/bin:/usr/bin")


@pytest.fixture
def ask(plugin: Plugin, api_server: FakeApiServer) -> Asking:
    own_kubectl(plugin, "exit 3")
    logs = plugin.at(api_server, "job", "logs", "train", "-n", "ml")

    async def asked(*words: str) -> Said:
        api_server.once("LIST", the_job)  # the fake has no requests for one object
        return await logs(*words)

    return asked


def pod(name: str, task: str) -> dict[str, Any]:
    labels = {"volcano.sh/job-name": "train", "volcano.sh/task-spec": task}
    return {"metadata": {"name": name, "namespace": "ml", "labels": labels}, "spec": {}}


async def test_all_pods_and_containers_are_asked_for_each_line_with_its_pod(
    api_server: FakeApiServer, ask: Asking
) -> None:
    for index in range(3):
        await api_server.put(PODS.path("ml"), pod(f"train-worker-{index}", "worker"))

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
    ask: Asking, monkeypatch: pytest.MonkeyPatch, api_server: FakeApiServer
) -> None:
    assert await ask() == (
        1,
        "",
        "job train has no pods now; `kubectl muster explain train -n ml` tells why.\n",
    )
    code, _, err = await ask("-t", "workers")
    assert code == 2
    assert "job train has no task workers. It has: master, worker." in err

    await api_server.put(PODS.path("ml"), pod("train-worker-0", "worker"))
    monkeypatch.setenv("PATH", "/nowhere")
    code, _, err = await ask()
    assert (code, err) == (1, "Error: Running kubectl logs: there is no kubectl on PATH.\n")


# -- a Job of batch/v1 of that name, and none ------------------------------------------------------------------

BATCH = "/apis/batch/v1/namespaces/ml/jobs/train"


@pytest.fixture
def asked() -> list[str]:
    """Requests that changed something or listed pods."""
    return []


@pytest.fixture
def ask_about_batch(asked: list[str], plugin: Plugin) -> Asking:
    """An API server with one Job of batch/v1, named train."""
    own_kubectl(plugin)
    plugin.monkeypatch.setenv("COLUMNS", "400")

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/api/v1/namespaces/ml/pods":
            return web.json_response({"items": [{}, {}]})
        if request.path != BATCH:
            return web.json_response({"message": f"{request.path} not found"}, status=404)
        if request.method != "GET":
            asked.append(f"{request.method} {request.path_qs}")
        return web.json_response({"metadata": {"name": "train"}, "spec": {}})

    async def said(*words: str) -> Said:
        app = web.Application()
        app.router.add_route("*", "/{any:.*}", answer)
        async with serving(app, Address("127.0.0.1", 0)) as port:
            config = plugin.folder / "kubeconfig"
            of = {"cluster": "c", "user": "u"}
            clusters = [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}]
            document = {
                "current-context": "x",
                "contexts": [{"name": "x", "context": of}],
                "clusters": clusters,
            }
            config.write_text(yaml.safe_dump({**document, "users": [{"name": "u", "user": {"token": "t"}}]}))
            plugin.monkeypatch.setenv("KUBECONFIG", str(config))
            code, out, err = await plugin.asking("job")(*words, "-n", "ml")
        return Said(code, out.replace(f" --kubeconfig={config}", ""), err)

    return said


async def test_a_job_of_batch_is_deleted_with_its_pods(ask_about_batch: Asking, asked: list[str]) -> None:
    assert await ask_about_batch("delete", "train") == (0, "job train deleted\n", "")
    assert asked == [f"DELETE {BATCH}?propagationPolicy=Background"]


async def test_logs_of_a_job_of_batch_are_those_of_its_pods(ask_about_batch: Asking) -> None:
    code, out, _ = await ask_about_batch("logs", "train")
    assert (code, out) == (
        0,
        "logs -n ml -l batch.kubernetes.io/job-name=train --prefix --max-log-requests=2 --all-containers --tail=-1\n",
    )
    code, _, err = await ask_about_batch("logs", "train", "-t", "worker")
    assert (code, "job train is a Job of batch/v1, which has no tasks" in err) == (2, True)


@pytest.mark.parametrize(("command", "done"), [("suspend", "suspended"), ("resume", "resumed")])
async def test_a_job_of_batch_is_held_and_resumed(
    ask_about_batch: Asking, asked: list[str], command: str, done: str
) -> None:
    assert await ask_about_batch(command, "train") == (0, f"job train is being {done}\n", "")
    assert asked == [f"PATCH {BATCH}"]


async def test_a_name_of_neither_kind_is_one_sentence(ask_about_batch: Asking) -> None:
    code, _, err = await ask_about_batch("delete", "gone")
    assert code == 1
    assert "there is no Volcano Job and no Job of batch/v1 gone in namespace ml" in err
    code, _, err = await ask_about_batch("suspend", "gone")
    assert code == 1
    assert err.startswith("Error: Suspending job gone: ")
