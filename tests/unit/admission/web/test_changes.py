"""Streams of events: what they say, to how many, and for how long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from admission.settings import Address
from admission.web.access.limits import RequestLimits
from admission.web.app import PREFIX
from admission.web.changes import Changes, StreamLimits
from admission.web.http import serving
from queues.errors import DatabaseUnavailable
from tests.fakes.fake_reader import FakeReader, fake_api
from tests.tables import with_rows
from tests.waiting import LIMIT

STREAMS = RequestLimits(at_once=200, waiting=0, of_one=8)
QUICK = StreamLimits(every=0.01, silence=5.0, longest=30.0, at_once=STREAMS)
STREAM = f"{PREFIX}/changes?watch=true"


@asynccontextmanager
async def streaming(reader: FakeReader, limits: StreamLimits = QUICK) -> AsyncIterator[tuple[str, Changes]]:
    changes = Changes(read=reader.change_mark, limits=limits)
    application = replace(fake_api(reader), changes=changes).application()
    async with serving(application, Address("127.0.0.1", 0)) as port:
        yield f"http://127.0.0.1:{port}", changes


async def event(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """The next event, or the next comment under the name ""."""
    while True:
        fields: dict[str, str] = {}
        while (line := (await answer.content.readline()).decode()) not in ("\n", ""):
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name.rstrip(":")] = value
        if "retry" not in fields:
            return fields


async def test_an_event_comes_at_once_and_with_each_change() -> None:
    reader = FakeReader()
    async with streaming(reader) as (url, _), aiohttp.ClientSession(url) as session:
        async with session.get(STREAM) as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            assert await event(answer) == {"event": "change", "id": "1", "data": "{}"}
            reader.mark = "2"
            assert await event(answer) == {"event": "change", "id": "2", "data": "{}"}
        async with session.get(STREAM, headers={"Last-Event-ID": "2"}) as answer:
            reader.mark = "3"
            assert (await event(answer))["id"] == "3"


async def test_who_missed_nothing_hears_only_that_the_stream_is_there() -> None:
    reader, limits = FakeReader(), replace(QUICK, silence=0.02)
    async with (
        streaming(reader, limits) as (url, _),
        aiohttp.ClientSession(url) as session,
        session.get(STREAM, headers={"Last-Event-ID": "1"}) as answer,
    ):
        assert await event(answer) == {"": "nothing has changed"}


async def test_streams_go_on_while_postgres_is_away() -> None:
    reader, failed = FakeReader(), asyncio.Event()
    async with (
        streaming(reader) as (url, changes),
        aiohttp.ClientSession(url) as session,
        session.get(STREAM) as answer,
    ):
        await event(answer)

        async def away() -> str:
            failed.set()
            raise DatabaseUnavailable(reason="connection refused")

        changes.read = away
        await asyncio.wait_for(failed.wait(), LIMIT)
        reader.mark, changes.read = "2", reader.change_mark
        assert (await event(answer))["id"] == "2"


async def test_a_stream_ends_by_itself() -> None:
    limits = replace(QUICK, longest=0.05)
    async with streaming(FakeReader(), limits) as (url, changes), aiohttp.ClientSession(url) as session:
        async with session.get(STREAM) as answer:
            assert (await answer.read()).startswith(b"retry: 2000\n\nevent: change\n")
        assert not changes._streams
        assert changes._watching is None


@with_rows("limits", "first", "second")
async def test_there_are_only_so_many(limits: dict[str, Any], first: str, second: str) -> None:
    async with (
        streaming(FakeReader(), replace(QUICK, at_once=replace(STREAMS, **limits))) as (url, _),
        aiohttp.ClientSession(url) as session,
        session.get(STREAM, headers={"Authorization": f"Bearer {first}"}) as answer,
    ):
        await event(answer)
        async with session.get(STREAM, headers={"Authorization": f"Bearer {second}"}) as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (429, "1")


async def test_who_has_no_stream_gets_a_place_that_is_kept_for_newcomers() -> None:
    limits = replace(QUICK, at_once=replace(STREAMS, at_once=2, newcomers=1))
    async with (
        streaming(FakeReader(), limits) as (url, _),
        aiohttp.ClientSession(url) as session,
        session.get(STREAM) as answer,
    ):
        await event(answer)
        async with session.get(STREAM, headers={"Authorization": "Bearer someone-else"}) as other:
            assert other.status == 200


@pytest.mark.parametrize(
    ("path", "user", "status"),
    [
        (f"{PREFIX}/changes", "admin", 400),
        (f"{PREFIX}/changes?watch=1", "admin", 400),
        (f"{STREAM}&queue=train", "admin", 400),
        (STREAM, "nobody", 401),
    ],
)
async def test_wrong_questions_get_no_stream(path: str, user: str, status: int) -> None:
    async with streaming(FakeReader()) as (url, changes), aiohttp.ClientSession(url) as session:
        async with session.get(path, headers={"Authorization": f"Bearer {user}"}) as answer:
            assert answer.status == status
        assert changes._watching is None


async def test_nothing_is_looked_up_when_nobody_listens() -> None:
    reader = FakeReader()
    async with streaming(reader) as (url, changes), aiohttp.ClientSession(url) as session:
        answer = await session.get(STREAM)
        await event(answer)
        assert changes._watching is not None
        answer.close()
        async with asyncio.timeout(LIMIT):
            while changes._watching is not None:
                reader.mark += "x"  # the next event finds that the client has left
                await asyncio.sleep(0.01)
