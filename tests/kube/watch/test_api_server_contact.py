"""A leader that sees no API server steps down, and one that only hears nothing new does not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytest_asyncio

from admission.kube.client.client import Client
from admission.kube.watch import api_server_contact
from admission.kube.watch.api_server_contact import ApiServerContact, ApiServerUnseen
from tests.fakes.fake_api_server import FakeApiServer, answers
from tests.waiting import LIMIT, eventually

#: Seconds without an answer after which a leader resigns, by a clock that only its own pauses move.
SILENCE = 60.0


class Clock:
    """Time that passes while the contact sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    timed = SimpleNamespace(sleep=clock.sleep, timeout=asyncio.timeout, get_running_loop=lambda: clock)
    monkeypatch.setattr(api_server_contact, "asyncio", timed)
    return clock


@pytest_asyncio.fixture
async def contact(server: FakeApiServer, tmp_path: Path, clock: Clock) -> AsyncIterator[ApiServerContact]:
    async with await Client.connect(server.kubeconfig(tmp_path), request_timeout=LIMIT) as client:
        yield ApiServerContact(client, SILENCE)


async def test_a_leader_cut_off_resigns_and_runs_again_when_it_is_answered(
    server: FakeApiServer, contact: ApiServerContact
) -> None:
    assert not await contact.is_lost()
    await server.stop()
    with pytest.raises(ApiServerUnseen):
        await contact.keep(lambda: [0.0, 0.0])
    assert await contact.is_lost()
    await server.start()
    assert not await contact.is_lost()


async def test_what_informers_hear_is_enough(
    server: FakeApiServer, contact: ApiServerContact, clock: Clock
) -> None:
    watching = asyncio.create_task(contact.keep(lambda: [0.0, clock.now]))
    end = clock.now + 2 * SILENCE
    await eventually(lambda: clock.now > end or watching.done(), "the limit")
    assert not watching.done()
    assert server.requests == []
    watching.cancel()


@pytest.mark.parametrize("status", [200, 403])
async def test_in_a_quiet_cluster_it_is_asked(
    server: FakeApiServer, contact: ApiServerContact, status: int
) -> None:
    if status != 200:
        server.once("LIST", answers(status, "not for you", "Forbidden"), times=100)
    watching = asyncio.create_task(contact.keep(lambda: [0.0]))
    await eventually(lambda: len(server.requests) > 5 or watching.done(), "questions")
    assert not watching.done()
    assert {request.path for request in server.requests} == {"/api/v1/nodes"}
    watching.cancel()
