"""A database knows which ledger it is, and how far it has come."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from queues.errors import Fenced
from queues.ledger_record import LedgerRecord
from queues.sql import leadership
from queues.sql.database import Database, migrate
from queues.sql.ledger_identity import SKIPPED, read_identity, renew_identity, replace_nonce


async def identity(database: Database) -> LedgerRecord:
    async with database.transaction() as tx:
        return await read_identity(tx)


async def next_admission(database: Database) -> int:
    async with database.transaction() as tx:
        return int(await tx.scalar(text("SELECT nextval(pg_get_serial_sequence('admissions', 'id'))")) or 0)


async def test_a_new_ledger_has_an_id_and_no_term(muster: Database) -> None:
    found = await identity(muster)
    assert (found.term, found.holder) == (0, "")
    assert found.ledger
    assert len({"", found.nonce, found.other_nonce}) == 3


async def test_a_ledger_has_come_to_the_term_of_its_last_election(muster: Database) -> None:
    before = await identity(muster)
    async with muster.transaction() as tx:
        term = await leadership.elect(tx, "me")
    assert term is not None
    assert await identity(muster) == replace(before, term=1, holder="me")


async def test_a_nonce_is_replaced_once_the_cluster_has_the_next_one_and_by_the_leader_only(
    muster: Database,
) -> None:
    async with muster.transaction() as tx:
        term = await leadership.elect(tx, "me")
    assert term is not None
    before = await identity(muster)
    for _ in range(2):  # the second time it is next no more
        async with muster.transaction() as tx:
            await replace_nonce(tx, term, before.other_nonce)
        after = await identity(muster)
        assert after.nonce == before.other_nonce
        assert after.other_nonce not in (before.nonce, before.other_nonce)
    with pytest.raises(Fenced):
        async with muster.transaction() as tx:
            await replace_nonce(tx, replace(term, number=2), after.other_nonce)


async def test_two_databases_are_two_ledgers(muster: Database) -> None:
    before = await identity(muster)
    await migrate(muster.dsn, "base")
    await migrate(muster.dsn)
    assert (await identity(muster)).ledger != before.ledger


async def test_a_ledger_of_its_own_gives_no_admission_an_id_that_a_copy_gave(muster: Database) -> None:
    before, first = await identity(muster), await next_admission(muster)
    async with muster.transaction() as tx:
        await renew_identity(tx)
    assert (await identity(muster)).ledger != before.ledger
    assert await next_admission(muster) > first + SKIPPED
