"""What open views are told: by one stream for all of them, and every few seconds where there is none."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from admission.cli.access.change_feed import ChangeFeed
from admission.cli.access.requests import Route
from admission.settings import Address
from admission.web.changes import Changes, StreamLimits
from admission.web.http import serving
from tests.fakes.fake_reader import FakeReader, fake_api
from tests.waiting import LIMIT


@pytest.fixture
async def streamed() -> AsyncIterator[tuple[str, FakeReader, Changes]]:
    reader = FakeReader()
    changes = Changes(read=reader.change_mark, limits=StreamLimits(every=0.01))
    application = replace(fake_api(reader), changes=changes).application()
    async with serving(application, Address("127.0.0.1", 0)) as port:
        yield f"http://127.0.0.1:{port}", reader, changes


async def test_one_stream_serves_all_views(streamed: tuple[str, FakeReader, Changes]) -> None:
    url, reader, changes = streamed
    feed = ChangeFeed(Route(server=url), polled=3600.0)
    with feed.listening() as first, feed.listening() as second:
        for listener in (first, second):
            assert await asyncio.to_thread(listener.wait, 10)  # the first event comes at once
        assert changes._streams == 1
        reader.mark = "2"
        for listener in (first, second):
            assert await asyncio.to_thread(listener.wait, 10)
        assert not await asyncio.to_thread(first.wait, 0)
    async with asyncio.timeout(LIMIT):
        while changes._streams:  # the stream ends once it hears something that nobody listens to
            reader.mark += "x"
            await asyncio.sleep(0.01)


async def test_a_stream_that_ended_is_followed_by_another(streamed: tuple[str, FakeReader, Changes]) -> None:
    url, _, changes = streamed
    changes.limits = replace(changes.limits, longest=0.05)
    feed = ChangeFeed(Route(server=url), polled=3600.0)
    with feed.listening() as listener:
        for _ in range(3):
            assert await asyncio.to_thread(listener.wait, 10)


def test_without_a_stream_views_are_asked_for_every_few_seconds() -> None:
    feed = ChangeFeed(Route(server="http://127.0.0.1:9"), polled=0.01, again=0.05)
    with feed.listening() as listener:
        for _ in range(10):
            assert listener.wait(LIMIT)


async def test_who_may_not_listen_is_asked_for_every_few_seconds(
    streamed: tuple[str, FakeReader, Changes], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _, changes = streamed
    monkeypatch.setenv("MUSTER_TOKEN", "nobody")
    feed = ChangeFeed(Route(server=url), polled=0.01)
    with feed.listening() as listener:
        for _ in range(3):
            assert await asyncio.to_thread(listener.wait, 10)
    assert not changes._streams
