"""The stages of a workload: stored with what is written anyway, and told after its object is gone too."""

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import text

from admission.web.sql_reader import SqlReader
from queues.admissions import StageTimes
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.observed import workloads
from queues.workload import AdmissionId, Result
from tests.sql.ledger_harness import NOW, LedgerHarness, eviction, gang, key, queue


async def begin(muster: Database) -> tuple[LedgerHarness, AdmissionId, float]:
    """A gang of two pods that was admitted, and the time of the database."""
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j"])
    (id_,) = (await harness.admit(gang("j", "a", "n1 n1"))).accepted.values()
    async with muster.snapshot() as tx:
        now = (await tx.scalar(text("SELECT extract(epoch FROM clock_timestamp())::float8"))) or 0.0
    return harness, id_, now


async def told(muster: Database) -> list[tuple[str, float | None]]:
    (one,) = await SqlReader(muster).explain(namespace="ns", name="j", kind=None)
    return [(each.stage, each.after_seconds) for each in one.stages]


async def start(
    harness: LedgerHarness, id_: AdmissionId, stages: Mapping[AdmissionId, StageTimes], *, ready: bool = False
) -> None:
    async with harness.entered() as (tx, entry):
        if ready:
            await ledger.note_ready(tx, entry, [id_], stages)
        else:
            await ledger.start(tx, entry, [id_], stages)


async def test_a_stage_is_told_as_soon_as_it_is_stored(muster: Database) -> None:
    harness, id_, now = await begin(muster)
    assert [stage for stage, _ in await told(muster)] == ["seen", "admitted"]

    await start(harness, id_, {id_: StageTimes(released=now + 1, bound=now + 1.5)})
    await start(harness, id_, {id_: StageTimes(running=now + 4)}, ready=True)

    stages = await told(muster)
    assert [stage for stage, _ in stages] == ["seen", "admitted", "released", "bound", "running"]
    assert stages[3:] == [("bound", 0.5), ("running", 2.5)]


async def test_what_was_stored_first_stands(muster: Database) -> None:
    harness, id_, now = await begin(muster)
    await start(harness, id_, {id_: StageTimes(released=now + 1, bound=now + 2)})
    await start(harness, id_, {id_: StageTimes(released=now + 9, bound=now + 9, running=now + 3)}, ready=True)

    assert (await told(muster))[3:] == [("bound", 1.0), ("running", 1.0)]


async def test_a_gang_that_goes_back_before_it_is_bound_keeps_the_time_of_its_release(
    muster: Database,
) -> None:
    harness, id_, now = await begin(muster)
    async with harness.entered() as (tx, entry):
        await ledger.note_stages(tx, entry, {id_: StageTimes(released=now + 1)})
        await ledger.evict(tx, entry, [eviction(id_)])

    assert [stage for stage, _ in await told(muster)] == ["seen", "admitted", "released", "evicted"]


async def test_every_admission_has_its_own_stages_also_when_the_object_is_gone(muster: Database) -> None:
    harness, first, now = await begin(muster)
    await start(harness, first, {first: StageTimes(released=now + 1, bound=now + 2)})
    await harness.free(first, 0, 1)
    (second,) = (await harness.admit(gang("j", "a", "n1 n1"))).accepted.values()
    await start(harness, second, {second: StageTimes(released=now + 9, bound=now + 10)})
    await harness.free(second, 0, 1)
    async with muster.transaction() as tx:
        await workloads.depart(tx, harness.term, {key("j"): Result.UNKNOWN}, NOW + 60)

    (one,) = await SqlReader(muster).explain(namespace="ns", name="j", kind=None)
    assert one.gone
    of_admission = ["admitted", "released", "bound", "closed"]
    assert [(each.admission, each.stage) for each in one.stages] == [
        (None, "seen"),
        *((first, stage) for stage in of_admission),
        *((second, stage) for stage in of_admission),
        (None, "ended"),
    ]


async def test_what_joins_a_gang_that_runs_has_not_waited_since_the_gang_came(muster: Database) -> None:
    """Nor since an earlier part of it was given back."""
    harness, first, _ = await begin(muster)
    part = replace(gang("j", "a", "n1", first=2), elastic=True)
    (second,) = (await harness.admit(part, at=NOW + 60)).accepted.values()
    await harness.free(second, 0, at=NOW + 90)
    (third,) = (await harness.admit(part, at=NOW + 120)).accepted.values()
    async with muster.transaction() as tx:
        await tx.execute(text("UPDATE workloads SET created = 1"))

    (one,) = await SqlReader(muster).explain(namespace="ns", name="j", kind=None)
    admitted = [(each.admission, each.after_seconds) for each in one.stages if each.stage == "admitted"]
    assert [number for number, _ in admitted] == [first, second, third]
    assert [seconds is not None for _, seconds in admitted] == [True, False, False]
    assert [each.id for each in one.admissions] == [third, second, first]
