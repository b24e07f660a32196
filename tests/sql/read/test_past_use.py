"""What was used in the past is read from the postings, and is the same as having followed them one by one."""

import itertools
import random
from collections.abc import Callable

import pytest
from sqlalchemy import text

from queues.plan import Adopt
from queues.quota.accounts import Account
from queues.quota.decayed_usage import NO_PAST, UsageHolder, oldest_block
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.read import past_use as bygone
from queues.sql.read.past_use import UsageReader, past_use
from queues.workload import NO_FLAVOR, FlavorName
from tests.sql.followed_usage import HALF_LIFE, A, B, Followed, seat, stage_of, wanted
from tests.sql.ledger_harness import GPU, GPUS, NOW


async def test_a_replica_that_is_asked_now_and_then_knows_what_a_new_leader_would_read(
    muster: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bygone, "PAGE_ROWS", 3)
    chance = random.Random(11)
    names = [f"j{number}" for number in range(24)]
    fading = {A: frozenset({HALF_LIFE, 3601}), B: frozenset({HALF_LIFE})}
    harness = await stage_of(muster, *names)
    followed, gathering = Followed(harness, fading, NOW), UsageReader()
    now, told = NOW, 0
    for name in names:
        now += chance.randrange(20_000)
        into, user = chance.choice([A, B]), chance.choice(["ann", "bob", ""])
        id_ = await followed.take(name, into, user, (seat({"cpu": chance.randrange(10**9)}),), now)
        if chance.random() < 0.5:
            await followed.give_back(id_, frozenset({0}), now + 1)
        if chance.random() < 0.5:
            continue
        steps = chance.randrange(12)
        async with harness.muster.snapshot() as tx:
            past = await gathering.past_use(tx, fading, now, enough=stop_after(steps))
        if past is None:
            continue
        told += 1
        assert past.rows == of_all_users(await followed.read(now), now)
    assert told > 1

    async with harness.muster.snapshot() as tx:
        assert await gathering.past_use(tx, {}, now, enough=lambda: True) is NO_PAST
        again = await gathering.past_use(tx, {A: frozenset({60})}, now, enough=lambda: False)
    assert again is not None
    assert again.rows.keys() <= {UsageHolder(A, "", 60)}


def stop_after(pages: int) -> Callable[[], bool]:
    turns = itertools.count()
    return lambda: next(turns) >= pages


def of_all_users(
    rows: dict[UsageHolder, dict[Account, dict[int, int]]], now: int
) -> dict[UsageHolder, dict[Account, dict[int, int]]]:
    """Sums of all users together, where they are not 0 and not forgotten."""
    together: dict[UsageHolder, dict[Account, dict[int, int]]] = {}
    for holder, sums in rows.items():
        for account, blocks in sums.items():
            into = together.setdefault(holder._replace(user=""), {}).setdefault(account, {})
            for block, units in blocks.items():
                if block >= oldest_block(now, holder.half_life):
                    into[block] = into.get(block, 0) + units
    return {
        holder: {
            account: {block: units for block, units in blocks.items() if units}
            for account, blocks in sums.items()
        }
        for holder, sums in together.items()
    }


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
