"""``-l`` of ``jobs`` and ``pending``: the API server chooses by labels, among what the user may list."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from admission.cli.access.labels import Labelled, resources
from admission.cli.access.objects import ClusterRoute
from admission.cli.failures import finish
from admission.cli.kubectl_muster import kubectl_muster
from admission.read_api.bodies import WorkloadBody
from admission.workloads.kinds import KINDS
from queues.api.api_resources import JOBS, VOLCANO_JOBS
from tests.fakes.fake_api_server import FakeApiServer, answers
from tests.fakes.fake_reader import FakeReader, served

Said = tuple[int, str, str]
Asking = Callable[..., Awaitable[Said]]


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    server = FakeApiServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
async def ask(
    server: FakeApiServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Asking]:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
    async with served(FakeReader()) as url:
        monkeypatch.setenv("MUSTER_SERVER", url)

        async def asked(*words: str) -> Said:
            code = await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", words)
            return (code, *capfd.readouterr())

        yield asked


async def put(server: FakeApiServer, path: str, *uids: str) -> None:
    for uid in uids:
        await server.put(path, {"metadata": {"name": uid, "namespace": "ml", "uid": uid}})


def test_objects_of_every_kind_are_found_where_the_kind_says() -> None:
    known = resources()
    assert {str(each.kind): known[str(each.kind)] for each in KINDS} == {
        str(each.kind): each.resource for each in KINDS
    }


async def test_only_workloads_whose_objects_have_the_labels_are_listed(
    server: FakeApiServer, ask: Asking
) -> None:
    await put(server, VOLCANO_JOBS.path("ml"), "bert-uid")
    code, out, err = await ask("jobs", "-n", "ml", "-l", "team=nlp,tier!=test", "-o", "name")
    assert (code, out, err) == (0, "vcjob/bert\n", "")
    asked = {each.path: each for each in server.requests}
    assert asked.keys() == {VOLCANO_JOBS.path("ml"), JOBS.path("ml")}, "no kind that has no workload"
    question = asked[VOLCANO_JOBS.path("ml")]
    assert question.query["labelSelector"] == "team=nlp,tier!=test"
    assert "as=PartialObjectMetadataList" in question.headers["Accept"]

    code, out, err = await ask("pending", "-n", "ml", "-l", "team=nlp")
    assert (code, out) == (0, "")


async def test_of_what_is_gone_labels_are_not_known_and_that_is_said(
    server: FakeApiServer, ask: Asking
) -> None:
    await put(server, VOLCANO_JOBS.path("ml"), "bert-uid", "old-uid")
    code, out, err = await ask("jobs", "-A", "--since", "9d", "-l", "team", "-o", "json")
    body = json.loads(out)
    assert (code, [each["name"] for each in body["items"]], body["total"]) == (0, ["bert"], 1)
    assert err == "1 left out whose objects are gone: their labels are not known.\n"


async def test_who_may_not_list_everywhere_is_answered_namespace_by_namespace(
    server: FakeApiServer, tmp_path: Path
) -> None:
    async def only_in_namespaces(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        if "/namespaces/" in request.path:
            return server.list(request)
        return await answers(403, "no")(server, request)

    await put(server, VOLCANO_JOBS.path(), "everywhere")
    items = [WorkloadBody(kind="vcjob", namespace=name, name="a", uid="") for name in ("ml", "lab")]
    labelled = Labelled(ClusterRoute(kubeconfig=str(server.kubeconfig(tmp_path))), "team")
    assert await asyncio.to_thread(labelled.uids, items) == {"everywhere"}

    server.once("LIST", only_in_namespaces, times=3)
    for name in ("ml", "lab"):
        await put(server, VOLCANO_JOBS.path(name), name)
    assert await asyncio.to_thread(labelled.uids, items) == {"ml", "lab"}


async def test_what_is_no_selector_is_refused_in_one_line(server: FakeApiServer, ask: Asking) -> None:
    server.once("LIST", answers(400, "unable to parse requirement"), times=3)
    code, out, err = await ask("jobs", "-n", "ml", "-l", "team=(")
    assert (code, out) == (2, "")
    assert "-l: found 'team=(', expected a selector as of kubectl" in err
