"""Priority classes that never preempt, kept beside those that do."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from admission.kube.client.client import Client
from admission.kube.writers.priority_classes import ClassFact, NonPreemptingClasses
from tests.fakes.fake_api_server import FakeApiServer, answers

HIGH = ClassFact(value=1000)
TWIN = ClassFact(value=1000, preempts=False, twin_of="high")


@pytest_asyncio.fixture
async def twins(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[NonPreemptingClasses]:
    async with await Client.connect(server.kubeconfig(tmp_path)) as client:
        yield NonPreemptingClasses(client, lambda: None, {})


async def test_a_class_that_preempts_gets_a_twin_of_the_same_value_that_does_not(
    server: FakeApiServer, twins: NonPreemptingClasses
) -> None:
    assert await twins.keep(
        {"high": HIGH, "system-node-critical": HIGH, "calm": ClassFact(value=1, preempts=False)}
    )
    (request,) = server.seen("POST")
    assert (request.body["value"], request.body["preemptionPolicy"]) == (1000, "Never")
    assert twins.names == {}, "it is used once it has been seen"
    await twins.keep({"high": HIGH, request.body["metadata"]["name"]: TWIN})
    assert twins.names == {"high": request.body["metadata"]["name"]}


async def test_a_twin_of_nobody_is_removed(server: FakeApiServer, twins: NonPreemptingClasses) -> None:
    await twins.keep({"high": HIGH, "muster-never-preempts-high": TWIN})
    await twins.keep({"muster-never-preempts-high": TWIN})
    assert len(server.seen("DELETE")) == 1
    assert twins.names == {}


async def test_what_the_server_could_not_do_is_left_to_be_done(
    server: FakeApiServer, twins: NonPreemptingClasses
) -> None:
    server.once("POST", answers(503, "overloaded"))
    assert not await twins.keep({"high": HIGH})
    assert await twins.keep({"high": HIGH})


async def test_what_the_server_refuses_is_not_tried_for_ever(
    server: FakeApiServer, twins: NonPreemptingClasses
) -> None:
    server.once("POST", answers(422, "metadata.name: Invalid value"))
    assert await twins.keep({"high": HIGH})


async def test_a_twin_that_exists_is_no_trouble(server: FakeApiServer, twins: NonPreemptingClasses) -> None:
    server.once("POST", answers(409, "exists", "AlreadyExists"))
    assert await twins.keep({"high": HIGH})
