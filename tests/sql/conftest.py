"""What the tests of the SQL layer share."""

from collections.abc import AsyncIterator

import pytest_asyncio

from queues.sql.database import Database


@pytest_asyncio.fixture
async def muster(database: str) -> AsyncIterator[Database]:
    """A database of the test's own with the schema, connected."""
    connected = await Database.connect(database)
    yield connected
    await connected.close()
