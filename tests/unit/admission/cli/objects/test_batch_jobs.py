"""``kubectl muster job …`` with the name of a Job of batch/v1, and of none."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from admission.cli.failures import finish
from admission.cli.kubectl_muster import kubectl_muster
from admission.settings import Address
from admission.web.http import serving

BATCH = "/apis/batch/v1/namespaces/ml/jobs/train"
Said = tuple[int, str, str]
Asking = Callable[..., Awaitable[Said]]


@pytest.fixture
def asked() -> list[str]:
    """Requests that changed something or listed pods."""
    return []


@pytest.fixture
def ask(
    asked: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Asking:
    """An API server with one Job of batch/v1, named train."""
    kubectl = tmp_path / "bin/kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text('#!/bin/sh\necho "$@"\n')
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{kubectl.parent}:/bin:/usr/bin")
    monkeypatch.setenv("COLUMNS", "400")

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
            config = tmp_path / "kubeconfig"
            of = {"cluster": "c", "user": "u"}
            clusters = [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}]
            document = {
                "current-context": "x",
                "contexts": [{"name": "x", "context": of}],
                "clusters": clusters,
            }
            config.write_text(yaml.safe_dump({**document, "users": [{"name": "u", "user": {"token": "t"}}]}))
            monkeypatch.setenv("KUBECONFIG", str(config))
            line = ("job", *words, "-n", "ml")
            code = await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", line)
        out, err = capfd.readouterr()
        return code, out.replace(f" --kubeconfig={config}", ""), err

    return said


async def test_a_job_of_batch_is_deleted_with_its_pods(ask: Asking, asked: list[str]) -> None:
    assert await ask("delete", "train") == (0, "job train deleted\n", "")
    assert asked == [f"DELETE {BATCH}?propagationPolicy=Background"]


async def test_logs_of_a_job_of_batch_are_those_of_its_pods(ask: Asking) -> None:
    code, out, _ = await ask("logs", "train")
    assert (code, out) == (
        0,
        "logs -n ml -l batch.kubernetes.io/job-name=train --prefix --max-log-requests=2 --all-containers --tail=-1\n",
    )
    code, _, err = await ask("logs", "train", "-t", "worker")
    assert (code, "job train is a Job of batch/v1, which has no tasks" in err) == (2, True)


@pytest.mark.parametrize("command", ["suspend", "resume"])
async def test_that_muster_itself_suspends_a_job_of_batch_is_said(
    ask: Asking, asked: list[str], command: str
) -> None:
    code, out, err = await ask(command, "train")
    assert (code, out, asked) == (1, "", [])
    assert err.startswith(
        "Error: job train is a Job of batch/v1, and not of Volcano: Muster itself suspends it"
    )
    assert "`kubectl muster job delete train -n ml` takes its pods away" in err


async def test_a_name_of_neither_kind_is_one_sentence(ask: Asking) -> None:
    code, _, err = await ask("delete", "gone")
    assert code == 1
    assert "there is no Volcano Job and no Job of batch/v1 gone in namespace ml" in err
    code, _, err = await ask("suspend", "gone")
    assert code == 1
    assert err.startswith("Error: Suspending job gone: ")
