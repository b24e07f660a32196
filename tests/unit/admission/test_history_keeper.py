"""What the leader does for the history beside its turns."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from admission import cycle
from admission.cycle import look_back
from admission.history_keeper import HistoryKeeper
from queues.errors import Fenced
from queues.quota.decayed_usage import NO_PAST
from queues.quota.queue import ROOT, QueuePolicy
from queues.sql.database import Database
from queues.sql.history.partitions import partitions
from queues.sql.history.retention import Retention
from queues.sql.leadership import elect
from queues.sql.read.past_use import past_use
from queues.sql.tables import PARTITIONED
from queues.workload import QueueName
from tests.builders.facts import queue as queue_fact
from tests.builders.facts import world
from tests.sql.ledger_harness import NOW, LedgerHarness, gang, queue

DAY = 86_400
HALF_LIFE = 604_800
KEPT = Retention(decisions=14, ended_work=14, postings=14)


class Kept:
    """A keeper, and the clock that it goes by."""

    def __init__(self, harness: LedgerHarness, half_lives: frozenset[int] | None = frozenset()) -> None:
        self.now = NOW
        self.half_lives = half_lives
        self.budgets_since: int | None = None
        self.summed_up: set[int] = set()
        self.keeper = HistoryKeeper(
            harness.muster,
            harness.term,
            KEPT,
            lambda: self.now,
            half_lives=lambda: self.half_lives,
            summed_up=self.summed_up.update,
            budgets_since=lambda now: self.budgets_since,
        )


async def begins(muster: Database) -> dict[str, datetime]:
    """Where the oldest partition of each history begins."""
    async with muster.transaction() as tx:
        return {table: (await partitions(tx, table))[0].begins for table in PARTITIONED}


async def test_each_history_has_partitions_ahead_and_loses_the_old_ones(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    kept = Kept(harness)
    for week in range(8):
        kept.now = NOW + week * 7 * DAY
        assert await kept.keeper.look()
        if week == 0:
            await harness.admit(gang("j1", "a", "n1"), at=kept.now)
        async with muster.transaction() as tx:
            ahead = (await partitions(tx, "decisions"))[-1].ends
        assert ahead - datetime.fromtimestamp(kept.now, UTC) > timedelta(weeks=3)
    for begin in (await begins(muster)).values():
        assert timedelta(days=14) <= datetime.fromtimestamp(kept.now, UTC) - begin < timedelta(days=21)
    assert await harness.balances() == {"a": (1, 1, 1), ROOT: (0, 1, 1)}
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT sum(amount) FROM muster_postings")) == 1
        assert await tx.scalar(text("SELECT count(*) FROM muster_history WHERE begins_at IS NOT NULL")) == 4
    assert kept.keeper.lag() == dict.fromkeys(PARTITIONED, 0.0)


async def test_a_report_that_reads_for_long_delays_the_drop_and_the_metric_tells(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    kept = Kept(harness)
    assert await kept.keeper.look()
    kept.now += 28 * DAY
    async with muster.snapshot() as report:
        await report.execute(text("SELECT count(*) FROM decisions"))
        assert not await kept.keeper.look()
        lag = kept.keeper.lag()
        assert lag["decisions"] > 7 * DAY
        assert lag["postings"] == 0.0
    assert await kept.keeper.look()
    assert kept.keeper.lag()["decisions"] == 0.0


async def test_postings_are_dropped_only_when_they_are_summed_up(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    kept = Kept(harness, frozenset({HALF_LIFE}))
    await kept.keeper._make_partitions()
    await harness.admit(gang("j1", "a", "n1"))
    first = (await begins(muster))["postings"]
    kept.now += 28 * DAY
    kept.half_lives = None
    assert not await kept.keeper.look()
    assert (await begins(muster))["postings"] == first
    kept.half_lives = frozenset({HALF_LIFE})
    assert await kept.keeper.look()
    assert (await begins(muster))["postings"] > first
    assert kept.summed_up == {HALF_LIFE}
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM past_use_sums")) == 1


async def test_postings_are_kept_as_long_as_a_budget_counts_them(muster: Database) -> None:
    kept = Kept(await LedgerHarness.begin(muster, [queue("a")]))
    await kept.keeper._make_partitions()
    first = (await begins(muster))["postings"]
    month, kept.now = kept.now, kept.now + 28 * DAY
    kept.budgets_since = month
    assert await kept.keeper.look()
    dropped = (await begins(muster))["postings"]
    assert first <= dropped <= datetime.fromtimestamp(month, UTC)
    kept.budgets_since = None
    assert await kept.keeper.look()
    assert (await begins(muster))["postings"] > datetime.fromtimestamp(month, UTC)


async def test_where_much_is_not_summed_up_present_use_counts_until_it_is(
    muster: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle, "MOST_POSTINGS", 2)
    names = [f"j{number}" for number in range(4)]
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, names)
    await harness.admit(*(gang(name, "a", "n1") for name in names))
    known = world([queue_fact("a", policy=QueuePolicy(usage_half_life=HALF_LIFE))])
    history = known.usage_history
    assert history.half_lives() is None

    await look_back(muster, known, NOW)

    assert (history.missing, history.half_lives()) == ({HALF_LIFE}, {HALF_LIFE})
    assert history.freeze(NOW) == NO_PAST
    kept = Kept(harness, history.half_lives())
    assert await kept.keeper.look()
    assert kept.summed_up == history.missing
    history.needs_reading = True
    await look_back(muster, known, NOW)
    assert history.missing == frozenset()
    async with muster.snapshot() as tx:
        expected = await past_use(tx, {QueueName("a"): frozenset({HALF_LIFE})}, NOW)
    assert history.freeze(NOW).rows == expected
    assert expected


async def test_sums_of_a_half_life_go_when_it_is_missed_at_two_looks(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    await harness.admit(gang("j1", "a", "n1"))
    kept = Kept(harness, frozenset({HALF_LIFE}))

    async def stored() -> int:
        async with muster.transaction() as tx:
            return await tx.scalar(text("SELECT count(*) FROM past_use_sums")) or 0

    assert await kept.keeper.look()
    kept.half_lives = frozenset()
    assert await kept.keeper.look()
    assert await stored() == 1
    assert await kept.keeper.look()
    assert await stored() == 0


async def test_a_deposed_leader_keeps_nothing(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    kept = Kept(harness)
    async with muster.transaction() as tx:
        await tx.execute(text("UPDATE leases SET expires = clock_timestamp()"))
        assert await elect(tx, "another", 600.0) is not None
    with pytest.raises(Fenced):
        await kept.keeper.look()
    async with muster.transaction() as tx:
        assert await partitions(tx, "postings") == []
