"""A plugin and a Muster of different versions: what is new is left out, and never believed to have been understood."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from admission.cli.access import requests
from admission.cli.access.requests import Route, Unanswered, ask
from admission.cli.command_line import finish
from admission.cli.kubectl_muster import kubectl_muster
from queues.read_api import bodies
from tests.fakes.fake_reader import FakeReader, served

#: Commands that ask for lists of every kind.
COMMANDS = (
    ("queues",),
    ("queues", "-o", "wide"),
    ("pending", "-A"),
    ("jobs", "-A"),
    ("who",),
    ("events", "-A"),
)


def newer(body: Any) -> Any:
    """An answer as a newer Muster might give it: with a field more at the top and in each item."""
    for each in (body, *body.get("items", ())):
        each["addedLater"] = {"of": ["a", "newer", "version"]}
    return body


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
async def test_fields_that_a_newer_muster_added_change_nothing(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    fetch: Callable[..., bytes] = requests.fetch
    added = []

    def fetch_newer(*asked: Any, **options: Any) -> bytes:
        body = newer(json.loads(fetch(*asked, **options)))
        added.append(body)
        return json.dumps(body).encode()

    async def said(url: str) -> tuple[int, str]:
        code = await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", (*words, "--server", url))
        return code, capfd.readouterr().out

    async with served(FakeReader()) as url:
        before = await said(url)
        monkeypatch.setattr(requests, "fetch", fetch_newer)
        after = await said(url)
    assert before[1]
    assert before == after
    assert added


@pytest.mark.parametrize("path", ["queues", "pending", "workloads", "nodes"])
async def test_a_parameter_that_an_older_muster_does_not_know_is_refused_by_its_name(path: str) -> None:
    """Answered without it, a question would get more than was asked for."""
    query: Mapping[str, str | None] = {"addedLater": "1"}
    async with served(FakeReader()) as url:
        with pytest.raises(Unanswered) as refused:
            await asyncio.to_thread(ask, Route(server=url), path, bodies.QueueList, query)
    assert refused.value.status == 400
    assert f"addedLater is not a parameter of /apis/read.muster.dev/v1/{path}" in str(refused.value)
    assert len(str(refused.value).splitlines()) <= 2
