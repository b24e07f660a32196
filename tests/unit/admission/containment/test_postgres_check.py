"""A probe is answered in time though Postgres hangs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from admission.containment import postgres_check
from admission.containment.postgres_check import PostgresCheck
from queues.errors import DatabaseUnavailable
from queues.sql.database import Database
from tests.waiting import LIMIT


class Hanging:
    """A Postgres that does not answer until told, not even to a cancellation."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer = asyncio.Event()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        self.asked += 1
        while not self.answer.is_set():
            try:
                await self.answer.wait()
            except asyncio.CancelledError:
                continue
        raise DatabaseUnavailable(reason="it was away")
        yield


async def test_postgres_that_hangs_is_told_in_time_and_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_check, "ANSWER_WITHIN", 0.01)
    hanging: Any = Hanging()
    check = PostgresCheck(hanging)
    async with asyncio.timeout(LIMIT):
        told = await asyncio.gather(check(), check(), check())
    assert all(each is not None and "has not answered" in each for each in told)
    assert hanging.asked == 1
    hanging.answer.set()
    monkeypatch.setattr(postgres_check, "ANSWER_WITHIN", 10.0)
    assert "it was away" in str(await check())


async def test_postgres_with_the_schema_is_ready(muster: Database) -> None:
    assert await PostgresCheck(muster)() is None


async def test_a_pool_on_a_server_that_is_down_says_so_when_it_is_asked() -> None:
    away = Database.open("postgresql://nobody@/nothing?host=/nowhere")
    assert "cannot do this now" in str(await PostgresCheck(away)())
    await away.close()


async def test_who_asks_anew_takes_nothing_from_who_waits() -> None:
    hanging: Any = Hanging()
    check = PostgresCheck(hanging)

    async def again() -> str | None:
        await check()
        return await check()

    async with asyncio.timeout(LIMIT):
        asking = asyncio.gather(again(), check(), again())
        await asyncio.sleep(0)
        hanging.answer.set()
        assert all("it was away" in str(each) for each in await asking)
