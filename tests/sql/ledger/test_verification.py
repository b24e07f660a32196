"""Balances are what the admissions hold; whatever else is stored is found and put right."""

import asyncio

import pytest
from sqlalchemy import text

from admission.cli.command_line import finish
from admission.cli.muster import muster as muster_command
from queues.errors import Fenced, InvalidDocument
from queues.sql.database import Database
from queues.sql.ledger.verification import Difference, repair, verify
from tests.sql.ledger_harness import LedgerHarness, gang, queue


async def _harness(muster: Database) -> LedgerHarness:
    """Two queues of a team that hold 6 of 16 GPUs; one seat of them has ended."""
    harness = await LedgerHarness.begin(
        muster,
        [queue("team"), queue("a", "team", guarantee=2), queue("b", "team", guarantee=3)],
        {"n1": 8, "n2": 8},
        ["j1", "j2"],
    )
    verdict = await harness.admit(gang("j1", "a", "n1 n1 n2", takes=2), gang("j2", "b", "n2"))
    await harness.free(verdict.accepted[0], 1)
    return harness


async def _verify(muster: Database) -> tuple[Difference, ...]:
    async with muster.snapshot() as tx:
        return await verify(tx)


async def _repair(muster: Database) -> tuple[Difference, ...]:
    async with muster.transaction() as tx:
        return await repair(tx)


async def _execute(muster: Database, statement: str) -> None:
    async with muster.transaction() as tx:
        await tx.execute(text(statement))


async def test_what_the_ledger_writes_is_what_its_admissions_hold(muster: Database) -> None:
    await _harness(muster)
    assert await _verify(muster) == ()


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (
            "UPDATE queue_balances SET own = own + 5, used = used + 5, counted = counted + 5 WHERE queue = 'a'",
            {("queue a", "own", 9, 4), ("queue a", "used", 9, 4), ("queue a", "counted", 9, 4)},
        ),
        (
            "DELETE FROM queue_balances WHERE queue = 'team'",
            {("queue team", "used", 0, 5), ("queue team", "counted", 0, 7)},
        ),
        ("UPDATE node_balances SET used = 0 WHERE node = 'n2'", {("node n2", "used", 0, 3)}),
        (
            "INSERT INTO node_balances (node, resource, used) VALUES ('gone', 'nvidia.com/gpu', 4)",
            {("node gone", "used", 4, 0)},
        ),
        ("UPDATE capacity SET amount = 1", {("capacity of root", "amount", 1, 16)}),
    ],
)
async def test_a_balance_that_is_wrong_is_told_with_both_amounts_and_put_right(
    muster: Database, damage: str, found: set[tuple[str, str, int, int]]
) -> None:
    harness = await _harness(muster)
    before = await harness.balances(), await harness.on_nodes()
    await _execute(muster, damage)

    wrong = await _verify(muster)

    assert {(each.of, each.column, each.stored, each.expected) for each in wrong} == found
    assert await _repair(muster) == wrong
    assert await _verify(muster) == ()
    assert (await harness.balances(), await harness.on_nodes()) == before


async def test_a_leader_that_decided_on_wrong_balances_is_refused_and_reads_again(muster: Database) -> None:
    harness = await _harness(muster)
    await _execute(muster, "UPDATE node_balances SET used = 8")
    await _repair(muster)
    with pytest.raises(Fenced):
        await harness.admit(gang("j3", "a", "n1"))


async def test_a_repair_of_what_is_right_disturbs_no_leader(muster: Database) -> None:
    harness = await _harness(muster)
    assert await _repair(muster) == ()
    await harness.arrive("j3")
    assert (await harness.admit(gang("j3", "a", "n1"))).rejected == {}


def _run(*words: str) -> int:
    return finish(muster_command, "muster", ["ledger", *words])


async def test_the_commands_name_what_is_wrong_and_end_with_a_code(
    muster: Database, database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await _harness(muster)
    await _execute(muster, "UPDATE node_balances SET used = 0 WHERE node = 'n2'")
    monkeypatch.setenv("MUSTER_DSN", database)

    assert await asyncio.to_thread(_run, "verify") == 1
    assert "node n2: used nvidia.com/gpu is 0, expected 3" in capsys.readouterr().out
    assert await asyncio.to_thread(_run, "repair") == 0
    assert "1 balance put right." in capsys.readouterr().out
    assert await asyncio.to_thread(_run, "verify") == 0


async def test_a_database_without_a_ledger_says_so(muster: Database) -> None:
    with pytest.raises(InvalidDocument, match="no leader has ever written"):
        await _repair(muster)
