"""Space that is promised is kept until the promise is; evictions for others are counted."""

from queues.admissions import Claim, Setbacks
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.observed import workloads
from queues.sql.world import load_world
from queues.workload import AdmissionId, Result
from tests.sql.ledger_harness import NOW, LedgerHarness, eviction, gang, key, queue


def promise(name: str, *victims: int, until: int = NOW + 600) -> Claim:
    wanted = gang(name, "a", "n1 n2", takes=2)
    return Claim(
        workload=key(name),
        queue=wanted.queue,
        generation="7",
        seats=wanted.seats,
        victims=tuple(AdmissionId(victim) for victim in victims),
        until=until,
    )


async def claims(muster: Database) -> dict[str, Claim]:
    async with muster.snapshot() as tx:
        rows = (await load_world(tx)).claims
    return {row.workload.uid: row for row in rows}


async def test_a_claim_is_loaded_as_it_was_made_and_the_later_one_counts(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9, "n2": 9}, ["j1", "j2"])
    async with harness.entered() as (tx, entry):
        await ledger.claim(tx, entry, [promise("j1", 1, 2), promise("j2")])
        await ledger.claim(tx, entry, [promise("j1", 3, until=NOW + 60)])
    assert await claims(muster) == {"j1": promise("j1", 3, until=NOW + 60), "j2": promise("j2")}

    async with harness.entered() as (tx, entry):
        await ledger.drop_claims(tx, entry, [key("j1")])
    assert list(await claims(muster)) == ["j2"]
    async with muster.transaction() as tx:
        await workloads.depart(tx, harness.term, {key("j2"): Result.UNKNOWN}, NOW)
    assert await claims(muster) == {}


async def test_who_goes_for_others_is_counted_once_however_much_it_loses(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 9}, ["j1", "j2"])
    first = (await harness.admit(gang("j1", "a", "n1"))).accepted.values()
    second = (await harness.admit(gang("j2", "a", "n1"))).accepted.values()
    async with muster.transaction() as tx:
        entry = await harness.enter(tx)
        away = [eviction(id_, beneficiary=key("j9")) for id_ in first]
        await ledger.evict(tx, entry, [*away, *(eviction(id_) for id_ in second)])
    async with muster.snapshot() as tx:
        world = await load_world(tx)
    assert world.setbacks == {key("j1"): Setbacks(not_before=0, rollbacks=0, evictions=1, waiting_since=NOW)}
