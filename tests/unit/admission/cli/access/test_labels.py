"""``-l`` of ``jobs`` and ``pending``: the API server chooses by labels, among what the user may list."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from admission.cli.access.labels import Labelled, resources
from admission.cli.access.objects import ClusterRoute
from admission.read_api.bodies import WorkloadBody
from admission.workloads.kinds import KINDS
from queues.api.api_resources import JOBS, VOLCANO_JOBS
from tests.fakes.fake_api_server import FakeApiServer, answers
from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Asking, Plugin


@pytest.fixture
async def ask(plugin: Plugin, api_server: FakeApiServer) -> AsyncIterator[Asking]:
    async with plugin.served(FakeReader(), server=api_server) as ask:
        yield ask


async def put(api_server: FakeApiServer, path: str, *uids: str) -> None:
    for uid in uids:
        await api_server.put(path, {"metadata": {"name": uid, "namespace": "ml", "uid": uid}})


def test_objects_of_every_kind_are_found_where_the_kind_says() -> None:
    known = resources()
    assert {str(each.kind): known[str(each.kind)] for each in KINDS} == {
        str(each.kind): each.resource for each in KINDS
    }


async def test_only_workloads_whose_objects_have_the_labels_are_listed(
    api_server: FakeApiServer, ask: Asking
) -> None:
    await put(api_server, VOLCANO_JOBS.path("ml"), "bert-uid")
    code, out, err = await ask("jobs", "-n", "ml", "-l", "team=nlp,tier!=test", "-o", "name")
    assert (code, out, err) == (0, "vcjob/bert\n", "")
    asked = {each.path: each for each in api_server.requests}
    assert asked.keys() == {VOLCANO_JOBS.path("ml"), JOBS.path("ml")}, "no kind that has no workload"
    question = asked[VOLCANO_JOBS.path("ml")]
    assert question.query["labelSelector"] == "team=nlp,tier!=test"
    assert "as=PartialObjectMetadataList" in question.headers["Accept"]

    code, out, err = await ask("pending", "-n", "ml", "-l", "team=nlp")
    assert (code, out) == (0, "")


async def test_of_what_is_gone_labels_are_not_known_and_that_is_said(
    api_server: FakeApiServer, ask: Asking
) -> None:
    await put(api_server, VOLCANO_JOBS.path("ml"), "bert-uid", "old-uid")
    code, out, err = await ask("jobs", "-A", "--since", "9d", "-l", "team", "-o", "json")
    body = json.loads(out)
    assert (code, [each["name"] for each in body["items"]], body["total"]) == (0, ["bert"], 1)
    assert err == "1 left out whose objects are gone: their labels are not known.\n"


async def test_who_may_not_list_everywhere_is_answered_namespace_by_namespace(
    api_server: FakeApiServer, tmp_path: Path
) -> None:
    async def only_in_namespaces(api_server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        if "/namespaces/" in request.path:
            return api_server.list(request)
        return await answers(403, "no")(api_server, request)

    await put(api_server, VOLCANO_JOBS.path(), "everywhere")
    items = [WorkloadBody(kind="vcjob", namespace=name, name="a", uid="") for name in ("ml", "lab")]
    labelled = Labelled(ClusterRoute(kubeconfig=str(api_server.kubeconfig(tmp_path))), "team")
    assert await asyncio.to_thread(labelled.uids, items) == {"everywhere"}

    api_server.once("LIST", only_in_namespaces, times=3)
    for name in ("ml", "lab"):
        await put(api_server, VOLCANO_JOBS.path(name), name)
    assert await asyncio.to_thread(labelled.uids, items) == {"ml", "lab"}


async def test_what_is_no_selector_is_refused_in_one_line(api_server: FakeApiServer, ask: Asking) -> None:
    api_server.once("LIST", answers(400, "unable to parse requirement"), times=3)
    code, out, err = await ask("jobs", "-n", "ml", "-l", "team=(")
    assert (code, out) == (2, "")
    assert "-l: found 'team=(', expected a selector as of kubectl" in err
