"""A replica of Muster, and how its read API is asked over HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from admission.web.app import PREFIX
from admission.web.reader import Sight
from tests.fakes.fake_reader import FakeLeader, FakeReader, served

#: alice may see her namespace; jo jobs in it, and no other kind.
SIGHTS = {
    "alice": Sight(workloads={"job": {"ml"}, "vcjob": {"ml"}}, queues=frozenset({"team-a", "train"})),
    "jo": Sight(workloads={"job": {"ml"}}, queues=frozenset()),
}
#: Status and JSON of the answer to a path of the read API, or a whole one, and to a user.
Get = Callable[..., Awaitable[tuple[int, Any]]]


@pytest.fixture
def reader() -> FakeReader:
    return FakeReader()


@pytest.fixture
def leader() -> FakeLeader:
    return FakeLeader()


@pytest.fixture
async def server(reader: FakeReader, leader: FakeLeader) -> AsyncIterator[str]:
    async with served(reader, leader=leader, sights=SIGHTS) as url:
        yield url


def asking(server: str) -> Get:
    async def get(path: str, user: str = "admin") -> tuple[int, Any]:
        url = server + (path if path.startswith("/") else f"{PREFIX}/{path}")
        headers = {"Authorization": f"Bearer {user}"}
        async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
            assert answer.content_type == "application/json"
            return answer.status, await answer.json()

    return get


@pytest.fixture
def get(server: str) -> Get:
    return asking(server)
