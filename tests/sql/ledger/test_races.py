"""Over-admission is refused by the database, whoever asks: racing appliers, wrong engines, deposed leaders."""

import asyncio

import pytest
from sqlalchemy import text

from queues.errors import Fenced, LedgerMismatch
from queues.quota.posting import Posting
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.leadership import Term, check_term, elect, renew
from queues.sql.ledger.balances import open_books, store_books
from queues.sql.world import load_world
from tests.sql.ledger_harness import NOW, LedgerHarness, gang, queue
from tests.waiting import LIMIT


async def waits_for_a_lock(muster: Database) -> None:
    async with asyncio.timeout(LIMIT):
        waiting = 0
        while not waiting:
            async with muster.transaction() as tx:
                waiting = await tx.scalar(
                    text(
                        "SELECT count(*) FROM pg_stat_activity "
                        "WHERE wait_event_type = 'Lock' AND datname = current_database()"
                    )
                )


async def in_ledger(muster: Database) -> int:
    async with muster.snapshot() as tx:
        return (await load_world(tx)).ledger_seq


async def test_of_appliers_that_race_with_the_same_knowledge_one_writes(muster: Database) -> None:
    names = [f"j{index}" for index in range(6)]
    harness = await LedgerHarness.begin(muster, [queue("a", capability=4)], {"n1": 4}, names)

    async def apply(name: str) -> bool:
        async with muster.transaction() as tx:
            entry = await ledger.fence(tx, harness.term, ledger_seq=0, now=NOW)
            verdict = await ledger.admit(tx, entry, [gang(name, "a", "n1 n1 n1")])
        return bool(verdict.accepted)

    outcomes = await asyncio.gather(*(apply(name) for name in names), return_exceptions=True)

    assert sorted(str(type(outcome).__name__) for outcome in outcomes) == ["Fenced"] * 5 + ["bool"]
    assert await harness.balances() == {"a": (3, 3, 3), "root": (0, 3, 3)}


