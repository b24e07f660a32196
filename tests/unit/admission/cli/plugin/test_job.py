"""``kubectl muster job logs``: which pods it asks kubectl about; and all of ``job`` about a Job of batch/v1."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from queues.api.api_resources import PODS
from tests.fakes.fake_api_server import FakeApiServer, refusal
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

BATCH = "/apis/batch/v1/namespaces/ml/jobs"


class OnlyBatch(FakeApiServer):
    """One Job of batch/v1, named train, with two pods; other things are not there."""

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path not in (f"{BATCH}/train", PODS.path("ml")):
            return refusal(404, f"{request.path} not found")
        return await super()._handle(request)

    def changes(self) -> list[tuple[str, str, dict[str, str]]]:
        """Requests that changed something."""
        return [(each.verb, each.path, each.query) for each in self.requests if each.verb != "LIST"]


@pytest.fixture
async def batch() -> AsyncIterator[OnlyBatch]:
    async with OnlyBatch() as server:
        server.objects[BATCH]["", "train"] = {"metadata": {"name": "train"}, "spec": {}}
        for number in range(2):
            await server.put(PODS.path("ml"), {"metadata": {"name": f"train-{number}"}})
        yield server


@pytest.fixture
def ask_about_batch(plugin: Plugin, batch: OnlyBatch) -> Asking:
    own_kubectl(plugin)
    plugin.monkeypatch.setenv("COLUMNS", "400")
    return plugin.at(batch, "job")


async def test_a_job_of_batch_is_deleted_with_its_pods(ask_about_batch: Asking, batch: OnlyBatch) -> None:
    assert await ask_about_batch("delete train -n ml") == (0, "job train deleted\n", "")
    assert batch.changes() == [("DELETE", f"{BATCH}/train", {"propagationPolicy": "Background"})]


async def test_logs_of_a_job_of_batch_are_those_of_its_pods(ask_about_batch: Asking) -> None:
    code, out, _ = await ask_about_batch("logs train -n ml")
    assert (code, out) == (
        0,
        "logs -n ml -l batch.kubernetes.io/job-name=train --prefix --max-log-requests=2 --all-containers --tail=-1\n",
    )
    code, _, err = await ask_about_batch("logs train -t worker -n ml")
    assert (code, "job train is a Job of batch/v1, which has no tasks" in err) == (2, True)


@pytest.mark.parametrize(("command", "done"), [("suspend", "suspended"), ("resume", "resumed")])
async def test_a_job_of_batch_is_held_and_resumed(
    ask_about_batch: Asking, batch: OnlyBatch, command: str, done: str
) -> None:
    assert await ask_about_batch(f"{command} train -n ml") == (0, f"job train is being {done}\n", "")
    assert batch.changes() == [("PATCH", f"{BATCH}/train", {})]


async def test_workloads_are_held_back_by_their_kind_and_name(
    ask_about_batch: Asking, plugin: Plugin, batch: OnlyBatch
) -> None:
    ask = plugin.at(batch)
    assert await ask("hold jobs/train -n ml") == (0, "jobs/train is on hold; what runs of it goes on\n", "")
    assert batch.requests[-1].body == {"metadata": {"annotations": {"muster.dev/hold": "true"}}}
    assert await ask("unhold job/train -n ml") == (0, "job/train is not on hold any more\n", "")
    assert batch.requests[-1].body == {"metadata": {"annotations": {"muster.dev/hold": "false"}}}

    code, _, err = await ask("hold train -n ml")
    assert (code, "expected KIND/NAME" in err) == (2, True)
    code, _, err = await ask("hold deployment/train -n ml")
    assert (code, "podgroup/podgroup-deployment-train" in err) == (2, True)
    code, _, err = await ask("hold vcjob/train -n ml")
    assert (code, err.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("metadata", "whole"),
    [
        ({"annotations": {"scheduling.k8s.io/group-name": "ring"}}, "podgroup/ring"),
        (
            {
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}
                ]
            },
            "job/train",
        ),
    ],
)
async def test_a_pod_that_waits_as_a_part_is_not_held_by_itself(
    plugin: Plugin, api_server: FakeApiServer, metadata: dict[str, Any], whole: str
) -> None:
    async def the_pod(_: FakeApiServer, __: web.Request) -> web.StreamResponse:
        return web.json_response({"metadata": {"name": "a", **metadata}})

    api_server.once("LIST", the_pod)  # the fake has no requests for one object
    code, _, err = await plugin.at(api_server)("hold pod/a -n ml")
    assert (code, f"pod/a waits as a part of {whole}, whose annotation counts: name that." in err) == (
        2,
        True,
    )


async def test_a_kind_that_is_mistyped_is_named_also_where_the_user_may_not_see_added_ones(
    plugin: Plugin, api_server: FakeApiServer
) -> None:
    async def forbidden(_: FakeApiServer, __: web.Request) -> web.StreamResponse:
        return refusal(403, "Forbidden", "may not list workloadkinds")

    api_server.once("LIST", forbidden)
    code, _, err = await plugin.at(api_server)("hold jbo/train -n ml")
    assert (code, "'jbo' is no kind of workload. Expected one of" in err) == (2, True)


async def test_a_name_of_neither_kind_is_one_sentence(ask_about_batch: Asking) -> None:
    code, _, err = await ask_about_batch("delete gone -n ml")
    assert code == 1
    assert "there is no Volcano Job and no Job of batch/v1 gone in namespace ml" in err
    code, _, err = await ask_about_batch("suspend gone -n ml")
    assert code == 1
    assert err.startswith("Error: Suspending job gone: ")
