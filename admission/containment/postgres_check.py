"""Whether Postgres answers and has this version's schema, reported within a second even if it hangs."""

import asyncio
from time import monotonic
from typing import Final

from queues.errors import MusterError
from queues.sql.database import Database, check_schema

#: Seconds within which the check answers: less than any probe waits.
ANSWER_WITHIN: Final = 1.0


class PostgresCheck:
    """One question at a time, however many ask: no caller waits for a connection that hangs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._question: asyncio.Task[str | None] | None = None
        self._asked = 0.0

    async def __call__(self) -> str | None:
        """What is wrong. None if nothing is."""
        if self._question is None or self._question.done():
            self._question = asyncio.create_task(self._ask(), name="ask postgres")
            self._asked = monotonic()
        question, asked = self._question, self._asked
        # Another caller may ask anew before this one goes on.
        done, _ = await asyncio.wait({question}, timeout=ANSWER_WITHIN)
        return question.result() if done else f"Postgres has not answered for {monotonic() - asked:.0f} s"

    async def _ask(self) -> str | None:
        try:
            async with self._database.transaction() as tx:
                await check_schema(tx)
        except MusterError as error:
            return str(error)
        return None
