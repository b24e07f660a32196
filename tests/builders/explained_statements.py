"""Connections that tell how many rows Postgres looks at for each statement: what it costs, without a clock."""

import re
from collections import Counter
from typing import Any, Final

import asyncpg
import pytest

from queues.sql import database as databases
from queues.sql.database import Database, raw_connection

#: Rows that statements looked at, by their text.
LOOKED: Final[Counter[str]] = Counter()
_EXPLAINED: Final = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b")


class Explained:
    """A prepared statement. Whenever it is asked its plan is noted, with the rows of each step."""

    def __init__(self, connection: asyncpg.Connection, statement: Any) -> None:
        self._connection = connection
        self._statement = statement

    async def fetch(self, *values: Any) -> list[asyncpg.Record]:
        """The plan is that of the same statement with the same values, which is rolled back."""
        query = self._statement.get_query()
        if _EXPLAINED.match(query):
            LOOKED[query] += looked_at(await self._plan(query, values))
        found: list[asyncpg.Record] = await self._statement.fetch(*values)
        return found

    async def _plan(self, query: str, values: tuple[Any, ...]) -> Any:
        tries = self._connection.transaction()
        await tries.start()
        (told,) = await self._connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", *values)
        await tries.rollback()
        return told["Plan"]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._statement, name)


class Explaining(asyncpg.Connection):
    """A connection with such statements."""

    async def prepare(self, query: str, **options: Any) -> Any:
        return Explained(self, await super().prepare(query, **options))


async def _explaining(*arguments: Any, **options: Any) -> asyncpg.Connection:
    return await raw_connection(*arguments, connection_class=Explaining, **options)


def looked_at(plan: dict[str, Any]) -> int:
    """Rows that a step of a plan and those below it produced or passed over."""
    removed = sum(rows for name, rows in plan.items() if name.startswith("Rows Removed"))
    own = plan["Actual Loops"] * (plan["Actual Rows"] + removed)
    return int(own) + sum(map(looked_at, plan.get("Plans", ())))


async def explained(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database of which each statement is noted in ``LOOKED``."""
    monkeypatch.setattr(databases, "raw_connection", _explaining)
    LOOKED.clear()
    return await Database.connect(dsn)
