"""What forecasts learn from closed admissions."""

from dataclasses import replace

from sqlalchemy import text

from queues.resources import Resources
from queues.sql.database import Database
from queues.sql.history.ended_runs import ended_runs
from queues.sql.observed.workloads import depart
from queues.workload import Result
from tests.sql.ledger_harness import GPU, NOW, LedgerHarness, eviction, gang, key, queue


async def test_the_last_closed_admissions_tell_how_long_they_ran(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 90}, ["j1", "j2", "j3", "j4", "j5"])
    ids = {
        name: next(iter((await harness.admit(gang(name, "a", "n1"))).accepted.values()))
        for name in ("j1", "j2", "j3", "j4", "j5")
    }
    async with muster.transaction() as tx:
        await tx.execute(
            text("UPDATE admissions SET started = true, username = 'ann' WHERE id <> :id"), {"id": ids["j4"]}
        )
    await harness.evict(eviction(ids["j3"]))
    seats = {name: len(await _seats(muster, id_)) for name, id_ in ids.items()}
    for seconds, name in ((100, "j1"), (250, "j2"), (900, "j3"), (50, "j4")):
        await harness.free(ids[name], *range(seats[name]), at=NOW + seconds)

    async with muster.transaction() as tx:
        # The object of j1 is gone, that of j3 was never described.
        await tx.execute(text("UPDATE workloads SET image = uid || '-image' WHERE uid IN ('j1', 'j2')"))
        assert await depart(tx, harness.term, {key("j1"): Result.UNKNOWN}, NOW) == {key("j1")}

    async with muster.snapshot() as tx:
        found = await ended_runs(tx, 10)
        last = await ended_runs(tx, 2)

    assert [(run.seconds, run.evicted) for run in found] == [(100, False), (250, False), (0, True)]
    assert last == found[1:]
    assert {(run.user, run.queue) for run in found} == {("ann", "a")}
    assert [run.image for run in found] == ["j1-image", "j2-image", ""]
    assert all(run.pods[0][0].get(GPU) for run in found)
    assert sum(count for _, count in found[0].pods) == seats["j1"]
    assert isinstance(found[0].pods[0][0], Resources)


async def test_a_gang_and_its_elastic_parts_are_one_run(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 90}, ["j1"])
    parts = [replace(gang("j1", "a", "n1", first=first), elastic=True) for first in (2, 3)]
    ids = list((await harness.admit(gang("j1", "a", "n1 n1"), *parts)).accepted.values())
    async with muster.transaction() as tx:
        await tx.execute(text("UPDATE admissions SET started = true"))
    await harness.evict(eviction(ids[-1]))
    await harness.free(ids[-1], 0, at=NOW + 10)
    await harness.free(ids[1], 0, at=NOW + 100)
    await harness.free(ids[0], 0, 1, at=NOW + 100)

    async with muster.snapshot() as tx:
        (run,) = await ended_runs(tx, 10)

    assert (run.seconds, run.evicted) == (100, False)
    assert [count for _, count in run.pods] == [4]


async def _seats(muster: Database, id_: int) -> list[str]:
    async with muster.transaction() as tx:
        return list(await tx.scalar(text("SELECT pod_sets FROM admissions WHERE id = :id"), {"id": id_}))
