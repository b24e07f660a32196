"""What the tests of backups share."""

from collections.abc import AsyncIterator

import pytest_asyncio
from sqlalchemy import make_url

from queues.sql.database import raw_connection


@pytest_asyncio.fixture
async def empty(database: str) -> AsyncIterator[str]:
    """The DSN of a database in which nothing is, beside the test's own."""
    url = make_url(database)
    name = f"{url.database}_empty"
    admin = await raw_connection(database)
    await admin.execute(f'CREATE DATABASE "{name}"')
    yield url.set(database=name).render_as_string(hide_password=False)
    await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await admin.close()
