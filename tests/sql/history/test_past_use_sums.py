"""Past use that is summed up is the same, to the last digit, as past use that was followed posting by posting."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from queues.errors import Fenced
from queues.quota.accounts import Account
from queues.quota.decayed_usage import HORIZON, UsageHolder
from queues.sql.database import Database
from queues.sql.history.partitions import ensure_partitions
from queues.sql.history.past_use import forget, is_summed_up, sum_up
from queues.sql.history.retention import Closing, drop, expired
from queues.sql.leadership import elect
from queues.sql.read import past_use as reading
from queues.sql.read.past_use import far_behind
from queues.workload import QueueName
from tests.sql.followed_usage import HALF_LIFE, A, B, Followed, seat, stage_of
from tests.sql.ledger_harness import NOW

WEEK = timedelta(weeks=1)
BOTH = frozenset({HALF_LIFE, 3601})


async def summed_up(followed: Followed, half_life: int, now: int, *, rows: int = 1000) -> None:
    """All postings, in steps of so many."""
    more = True
    while more:
        async with followed.harness.muster.transaction() as tx:
            more = await sum_up(tx, followed.harness.term, half_life, now, rows=rows)


async def drop_postings(followed: Followed, now: int, half_lives: frozenset[int]) -> int:
    """Drop what is older than a week, as far as it is summed up; how many partitions."""
    harness = followed.harness
    async with harness.muster.transaction() as tx:
        old = await expired(tx, "postings", datetime.fromtimestamp(now, UTC) - WEEK)
    dropped = 0
    for part in old:
        closing = Closing(part)
        async with harness.muster.transaction() as tx:
            while await closing.add_page(tx):
                pass
            if await is_summed_up(tx, half_lives, part.name, part.ends):
                await drop(tx, harness.term, "postings", part, closing.held())
                dropped += 1
    return dropped


@pytest.mark.parametrize(("seed", "page"), [(0, 3), (1, 3), (2, reading.PAGE_ROWS)])
async def test_whatever_was_summed_up_and_dropped_a_new_leader_knows_the_same(
    muster: Database, seed: int, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PAGE_ROWS", page)
    chance = random.Random(seed)
    names = [f"j{number}" for number in range(30)]
    harness = await stage_of(muster, *names)
    async with muster.transaction() as tx:
        await ensure_partitions(
            tx, harness.term, "postings", datetime.fromtimestamp(NOW, UTC).date(), weeks=9
        )
    followed = Followed(harness, {A: BOTH, B: frozenset({HALF_LIFE})}, NOW)
    now, ids, dropped = NOW, [], 0
    for name in names:
        now += chance.randrange(200_000)
        takes = {"cpu": chance.randrange(10**9), "memory": chance.randrange(10**15)}
        seats = tuple(seat(takes, ordinal, chance.choice(["", "h100"])) for ordinal in range(2))
        into, user = chance.choice([A, B]), chance.choice(["ann", "bob", ""])
        ids.append(await followed.take(name, into, user, seats, now))
        await followed.give_back(chance.choice(ids), frozenset(chance.sample(range(2), 1)), now + 1)
        if chance.random() < 0.5:
            async with muster.transaction() as tx:
                await sum_up(
                    tx, harness.term, chance.choice([HALF_LIFE, 3601]), now + 1, rows=chance.randrange(1, 5)
                )
        if chance.random() < 0.2:
            for half_life in BOTH:
                await summed_up(followed, half_life, now + 1, rows=5)
            dropped += await drop_postings(followed, now, BOTH)
            async with muster.transaction() as tx:
                await forget(tx, harness.term, BOTH, now, rows=1000)

        expected = followed.memories.freeze(now + 1).rows
        assert await followed.read(now + 1) == expected
        async with muster.snapshot() as tx:
            told = await reading.past_use(tx, followed.half_lives, now + 1, by_user=False)
        assert of_all_users(told) == of_all_users(expected)
    assert dropped > 1
    assert await followed.read(now + (HORIZON + 1) * HALF_LIFE) == {}


def of_all_users(
    rows: Mapping[UsageHolder, Mapping[Account, Mapping[int, int]]],
) -> Counter[tuple[QueueName, int, Account, int]]:
    """Sums of all users together, those that are not 0."""
    found: Counter[tuple[QueueName, int, Account, int]] = Counter()
    for holder, sums in rows.items():
        for account, blocks in sums.items():
            for block, units in blocks.items():
                found[holder.queue, holder.half_life, account, block] += units
    return Counter({key: units for key, units in found.items() if units})


async def test_two_leaders_that_sum_up_at_once_count_nothing_twice(muster: Database) -> None:
    names = [f"j{number}" for number in range(12)]
    harness = await stage_of(muster, *names)
    followed = Followed(harness, {A: frozenset({HALF_LIFE})}, NOW)
    for name in names:
        await followed.take(name, A, "ann", (seat({"cpu": 7}),), NOW)

    await asyncio.gather(*(summed_up(followed, HALF_LIFE, NOW, rows=1) for _ in range(3)))

    assert await followed.read(NOW) == followed.memories.freeze(NOW).rows
    async with muster.transaction() as tx:
        future = datetime.fromtimestamp(NOW + 1, UTC)
        assert await is_summed_up(tx, [HALF_LIFE], "postings_default", future)
        assert not await is_summed_up(tx, [HALF_LIFE, 60], "postings_default", future)


async def test_a_deposed_leader_sums_up_nothing(muster: Database) -> None:
    harness = await stage_of(muster, "j1")
    followed = Followed(harness, {A: frozenset({HALF_LIFE})}, NOW)
    await followed.take("j1", A, "ann", (seat({"cpu": 7}),), NOW)
    async with muster.transaction() as tx:
        await tx.execute(text("UPDATE leases SET expires = clock_timestamp()"))
        assert await elect(tx, "another", 600.0) is not None
    with pytest.raises(Fenced):
        await summed_up(followed, HALF_LIFE, NOW)
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM past_use_sums")) == 0


async def test_a_half_life_that_comes_back_begins_again(muster: Database) -> None:
    names = [f"j{number}" for number in range(6)]
    harness = await stage_of(muster, *names)
    followed = Followed(harness, {A: frozenset({HALF_LIFE})}, NOW)
    for number, name in enumerate(names):
        await followed.take(name, A, f"user{number}", (seat({"cpu": 7}),), NOW)
    await summed_up(followed, HALF_LIFE, NOW)
    async with muster.transaction() as tx:
        # Killed when two of six sums are gone.
        assert await forget(tx, harness.term, [], NOW, rows=2)

    expected = followed.memories.freeze(NOW).rows
    assert await followed.read(NOW) == expected
    await summed_up(followed, HALF_LIFE, NOW, rows=2)
    assert await followed.read(NOW) == expected
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM past_use_sums")) == 6


async def test_a_queue_that_gets_a_half_life_which_others_have_has_its_past(muster: Database) -> None:
    harness = await stage_of(muster, "j1", "j2")
    followed = Followed(harness, {A: frozenset({HALF_LIFE}), B: frozenset({HALF_LIFE})}, NOW)
    await followed.take("j1", A, "ann", (seat({"cpu": 7}),), NOW)
    await followed.take("j2", B, "bob", (seat({"cpu": 9}),), NOW)
    await summed_up(followed, HALF_LIFE, NOW)
    assert await followed.read(NOW) == followed.memories.freeze(NOW).rows
    followed.half_lives = {B: frozenset({HALF_LIFE})}
    assert (await followed.read(NOW)).keys() == {UsageHolder(B, "bob", HALF_LIFE)}


async def test_only_postings_that_still_count_make_a_half_life_fall_behind(muster: Database) -> None:
    names = [f"j{number}" for number in range(8)]
    harness = await stage_of(muster, *names)
    followed = Followed(harness, {A: BOTH}, NOW)
    for number, name in enumerate(names):
        await followed.take(name, A, "ann", (seat({"cpu": 7}),), NOW + number * 100_000)
    now = NOW + 7 * 100_000
    async with muster.transaction() as tx:
        assert await far_behind(tx, BOTH, now, 7) == {HALF_LIFE}
        assert await far_behind(tx, BOTH, now, 8) == frozenset()
    await summed_up(followed, HALF_LIFE, now)
    async with muster.transaction() as tx:
        assert await far_behind(tx, BOTH, now, 2) == frozenset()
