"""Who leads, and until when."""

import asyncio

import pytest
from sqlalchemy import text

from queues.errors import DatabaseError
from queues.sql.database import Database
from queues.sql.leadership import (
    LeaseTrust,
    Term,
    beat,
    check_term,
    elect,
    holder,
    last_heartbeat,
    renew,
    resign,
)
from queues.sql.lease_times import LEASE_SECONDS, MARGIN_SECONDS, RETRY_SECONDS


async def let_it_expire(muster: Database) -> None:
    async with muster.transaction() as tx:
        await tx.execute(text("UPDATE leases SET expires = clock_timestamp() - interval '1 ms'"))


async def attempt(muster: Database, holder: str) -> Term | None:
    async with muster.transaction() as tx:
        return await elect(tx, holder)


async def test_of_many_who_try_at_once_one_leads(muster: Database) -> None:
    terms = await asyncio.gather(*(attempt(muster, f"holder-{n}") for n in range(8)))
    assert len([term for term in terms if term is not None]) == 1


async def test_nobody_takes_a_lease_that_has_not_ended_not_even_a_namesake(muster: Database) -> None:
    assert await attempt(muster, "a") == Term(holder="a", number=1)
    assert await attempt(muster, "b") is None
    assert await attempt(muster, "a") is None


async def test_a_lease_that_ended_is_taken_by_a_new_term(muster: Database) -> None:
    await attempt(muster, "a")
    await let_it_expire(muster)
    terms = await asyncio.gather(*(attempt(muster, holder) for holder in "bcde"))
    assert [term.number for term in terms if term is not None] == [2]


async def test_a_writer_of_an_old_term_whose_process_stands_still_keeps_nobody_from_leading(
    muster: Database, database: str
) -> None:
    old = await attempt(muster, "a")
    assert old is not None
    # As one that was stopped between two messages of a statement: no timeout of Postgres ends it.
    frozen = await Database.connect(database, statement_timeout=0, idle_timeout=0)

    async def write_on() -> None:
        async with frozen.transaction() as writing:
            await check_term(writing, old)
            async with muster.transaction() as tx:
                await tx.execute(text("SELECT pg_sleep(:seconds)"), {"seconds": MARGIN_SECONDS})
            await let_it_expire(muster)
            assert await attempt(muster, "b") == Term(holder="b", number=2)
            await check_term(writing, old)

    try:
        with pytest.raises(DatabaseError):
            await write_on()
    finally:
        await frozen.close()


async def test_a_term_is_renewed_until_it_ends_and_not_afterwards(muster: Database) -> None:
    term = await attempt(muster, "a")
    assert term is not None
    async with muster.transaction() as tx:
        assert await renew(tx, term) == term
    await let_it_expire(muster)
    async with muster.transaction() as tx:
        assert await renew(tx, term) is None


async def test_an_old_term_of_the_same_holder_renews_and_resigns_nothing(muster: Database) -> None:
    old = await attempt(muster, "a")
    await let_it_expire(muster)
    new = await attempt(muster, "a")
    assert old is not None
    assert new is not None
    async with muster.transaction() as tx:
        assert await renew(tx, old) is None
        assert not await resign(tx, old)
        assert await renew(tx, new) == new


async def test_who_resigns_is_followed_at_once(muster: Database) -> None:
    term = await attempt(muster, "a")
    assert term is not None
    async with muster.transaction() as tx:
        assert await resign(tx, term)
        assert not await resign(tx, term)
    assert await attempt(muster, "b") == Term(holder="b", number=2)


async def test_everybody_can_see_who_leads(muster: Database) -> None:
    assert await attempt(muster, "a") is not None
    async with muster.transaction() as tx:
        assert await holder(tx) == "a"
    await let_it_expire(muster)
    async with muster.transaction() as tx:
        assert await holder(tx) is None


async def test_a_lease_ends_by_the_clock_of_the_database(muster: Database) -> None:
    async with muster.transaction() as tx:
        term = await elect(tx, "a", 0.2)
        await tx.execute(text("SELECT pg_sleep_until(expires + interval '1 ms') FROM leases"))
        assert term is not None
        assert await renew(tx, term) is None
        assert await elect(tx, "b", 0.2) == Term(holder="b", number=2)


def test_trust_starts_with_the_attempt_and_ends_before_the_lease() -> None:
    trust = LeaseTrust.since(100.0, 8.0, margin=1.0)
    assert trust.holds(106.9)
    assert not trust.holds(107.0)
    assert trust.left(106.0) == 1.0
    assert trust.left(200.0) == 0.0


def test_lease_and_one_retry_are_below_fifteen_seconds() -> None:
    assert LEASE_SECONDS + RETRY_SECONDS < 15


# ── heartbeats ──────────────────────────────────────────────────────────────────────────────────────────────


async def store(
    muster: Database, term: int, seconds: float, behind: str = "", address: str = "https://10.0.0.1:8443"
) -> None:
    async with muster.transaction() as tx:
        await beat(tx, Term(holder=f"r{term}", number=term), seconds=seconds, behind=behind, address=address)


async def test_before_the_first_leader_there_is_no_heartbeat(muster: Database) -> None:
    async with muster.snapshot() as tx:
        assert await last_heartbeat(tx) is None


async def test_the_age_goes_on_while_no_heartbeat_comes(muster: Database) -> None:
    await store(muster, 1, 40.0, "the watch of pods is interrupted")

    async with muster.snapshot() as tx:
        first = await last_heartbeat(tx)
        second = await last_heartbeat(tx)

    assert first is not None
    assert second is not None
    assert (first.holder, first.behind, first.address) == (
        "r1",
        "the watch of pods is interrupted",
        "https://10.0.0.1:8443",
    )
    assert first.age == pytest.approx(40.0, abs=5.0)
    assert second.age > first.age


async def test_a_leader_of_an_earlier_term_does_not_speak_for_the_later_one(muster: Database) -> None:
    await store(muster, 2, 0.0)
    await store(muster, 1, 0.0)

    async with muster.snapshot() as tx:
        found = await last_heartbeat(tx)

    assert found is not None
    assert (found.holder, found.term) == ("r2", 2)
