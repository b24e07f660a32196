"""Wake-up calls: LISTEN/NOTIFY is the hint, a timer the guarantee."""

import asyncio
from contextlib import suppress
from typing import Any, NoReturn

import asyncpg
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.database import raw_connection

#: The one channel; notifications carry nothing.
CHANNEL = "muster"
#: Seconds between two attempts to connect.
RECONNECT = 1.0

_LOST = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class Wakeup:
    """Sets ``event`` at every notification, whenever listening (re)starts, and every so many seconds."""

    def __init__(self, dsn: str, *, at_least_every: float = 5.0, reconnect: float = RECONNECT) -> None:
        self.event = asyncio.Event()
        self._dsn = dsn
        self._period = at_least_every
        self._reconnect = reconnect

    async def run(self) -> NoReturn:
        """Listen until cancelled. A lost connection costs latency only: the timer goes on meanwhile."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tick(), name="wake-up timer")
            tasks.create_task(self._listen(), name="wake-up listener")
        raise AssertionError("neither task ends by itself")

    async def _tick(self) -> NoReturn:
        while True:
            self.event.set()
            await asyncio.sleep(self._period)

    async def _listen(self) -> NoReturn:
        while True:
            with suppress(*_LOST):
                await self._listen_once()
            await asyncio.sleep(self._reconnect)

    async def _listen_once(self) -> None:
        lost = asyncio.Event()
        connection = await raw_connection(self._dsn)
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(CHANNEL, self._wake)
            # What was notified while nobody listened is lost, so look now.
            self.event.set()
            await lost.wait()
        finally:
            connection.terminate()

    def _wake(self, *_: Any) -> None:
        self.event.set()


async def notify(tx: AsyncConnection) -> None:
    """Wake all listeners when this transaction commits."""
    await tx.execute(select(func.pg_notify(CHANNEL, "")))