async def test_appliers_that_race_and_try_again_never_give_more_than_there_is(muster: Database) -> None:
    names = [f"j{index}" for index in range(8)]
    harness = await LedgerHarness.begin(
        muster,
        [queue("team", capability=9), queue("a", "team"), queue("b", "team")],
        {"n1": 7, "n2": 7},
        names,
    )

    async def apply(name: str, into: str, nodes: str) -> bool:
        while True:
            try:
                async with muster.transaction() as tx:
                    entry = await ledger.fence(tx, harness.term, ledger_seq=await in_ledger(muster), now=NOW)
                    verdict = await ledger.admit(tx, entry, [gang(name, into, nodes)])
                return bool(verdict.accepted)
            except Fenced:
                continue

    places = ["n1 n1 n2", "n2 n2 n1"]
    gangs = [(name, "ab"[index % 2], places[index // 2 % 2]) for index, name in enumerate(names)]
    accepted = await asyncio.gather(*(apply(*each) for each in gangs))

    assert sum(accepted) == 3
    assert (await harness.balances())["team"] == (0, 9, 9)
    assert max((await harness.on_nodes()).values()) <= 7


async def test_a_wrong_engine_gets_no_more_than_the_limits(muster: Database) -> None:
    names = [f"j{index}" for index in range(50)]
    harness = await LedgerHarness.begin(
        muster, [queue("a", capability=10), queue("b")], {"n1": 12, "n2": 3}, names
    )
    verdict = await harness.admit(
        *(gang(name, "ab"[index % 2], ["n1", "n2"]) for index, name in enumerate(names))
    )
    assert len(verdict.accepted) == 3
    assert {rejection.code for rejection in verdict.rejected.values()} == {"NodeFull"}
    assert await harness.on_nodes() == {"n1": 3, "n2": 3}


@pytest.mark.parametrize("where", ["queue", "node"])
async def test_the_statements_refuse_what_the_arithmetic_let_pass(muster: Database, where: str) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a", capability=4)], {"n1": 4}, [])

    wanted = gang("j1", "a", ["n1"] * 5)

    async def write_too_much() -> None:
        async with muster.transaction() as tx:
            await harness.enter(tx)
            posting = Posting.of(wanted.queue, wanted.seats)
            books = await open_books(tx, [posting])
            books.post(posting)
            if where == "queue":
                books.node_moves.clear()
            else:
                books.queue_moves.clear()
            await store_books(tx, books, checked=True)

    with pytest.raises(LedgerMismatch, match=f"{where} accounts would pass their limit"):
        await write_too_much()
    assert await harness.balances() == {}
    assert await harness.on_nodes() == {}


async def test_an_election_waits_for_the_write_that_has_begun_and_knows_it(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    async with muster.transaction() as tx:
        await tx.execute(text("UPDATE leases SET expires = clock_timestamp() + interval '0.3 s'"))

    async def take_over() -> Term | None:
        async with muster.transaction() as tx:
            return await elect(tx, "other")

    async with muster.transaction() as tx:
        entry = await harness.enter(tx)
        await tx.execute(text("SELECT pg_sleep_until(expires + interval '1 ms') FROM leases"))
        successor = asyncio.create_task(take_over())
        await waits_for_a_lock(muster)
        await ledger.admit(tx, entry, [gang("j1", "a", "n1")])
    term = await successor
    assert term is not None
    assert term.number == harness.term.number + 1
    assert await in_ledger(muster) == entry.seq


async def test_a_deposed_leader_writes_nothing(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    async with muster.transaction() as tx:
        await tx.execute(text("UPDATE leases SET expires = clock_timestamp() - interval '1 s'"))
    for reason in ("its lease has ended", "a later term has begun"):
        with pytest.raises(Fenced, match=reason):
            await harness.admit(gang("j1", "a", "n1"))
        with pytest.raises(Fenced, match=reason):
            await harness.arrive("j2")
        with pytest.raises(Fenced, match=reason):
            await harness.queues(queue("b"))
        with pytest.raises(Fenced, match=reason):
            await harness.nodes(n1=8)
        async with muster.transaction() as tx:
            await elect(tx, "other")
    assert await in_ledger(muster) == 0
    assert await harness.balances() == {}


async def test_intake_and_apply_do_not_write_at_the_same_moment(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a", capability=4)], {"n1": 8}, ["j1"])
    async with muster.transaction() as tx:
        entry = await harness.enter(tx)
        shrinking = asyncio.create_task(harness.queues(queue("a", capability=1)))
        await waits_for_a_lock(muster)
        assert (await ledger.admit(tx, entry, [gang("j1", "a", "n1 n1")])).rejected == {}
    await shrinking


@pytest.mark.parametrize("writer", ["intake", "apply"])
async def test_a_renewal_waits_for_no_transaction_that_writes(muster: Database, writer: str) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 8}, ["j1"])
    async with muster.transaction() as tx:
        if writer == "intake":
            await check_term(tx, harness.term)
        else:
            await harness.enter(tx)
        async with muster.transaction() as renewing:
            await renewing.execute(text("SET LOCAL lock_timeout = '1ms'"))
            assert await renew(renewing, harness.term) is not None


async def test_a_successor_reads_what_the_last_term_was_writing(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])

    async def take_over() -> set[str]:
        async with muster.transaction() as electing:
            assert await elect(electing, "other") is not None
        async with muster.snapshot() as reading:
            return {found.uid for found in (await load_world(reading)).arrivals}

    async with muster.transaction() as tx:
        await harness.arrive_in(tx, "j2")
        async with muster.transaction() as other:
            await other.execute(text("UPDATE leases SET expires = clock_timestamp()"))
        successor = asyncio.create_task(take_over())
        await waits_for_a_lock(muster)
    assert await successor == {"j1", "j2"}


async def test_a_write_that_waits_for_an_election_is_refused(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    async with muster.transaction() as tx:
        await tx.execute(text("UPDATE leases SET expires = clock_timestamp()"))
    async with muster.transaction() as tx:
        assert await elect(tx, "other") is not None
        late = [asyncio.create_task(harness.arrive("j2")), asyncio.create_task(harness.queues(queue("b")))]
        await waits_for_a_lock(muster)
    for outcome in await asyncio.gather(*late, return_exceptions=True):
        assert isinstance(outcome, Fenced)
    async with muster.snapshot() as tx:
        assert {found.uid for found in (await load_world(tx)).arrivals} == {"j1"}
