"""Runs migrations on a connection opened by ``queues.sql.database.migrate``, or on ``MUSTER_DSN``.

The second way is for developers: ``alembic revision --autogenerate``, ``alembic history`` and the like.
"""

import asyncio
import os

from alembic import context
from sqlalchemy import Connection

from queues.sql.database import Database
from queues.sql.tables import is_ours, metadata


def run(connection: Connection) -> None:
    """Run what was asked for, each migration in a transaction of its own."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_name=is_ours,
        compare_server_default=True,
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def connect_and_run() -> None:
    """The developers' way."""
    database = await Database.connect(os.environ["MUSTER_DSN"])
    try:
        async with database.bare_connection() as connection:
            await connection.run_sync(run)
    finally:
        await database.close()


if (given := context.config.attributes.get("connection")) is not None:
    run(given)
else:
    asyncio.run(connect_and_run())
