"""What traces of admissions are made of is in the ledger and the decision log, whoever leads when it is asked."""

import json

from sqlalchemy import text

from queues.admissions import StageTimes
from queues.resources import GPU, Resources
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.observed import workloads
from queues.sql.read.over_time.traced import TracedAdmission, traced_admissions
from queues.workload import AdmissionId, Result
from tests.sql.ledger_harness import NOW, LedgerHarness, eviction, gang, key, queue

TRACE = {"seats": 2, "trace": "ab" * 16, "decidedAt": NOW + 0.5}


async def begin(muster: Database, numbers: dict[str, object] = TRACE) -> tuple[LedgerHarness, AdmissionId]:
    """A gang of two pods that was admitted."""
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j"])
    return harness, await admit(harness, numbers)


async def admit(
    harness: LedgerHarness, numbers: dict[str, object], code: str = "gang", *, first: int = 0
) -> AdmissionId:
    (id_,) = (await harness.admit(gang("j", "a", "n1 n1", first=first))).accepted.values()
    line = ledger.Decision(
        kind="admit",
        workload=key("j"),
        namespace="ns",
        name="j",
        queue=queue("a").name,
        code=code,  # type: ignore[arg-type]
        admission=id_,
        numbers=numbers,
    )
    async with harness.muster.transaction() as tx:
        entry = await harness.enter(tx)
        await ledger.record_decisions(tx, entry, [line])
    harness.seq = entry.seq
    return id_


async def start(harness: LedgerHarness, id_: AdmissionId, times: StageTimes) -> None:
    async with harness.muster.transaction() as tx:
        entry = await harness.enter(tx)
        await ledger.start(tx, entry, [id_], {id_: times})
        await ledger.note_ready(tx, entry, [id_], {id_: times})
    harness.seq = entry.seq


async def ask(muster: Database, *ids: AdmissionId) -> tuple[TracedAdmission, ...]:
    async with muster.snapshot() as tx:
        return await traced_admissions(tx, ids)


async def test_an_admission_is_told_with_the_times_of_its_stages_and_its_decision(muster: Database) -> None:
    harness, id_ = await begin(muster)
    await start(harness, id_, StageTimes(released=NOW + 1, bound=NOW + 1.5, running=NOW + 4))
    (one,) = await ask(muster, id_)
    assert (one.id, one.workload, one.namespace, one.name, one.queue) == (id_, key("j"), "ns", "j", "a")
    assert (one.released, one.bound, one.running) == (NOW + 1, NOW + 1.5, NOW + 4)
    assert one.seats == 2
    assert one.numbers == TRACE
    assert one.term == harness.term.number
    assert one.turn == harness.seq - 1
    assert one.seen is not None
    assert (one.waits_since, one.evicted, one.closed, one.cause, one.is_part) == (None, None, None, "", False)


async def test_it_is_told_also_when_it_is_closed_and_its_object_is_gone(muster: Database) -> None:
    harness, id_ = await begin(muster)
    async with muster.transaction() as tx:
        entry = await harness.enter(tx)
        await ledger.note_stages(tx, entry, {id_: StageTimes(released=NOW + 1)})
        await ledger.evict(tx, entry, [eviction(id_)])
    harness.seq = entry.seq
    await harness.free(id_, 0, 1)
    async with muster.transaction() as tx:
        await workloads.depart(tx, harness.term, {key("j"): Result.UNKNOWN}, NOW + 60)
    (one,) = await ask(muster, id_)
    assert one.released == NOW + 1
    assert one.evicted is not None
    assert one.closed is not None
    assert one.cause == eviction(id_).code
    assert one.seen is not None


async def test_the_next_admission_waits_since_the_one_before_was_closed(muster: Database) -> None:
    harness, first = await begin(muster)
    await harness.free(first, 0, 1)
    second = await admit(harness, TRACE)
    one, two = await ask(muster, first, second)
    assert (one.waits_since, two.waits_since) == (None, one.closed)


async def test_a_part_of_a_gang_is_told_as_one(muster: Database) -> None:
    harness, first = await begin(muster)
    part = await admit(harness, TRACE, "elastic", first=2)
    assert [each.is_part for each in await ask(muster, first, part)] == [False, True]


async def test_what_was_admitted_while_traces_were_not_told_has_none(muster: Database) -> None:
    harness, without = await begin(muster, {"seats": 2})
    (unlogged,) = (await harness.admit(gang("j", "a", "n1", first=2))).accepted.values()
    assert await ask(muster, without, unlogged, AdmissionId(12345)) == ()
    assert await ask(muster) == ()


async def test_devices_are_counted_and_not_each_seat(muster: Database) -> None:
    _, id_ = await begin(muster)
    shapes = [dict(Resources({GPU: 8000, "cpu": 1000})), dict(Resources({GPU: 500}))]
    async with muster.transaction() as tx:
        await tx.execute(
            text("UPDATE admissions SET shapes = CAST(:shapes AS jsonb), shape_of = '{0,1}'"),
            {"shapes": json.dumps(shapes)},
        )
    (one,) = await ask(muster, id_)
    assert one.devices == 8.5
