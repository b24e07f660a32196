"""A workload that names a queue that there is not: the one that may have been meant is told, if the user may see it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from msgspec import structs

from admission.cli.failures import finish
from admission.cli.kubectl_muster import kubectl_muster
from admission.read_api import bodies
from queues.reason_codes import ReasonCode
from tests.fakes import fake_reader
from tests.fakes.fake_reader import FakeReader, served

Asking = Callable[..., Awaitable[str]]
TOLD = "queue trian does not exist; create it or name another one"


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> FakeReader:
    reason = bodies.ReasonBody(code=ReasonCode.UNKNOWN_QUEUE, message=TOLD)
    lost = structs.replace(fake_reader.STORY, queue="trian", reason=reason)
    monkeypatch.setattr(fake_reader, "STORY", lost)
    monkeypatch.setattr(
        fake_reader,
        "PENDING",
        tuple(structs.replace(each, queue="trian", reason=reason) for each in fake_reader.PENDING),
    )
    return FakeReader()


@pytest.fixture
async def ask(
    reader: FakeReader, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Asking]:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    async with served(reader) as url:
        monkeypatch.setenv("MUSTER_SERVER", url)

        async def asked(*words: str) -> str:
            await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", words)
            return capfd.readouterr().out

        yield asked


@pytest.mark.parametrize("words", ["explain tune-3 -n ml", "pending -A"])
async def test_the_queue_that_was_meant_is_told(ask: Asking, words: str) -> None:
    assert f"{TOLD}. Did you mean train?" in await ask(*words.split())


@pytest.mark.parametrize("words", ["explain tune-3 -n ml", "pending -A"])
async def test_a_queue_that_the_user_may_not_see_is_not_told(
    reader: FakeReader, ask: Asking, words: str
) -> None:
    reader.tree = tuple(each for each in reader.tree if each.name != "train")
    told = await ask(*words.split())
    assert TOLD in told
    assert "Did you mean" not in told
