"""How often the pods of a workload did not get ready is counted, and begins anew once they did or it is another one."""

from dataclasses import replace

from queues.admissions import Setbacks, Unready
from queues.reason_codes import ReasonCode
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.world import load_world
from queues.workload import AdmissionId
from tests.sql.ledger_harness import NOW, LedgerHarness, eviction, gang, key, queue


async def goes_back(
    harness: LedgerHarness, database: Database, revision: str | None, message: str = ""
) -> None:
    """The workload is admitted, and goes back: for pods that are not ready, or (no revision) for another cause."""
    (id_,) = (await harness.admit(gang("j", "a", "n1"))).accepted.values()
    plain = eviction(id_, code=ReasonCode.NOT_READY, not_before=NOW + 10)
    async with harness.entered() as (tx, entry):
        await ledger.evict(tx, entry, [replace(plain, revision=revision, message=message)])
    await harness.free(id_, 0)


async def setbacks(database: Database) -> Setbacks:
    async with database.snapshot() as tx:
        return (await load_world(tx)).setbacks[key("j")]


async def got_ready(harness: LedgerHarness, database: Database, *ids: AdmissionId) -> None:
    async with harness.entered() as (tx, entry):
        await ledger.note_ready(tx, entry, ids)


async def test_failures_are_counted_for_one_revision_of_the_object(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j"])
    await goes_back(harness, muster, "r1", "first")
    await goes_back(harness, muster, "r1", "second")
    assert (await setbacks(muster)).unready == Unready(revision="r1", times=2, message="second")
    await goes_back(harness, muster, None, "refused")
    assert (await setbacks(muster)).unready == Unready(revision="r1", times=2, message="second")
    await goes_back(harness, muster, "r2", "third")
    counted = await setbacks(muster)
    assert counted == Setbacks(
        not_before=NOW + 10, rollbacks=4, unready=Unready(revision="r2", message="third")
    )


async def test_a_gang_that_got_ready_begins_anew(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j", "k"])
    await goes_back(harness, muster, "r1")
    (id_,) = (await harness.admit(gang("j", "a", "n1"))).accepted.values()
    (other,) = (await harness.admit(gang("k", "a", "n1"))).accepted.values()
    await got_ready(harness, muster, id_)
    assert await setbacks(muster) == Setbacks(not_before=NOW + 10)
    async with muster.snapshot() as tx:
        world = await load_world(tx)
    assert {each.id: each.ready for each in world.admissions} == {id_: True, other: False}
