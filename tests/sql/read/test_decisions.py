"""Decisions of all workloads: the newest first time, then those that were made since, and only what may be seen."""

from typing import Any

from sqlalchemy import update

from queues.read_api.bodies import DecisionBody
from queues.reason_codes import ReasonCode
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.read.decisions import DecisionQuestion, workload_decisions
from queues.sql.tables import closed_admissions, workloads
from queues.workload import QueueName
from tests.sql.ledger_harness import LedgerHarness, gang, key, queue


async def begin(muster: Database) -> LedgerHarness:
    return await LedgerHarness.begin(muster, [queue("a"), queue("b")], {"n1": 8}, ["j1", "j2", "j3"])


async def decide(harness: LedgerHarness, kind: str, name: str, queue: str, namespace: str = "ns") -> None:
    line = ledger.Decision(
        kind=kind,
        workload=key(name),
        namespace=namespace,
        name=name,
        queue=QueueName(queue),
        code=ReasonCode.PREEMPTED,
        numbers={"seats": 1},
    )
    async with harness.entered() as (tx, entry):
        await ledger.record_decisions(tx, entry, [line])


async def ask(muster: Database, limit: int = 100, **fields: Any) -> tuple[tuple[DecisionBody, ...], int]:
    async with muster.snapshot() as tx:
        return await workload_decisions(tx, DecisionQuestion(**{"since": 0, **fields}), limit=limit)


async def test_decisions_come_once_in_the_order_in_which_they_were_made(muster: Database) -> None:
    harness = await begin(muster)
    assert await ask(muster) == ((), 0)
    await decide(harness, "admit", "j1", "a")
    found, end = await ask(muster)
    assert [(one.name, one.what, one.queue) for one in found] == [("j1", "admit", "a")]
    assert await ask(muster, after=end) == ((), end)

    await decide(harness, "admit", "j2", "b")
    await decide(harness, "evict", "j1", "a")
    news, last = await ask(muster, after=end)
    assert [(one.name, one.what) for one in news] == [("j2", "admit"), ("j1", "evict")]
    first, middle = await ask(muster, 1, after=end)
    second, number = await ask(muster, 1, after=middle)
    assert ((*first, *second), number) == (news, last)


async def test_decisions_without_those_that_give_seats_back_are_as_many_as_asked_for(
    muster: Database,
) -> None:
    harness = await begin(muster)
    for what in ("admit", "evict", "free", "free"):
        await decide(harness, what, "j1", "a")
    found, _ = await ask(muster, 2, ends=False)
    assert [one.what for one in found] == ["admit", "evict"]


async def test_the_newest_are_told_of_a_queue_a_namespace_and_what_may_be_seen(muster: Database) -> None:
    harness = await begin(muster)
    for name, of, namespace in (("j1", "a", "ns"), ("j2", "b", "ns"), ("j3", "a", "other")):
        await decide(harness, "admit", name, of, namespace)
    kind = str(key("j1").kind)

    async def names(limit: int = 100, **fields: Any) -> list[str]:
        found, end = await ask(muster, limit, **fields)
        assert await ask(muster, after=end) == ((), end), "what was left out does not come later"
        return [one.name for one in found]

    assert await names(2) == ["j2", "j3"]
    assert await names(queues=[QueueName("a")]) == ["j1", "j3"]
    assert await names(namespace="ns") == ["j1", "j2"]
    assert await names(seen={kind: ["other"]}) == ["j3"]
    assert await names(seen={kind: None}) == ["j1", "j2", "j3"]
    assert await names(seen={"jobset": None}) == []
    assert await ask(muster, since=2**33) == ((), 0)


async def test_what_gave_its_seats_back_is_told_with_how_it_ended(muster: Database) -> None:
    harness = await begin(muster)

    async def free(
        name: str, result: str, code: ledger.DecisionCode = "ended", *, finished: bool = True
    ) -> str:
        """Admit, end and free once; what the last decision says."""
        (admission,) = (await harness.admit(gang(name, "a", "n1", takes=1))).accepted.values()
        await harness.free(admission, 0)
        line = ledger.Decision(
            kind="free",
            workload=key(name),
            namespace="ns",
            name=name,
            queue=QueueName("a"),
            code=code,
            admission=admission,
        )
        async with harness.entered() as (tx, entry):
            await ledger.record_decisions(tx, entry, [line])
            await tx.execute(
                update(workloads)
                .where(workloads.c.uid == key(name).uid)
                .values(result=result, finished=finished)
            )
        found, _ = await ask(muster)
        return found[-1].result

    assert await free("j1", "failed") == "failed"
    assert await free("j2", "") == "", "nobody knows"
    assert await free("j1", "succeeded") == "succeeded"
    found, _ = await ask(muster)
    assert [one.result for one in found] == ["given back", "", "succeeded"], "the first was not the end of j1"
    assert await free("j3", "", finished=False) == "given back", "it waits again"
    assert await free("j3", "deleted", "suspended") == "", "its code says it"

    async with muster.transaction() as tx:
        await tx.execute(update(closed_admissions).values(cause_code="Preempted"))
    found, _ = await ask(muster)
    assert [one.result for one in found] == ["evicted"] * 4 + [""]
    async with muster.transaction() as tx:
        await tx.execute(update(closed_admissions).values(cause_code="OnHold"))
    found, _ = await ask(muster)
    assert {one.result for one in found} == {"suspended", ""}
