"""Wake-up calls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text

from queues.sql.database import Database
from queues.sql.wakeup import Wakeup, notify


@asynccontextmanager
async def listening(muster: Database, *, at_least_every: float = 3600.0) -> AsyncIterator[Wakeup]:
    wakeup = Wakeup(muster.dsn, at_least_every=at_least_every, reconnect=0.01)
    task = asyncio.create_task(wakeup.run())
    try:
        async with asyncio.timeout(10):
            while await listeners(muster) == 0:
                await wakeup.event.wait()
                wakeup.event.clear()
        wakeup.event.clear()
        yield wakeup
    finally:
        task.cancel()
        await asyncio.wait([task])


async def listeners(muster: Database) -> int:
    async with muster.transaction() as tx:
        found = await tx.scalar(
            text(
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND state = 'idle' "
                "AND datname = current_database()"
            )
        )
    return int(found or 0)


async def woken(wakeup: Wakeup) -> None:
    async with asyncio.timeout(10):
        await wakeup.event.wait()
    wakeup.event.clear()


async def test_a_notification_wakes_when_its_transaction_commits(muster: Database) -> None:
    async with listening(muster) as wakeup:
        async with muster.transaction() as tx:
            await notify(tx)
            await tx.execute(text("SELECT 1"))
            assert not wakeup.event.is_set()
        await woken(wakeup)


async def test_a_lost_connection_is_replaced_and_counts_as_a_call(muster: Database) -> None:
    async with listening(muster) as wakeup:
        async with muster.transaction() as tx:
            await tx.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE query LIKE 'LISTEN%' AND datname = current_database()"
                )
            )
        await woken(wakeup)
        async with muster.transaction() as tx:
            await notify(tx)
        await woken(wakeup)


async def test_the_timer_wakes_when_nobody_can_be_heard() -> None:
    wakeup = Wakeup("postgresql://nobody@/nothing?host=/nowhere", at_least_every=0.01)
    task = asyncio.create_task(wakeup.run())
    for _ in range(3):
        await woken(wakeup)
    task.cancel()
    await asyncio.wait([task])
