"""Which workload of the ledger a name means, whatever came and went under it."""

from collections.abc import Mapping

import pytest
from sqlalchemy import text

from queues.dependencies import Arrived, PredecessorQuestion
from queues.kind_names import JOB, VOLCANO_JOB, KindName
from queues.sql.database import Database
from queues.sql.observed.rows import Description
from queues.sql.observed.workloads import arrive, depart
from queues.sql.predecessors import predecessors
from queues.workload import QueueName, Result, WorkloadKey
from tests.builders.explained_statements import LOOKED, explained
from tests.sql.ledger_harness import NOW, LedgerHarness


def key(uid: str, kind: KindName = JOB) -> WorkloadKey:
    return WorkloadKey(kind, uid)


async def came(
    harness: LedgerHarness, uid: str, *, created: int, kind: KindName = JOB, namespace: str = "ns"
) -> None:
    """A workload called train is stored."""
    row = Description(
        key=key(uid, kind), namespace=namespace, name="train", queue=QueueName("a"), created=created
    )
    async with harness.muster.transaction() as tx:
        await arrive(tx, harness.term, [row])


async def left(harness: LedgerHarness, ends: Mapping[str, Result]) -> None:
    async with harness.muster.transaction() as tx:
        await depart(tx, harness.term, {key(uid): end for uid, end in ends.items()}, NOW)


async def asked(
    muster: Database, *arrived: tuple[int, int | None], kind: KindName = JOB
) -> list[tuple[str, Result | None]]:
    """What a successor means by the name train that came then, by its second and number; ("", None): nothing."""
    questions = [
        PredecessorQuestion(key(f"successor-{index}"), Arrived(*each), "ns", kind, "train")
        for index, each in enumerate(arrived)
    ]
    async with muster.transaction() as tx:
        found = await predecessors(tx, questions)
    answers = (found.get(each) for each in questions)
    return [("", None) if each is None else (each.key.uid, each.result) for each in answers]


async def test_the_newest_before_counts_and_else_the_first_after(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    for number, uid in enumerate(("first", "second", "third"), 1):
        await came(harness, uid, created=NOW + 100 * number)
    await came(harness, "of-another-kind", created=NOW, kind=VOLCANO_JOB)
    await came(harness, "elsewhere", created=NOW, namespace="other")
    await left(harness, {"first": Result.SUCCEEDED, "second": Result.FAILED})

    new, made_before = (NOW + 1000, None), (NOW, 0)
    between, of_one_second = (NOW + 250, 0), (NOW + 300, 0)
    assert await asked(muster, new, made_before, between, of_one_second) == [
        *(("third", None), ("first", Result.SUCCEEDED)),
        *(("second", Result.FAILED), ("third", None)),
    ]
    assert await asked(muster, new, kind=VOLCANO_JOB) == [("of-another-kind", None)]
    assert await asked(muster, new, kind=KindName("jobset")) == [("", None)]
    assert await asked(muster) == []


async def test_a_smaller_number_is_before_whatever_the_clocks_said(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    await came(harness, "slow-clock", created=NOW + 100)
    async with muster.transaction() as tx:
        number = await tx.scalar(text("SELECT arrival FROM workloads"))
    assert await asked(muster, (NOW, number + 1), (NOW, number)) == [("slow-clock", None)] * 2
    await came(harness, "later", created=NOW + 200)
    assert await asked(muster, (NOW, number + 1)) == [("slow-clock", None)]


async def test_an_end_counts_before_the_object_is_gone_and_a_workload_never_means_itself(
    muster: Database,
) -> None:
    harness = await LedgerHarness.begin(muster)
    await came(harness, "successor-0", created=NOW)
    assert await asked(muster, (NOW, 1)) == [("", None)]
    await came(harness, "first", created=NOW)
    async with muster.transaction() as tx:
        await tx.execute(text("UPDATE workloads SET finished = true, result = 'failed' WHERE uid = 'first'"))
    assert await asked(muster, (NOW, None)) == [("first", Result.FAILED)]


async def test_a_question_reads_its_own_name_only(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connected = await explained(database, monkeypatch)
    try:
        names = [f"other-{number}" for number in range(2000)]
        harness = await LedgerHarness.begin(connected, workloads=names)
        await came(harness, "first", created=NOW)
        await left(harness, {"first": Result.SUCCEEDED})
        async with connected.transaction() as tx:
            await tx.execute(text("ANALYZE workloads"))
        LOOKED.clear()
        assert await asked(connected, (NOW, None)) == [("first", Result.SUCCEEDED)]
        assert sum(LOOKED.values()) < 40
    finally:
        await connected.close()
