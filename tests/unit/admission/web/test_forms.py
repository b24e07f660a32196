"""Each answer of the read API has one form, which those who read it have too: nothing is lost between the two."""

import json
from typing import Any, Final

import aiohttp
import msgspec
import pytest

from admission.web.app import PREFIX
from queues.read_api import bodies, nodes, usage
from tests.fakes.fake_reader import FakeReader, fake_api, served

WORKLOAD: Final = "/namespaces/{namespace}/workloads/{name}"
#: The form of each answer by its path, and what is asked.
FORMS: Final[dict[str, tuple[Any, str]]] = {
    "/queues": (bodies.QueueList, ""),
    "/queues/{name}/versions": (bodies.QueueVersionList, ""),
    "/pending": (bodies.PendingList, ""),
    "/expected-starts": (bodies.ExpectedList, ""),
    "/workloads": (bodies.WorkloadList, "?state=pending,admitted,finished&since=2020-01-01T00:00:00Z"),
    "/users": (bodies.UserList, ""),
    "/decisions": (bodies.DecisionList, "?since=2020-01-01T00:00:00Z"),
    "/nodes": (nodes.NodeList, "?workloads=true"),
    "/usage": (usage.UsageList, "?from=2026-11-01T00:00:00Z"),
    "/timeseries": (usage.TimeSeriesList, "?from=2026-11-21T00:00:00Z"),
    WORKLOAD: (tuple[bodies.ExplanationBody, ...], ""),
    f"{WORKLOAD}/outlook": (tuple[bodies.OutlookBody, ...], ""),
    "/version": (bodies.VersionBody, ""),
}
#: Answers that are no list or object of Muster's: discovery, a stream, bytes; and trials, whose question has a body.
OTHERS: Final = {"", "/changes", "/snapshot", "/trials"}
NAMES: Final = {"namespace": "ml", "name": "tune-3"}


def test_every_answer_has_a_form() -> None:
    resources = fake_api(FakeReader()).application().router.resources()
    paths = {each.canonical.removeprefix(PREFIX) for each in resources if each.canonical.startswith(PREFIX)}
    assert paths == FORMS.keys() | OTHERS


@pytest.mark.parametrize("path", FORMS)
async def test_who_reads_an_answer_in_its_form_loses_nothing(path: str) -> None:
    form, query = FORMS[path]
    names = {**NAMES, "name": "team-a"} if path.startswith("/queues/") else NAMES
    async with (
        served(FakeReader()) as url,
        aiohttp.ClientSession() as session,
        session.get(url + PREFIX + path.format(**names) + query) as answer,
    ):
        content = await answer.read()
    assert answer.status == 200, content
    read = msgspec.json.decode(content, type=form)
    assert json.loads(msgspec.json.encode(read)) == json.loads(content)
    assert read
