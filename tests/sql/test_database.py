"""Transactions and what their errors mean."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import asyncpg
import pytest
from sqlalchemy import URL, BigInteger, Text, bindparam, make_url, select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

from queues.errors import DatabaseError, DatabaseTooSlow, DatabaseUnavailable, DataRefused, OutcomeUnknown
from queues.sql.database import Database, as_json
from tests.chaos.network.link import Connection, Link
from tests.tables import with_rows

KILL = text("SELECT pg_terminate_backend(:pid)")
PID = text("SELECT pg_backend_pid()")


async def test_what_a_block_wrote_is_there_unless_it_raised(muster: Database) -> None:
    async with muster.transaction() as tx:
        await tx.execute(text("INSERT INTO queues (name) VALUES ('a')"))

    async def write_and_fail() -> None:
        async with muster.transaction() as tx:
            await tx.execute(text("INSERT INTO queues (name) VALUES ('b')"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await write_and_fail()
    async with muster.transaction() as tx:
        assert (await tx.scalars(text("SELECT name FROM queues ORDER BY 1"))).all() == ["a", "root"]


async def test_a_snapshot_sees_one_moment_and_writes_nothing(muster: Database) -> None:
    async with muster.snapshot() as tx:
        before = await tx.scalar(text("SELECT count(*) FROM queues"))
        async with muster.transaction() as other:
            await other.execute(text("INSERT INTO queues (name) VALUES ('a')"))
        assert await tx.scalar(text("SELECT count(*) FROM queues")) == before
    with pytest.raises(DatabaseError, match="read-only"):
        async with muster.snapshot() as tx:
            await tx.execute(text("INSERT INTO queues (name) VALUES ('b')"))
    async with muster.transaction() as tx:
        await tx.execute(text("INSERT INTO queues (name) VALUES ('c')"))


async def test_a_mistake_is_not_an_outage(muster: Database) -> None:
    with pytest.raises(DatabaseError, match="does not exist") as caught:
        async with muster.transaction() as tx:
            await tx.execute(text("SELECT * FROM nowhere"))
    assert type(caught.value) is DatabaseError


async def test_each_transaction_is_told_with_its_outcome_and_time(golden: Any, database: str) -> None:
    told: list[tuple[str, float]] = []

    async def run(of: Database, statement: str) -> None:
        async with of.transaction() as tx:
            await tx.execute(text(statement))

    of = await Database.connect(database)
    of.observe = lambda outcome, seconds: told.append((outcome, seconds))
    await run(of, "SELECT pg_sleep(0.05)")
    for statement in ("SELECT * FROM nowhere", "SELECT pg_terminate_backend(pg_backend_pid())"):
        with pytest.raises(DatabaseError):
            await run(of, statement)
    with pytest.raises(ZeroDivisionError):
        async with of.transaction():
            raise ZeroDivisionError
    await of.close()
    absent = Database.open("postgresql://nobody@/nothing?host=/nowhere")
    absent.observe = of.observe
    with pytest.raises(DatabaseUnavailable):
        await run(absent, "SELECT 1")
    assert [outcome for outcome, _ in told] == golden
    assert 0.05 <= told[0][1] < 5


async def test_an_address_without_a_server_says_so() -> None:
    with pytest.raises(DatabaseUnavailable):
        await Database.connect("postgresql://nobody@/nothing?host=/nowhere")


async def test_a_lost_connection_is_an_outage_and_the_next_transaction_gets_a_new_one(
    muster: Database,
) -> None:
    async def lose_it() -> None:
        async with muster.transaction() as tx:
            pid = await tx.scalar(PID)
            async with muster.transaction() as other:
                await other.execute(KILL, {"pid": pid})
            await tx.execute(text("SELECT 1"))

    with pytest.raises(DatabaseUnavailable):
        await lose_it()
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT 1")) == 1


async def test_a_statement_on_a_connection_that_the_server_gives_up_meets_an_outage(muster: Database) -> None:
    """The library takes what it is asked between the server's last words and the end for a defect of its own."""
    with pytest.raises(DatabaseUnavailable, match="cannot switch to state"):
        async with muster.transaction():
            raise asyncpg.InternalClientError(
                "cannot switch to state 11; another operation (2) is in progress"
            )


async def test_a_statement_that_takes_too_long_is_ended_and_may_be_tried_again(database: str) -> None:
    hasty = await Database.connect(database, statement_timeout=0.5)
    with pytest.raises(DatabaseTooSlow, match="statement timeout"):
        async with hasty.transaction() as tx:
            await tx.execute(text("SELECT pg_sleep(300)"))
    await hasty.close()


async def test_the_victim_of_a_deadlock_may_try_again(muster: Database) -> None:
    async with muster.transaction() as tx:
        await tx.execute(text("INSERT INTO queues (name) VALUES ('a')"))
    both = asyncio.Barrier(2)

    async def lock(*names: str) -> None:
        async with muster.transaction() as tx:
            for name in names:
                await tx.execute(text("UPDATE queues SET paused = true WHERE name = :name"), {"name": name})
                if name == names[0]:
                    await both.wait()

    outcomes = await asyncio.gather(lock("a", "root"), lock("root", "a"), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes if outcome is not None] == [DatabaseUnavailable]


