"""What was used in the past is read from the postings, and is the same as having followed them one by one."""

from sqlalchemy import text

from queues.plan import Adopt
from queues.quota.accounts import Account
from queues.quota.decayed_usage import UsageHolder
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.read.past_use import past_use
from queues.workload import NO_FLAVOR, FlavorName
from tests.sql.followed_usage import HALF_LIFE, A, B, Followed, seat, stage_of, wanted
from tests.sql.ledger_harness import GPU, GPUS, NOW


async def test_pods_that_were_adopted_count_for_their_user(muster: Database) -> None:
    harness = await stage_of(muster, "j1")
    row = wanted("j1", A, (seat({GPU: 2}, flavor="h100"),))
    async with muster.transaction() as tx:
        entry = await ledger.fence(tx, harness.term, ledger_seq=harness.seq, now=NOW)
        await ledger.adopt(tx, entry, [Adopt(admit=row, pods={"p0": 0})], {row.workload: "ann"})

    async with muster.transaction() as tx:
        rows = await past_use(tx, {A: frozenset({HALF_LIFE})}, NOW)

    assert rows.keys() == {UsageHolder(A, "ann", HALF_LIFE)}
    (sums,) = rows.values()
    assert sums.keys() == {GPUS, Account(FlavorName("h100"), GPU)}
    assert sums[GPUS] == sums[Account(FlavorName("h100"), GPU)]


async def test_queues_without_a_half_life_are_not_read(muster: Database) -> None:
    harness = await stage_of(muster, "j1", "j2")
    followed = Followed(harness, {A: frozenset({HALF_LIFE})}, NOW)
    await followed.take("j1", A, "ann", (seat({GPU: 2}),), NOW)
    await followed.take("j2", B, "ann", (seat({GPU: 2}),), NOW)

    assert (await followed.read(NOW)).keys() == {UsageHolder(A, "ann", HALF_LIFE)}
    assert await Followed(harness, {}, NOW).read(NOW) == {}


async def test_postings_from_before_users_were_noted_count_for_the_queue(muster: Database) -> None:
    harness = await stage_of(muster, "j1")
    followed = Followed(harness, {A: frozenset({HALF_LIFE})}, NOW)
    await followed.take("j1", A, "ann", (seat({"cpu": 5}),), NOW)
    async with muster.transaction() as tx:
        await tx.execute(text("UPDATE postings SET username = DEFAULT"))

    rows = await followed.read(NOW)

    assert rows.keys() == {UsageHolder(A, "", HALF_LIFE)}
    assert rows[UsageHolder(A, "", HALF_LIFE)].keys() == {Account(NO_FLAVOR, "cpu")}
