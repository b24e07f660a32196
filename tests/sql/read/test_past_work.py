"""The work of the last days, as simulations read it from the ledger."""

from datetime import UTC, datetime

from sqlalchemy import text

from queues.recorded.past_work import PastPods, PastStay
from queues.resources import Resources
from queues.sql.database import Database
from queues.sql.read.look_back.past_work import count_past_work, past_work
from tests.sql.ledger_harness import GPU, NOW, LedgerHarness, eviction, gang, key, queue

SINCE = datetime.fromtimestamp(NOW + 50, UTC)


async def test_work_that_ended_in_the_days_or_goes_on_is_read_with_all_its_stays(muster: Database) -> None:
    names = ["old", "ended", "evicted", "runs", "waits"]
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 90}, names)
    ids = {}
    for name in names[:4]:
        ids[name] = next(iter((await harness.admit(gang(name, "a", "n1 n1", takes=3))).accepted.values()))
    await harness.free(ids["old"], 0, 1, at=NOW + 40)
    await harness.free(ids["ended"], 0, 1, at=NOW + 60)
    await harness.evict(eviction(ids["evicted"]))
    await harness.free(ids["evicted"], 0, 1, at=NOW + 70)
    await harness.admit(gang("evicted", "a", "n1", takes=2), at=NOW + 80)
    async with muster.transaction() as tx:
        seen = {"at": datetime.fromtimestamp(NOW - 100, UTC)}
        await tx.execute(text("UPDATE workloads SET minimum = 2, seen_at = :at"), seen)
        await tx.execute(
            text("UPDATE workloads SET seen_at = NULL, created = :at WHERE name = 'runs'"), {"at": NOW - 7}
        )

    async with muster.snapshot() as tx:
        found = {each.name: each for each in await past_work(tx, SINCE)}
        count = await count_past_work(tx, SINCE)

    assert count == len(found) == 3
    assert {name: each.stays for name, each in found.items()} == {
        "ended": (PastStay(NOW, NOW + 60),),
        "evicted": (PastStay(NOW, NOW, evicted=True), PastStay(NOW + 80, None)),
        "runs": (PastStay(NOW, None),),
    }
    assert {each.arrived - NOW for each in found.values()} == {-100, -7}
    ended = found["ended"]
    assert ended.pods == (PastPods(pod_set="worker", takes=Resources({GPU: 3}), count=2),)
    assert (ended.key, ended.queue, ended.namespace, ended.minimum) == (key("ended"), "a", "ns", 2)


async def test_work_of_which_nothing_else_is_stored_came_when_it_was_admitted(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 90}, ["gone"])
    await harness.admit(gang("gone", "a", "n1"))
    async with muster.transaction() as tx:
        await tx.execute(text("DELETE FROM workloads"))

    async with muster.snapshot() as tx:
        (found,) = await past_work(tx, SINCE)

    assert (found.arrived, found.arrival, found.minimum) == (NOW, 0, 0)
