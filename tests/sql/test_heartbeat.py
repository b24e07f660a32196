"""How old the stored state is, as every replica reads it."""

import pytest

from queues.sql.database import Database
from queues.sql.leadership import Term, beat, last_heartbeat


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