async def test_a_lock_that_is_not_to_be_had_may_be_tried_for_again(muster: Database) -> None:
    async with muster.transaction() as tx:
        await tx.execute(text("SELECT * FROM queues FOR UPDATE"))
        with pytest.raises(DatabaseUnavailable, match="could not obtain lock"):
            async with muster.transaction() as other:
                await other.execute(text("SELECT * FROM queues FOR UPDATE NOWAIT"))


async def test_no_free_connection_is_told_as_an_outage(database: str) -> None:
    narrow = await Database.connect(database, statement_timeout=0.5, pool_size=1)
    async with narrow.transaction():
        with pytest.raises(DatabaseUnavailable, match="QueuePool limit"):
            async with narrow.transaction():
                pass
    await narrow.close()


async def test_a_server_that_takes_no_writes_is_asked_over_a_new_connection_next_time(
    database: str, muster: Database
) -> None:
    name = make_url(database).database
    async with muster.transaction() as tx:
        await tx.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
    standby = await Database.connect(database, pool_size=1)
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        async with standby.transaction() as tx:
            await tx.execute(text("INSERT INTO queues (name) VALUES ('a')"))
    async with muster.transaction() as tx:
        await tx.execute(text(f"ALTER DATABASE {name} RESET default_transaction_read_only"))
    async with standby.transaction() as tx:
        await tx.execute(text("INSERT INTO queues (name) VALUES ('a')"))
    await standby.close()


@with_rows("statement")
async def test_a_value_or_row_that_is_refused_has_an_error_of_its_own(
    muster: Database, statement: str
) -> None:
    with pytest.raises(DataRefused):
        async with muster.transaction() as tx:
            await tx.execute(text(statement))


@pytest.mark.parametrize("kind", [BigInteger(), Text(), JSONB()], ids=["number", "text", "JSON"])
async def test_a_value_that_cannot_even_be_sent_has_the_same_error(
    muster: Database, kind: TypeEngine[Any]
) -> None:
    value = 2**63 if isinstance(kind, BigInteger) else "\ud800"
    with pytest.raises(DataRefused):
        async with muster.transaction() as tx:
            await tx.execute(select(bindparam("value", type_=kind)), {"value": value})


async def test_a_holder_that_stops_gives_its_locks_back(database: str, muster: Database) -> None:
    sleepy = await Database.connect(database, idle_timeout=0.05)

    async def hold_and_stop() -> None:
        async with sleepy.transaction() as tx:
            await tx.execute(text("SELECT * FROM queues FOR UPDATE"))
            async with muster.transaction() as other:
                await other.execute(text("UPDATE queues SET paused = true"))
            await tx.execute(text("SELECT 1"))

    with pytest.raises(DatabaseError):
        await hold_and_stop()
    await sleepy.close()


class Wire(Link):
    """Hands COMMIT on, and then loses the answer."""

    server: URL
    loses_answer = False

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.server.host is None:
            return await asyncio.open_unix_connection(f"{self.server.query['host']}/.s.PGSQL.5432")
        return await asyncio.open_connection(self.server.host, self.server.port or 5432)

    def sends(self, connection: Connection, chunk: bytes) -> bool:
        connection.awaits = self.loses_answer and b"COMMIT" in chunk
        return True

    def answers(self, connection: Connection, chunk: bytes) -> bool:
        return not connection.awaits


@asynccontextmanager
async def behind_a_wire(database: str) -> AsyncIterator[tuple[Database, Wire]]:
    wire = Wire("muster")
    wire.server = address = make_url(database)
    with TemporaryDirectory() as here:
        server = await asyncio.start_unix_server(wire.connected, Path(here) / ".s.PGSQL.5432")
        by_wire = URL.create(
            "postgresql", address.username, address.password, database=address.database, query={"host": here}
        )
        muster = await Database.connect(by_wire.render_as_string(hide_password=False))
        yield muster, wire
        await muster.close()
        server.close()


async def test_an_answer_to_commit_that_never_came_is_an_unknown_outcome(
    database: str, muster: Database
) -> None:
    async with behind_a_wire(database) as (far, wire):

        async def commit_into_the_dark() -> None:
            async with far.transaction() as tx:
                await tx.execute(text("INSERT INTO queues (name) VALUES ('a')"))
                wire.loses_answer = True

        with pytest.raises(OutcomeUnknown):
            await commit_into_the_dark()
        wire.loses_answer = False
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM queues WHERE name = 'a'")) == 1


def test_json_for_postgres_has_no_nul_and_is_else_unchanged() -> None:
    texts = ["plain", "a\0b", "\0", "\\\0", "\\u0000", "\\\\u0000"]
    assert json.loads(as_json(texts)) == [text.replace("\0", "\ufffd") for text in texts]
