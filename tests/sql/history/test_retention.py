"""Old history goes by the partition, and what follows from all of it stays right."""

import asyncio
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import text

from admission.web.sql_reader import SqlReader
from queues.admissions import ClosedAdmission
from queues.errors import DatabaseUnavailable, Fenced
from queues.sql.database import Database
from queues.sql.history.partitions import HistoryPartition, ensure_partitions, partitions
from queues.sql.history.retention import Closing, Held, drop, expired, trim_default
from queues.sql.leadership import elect
from queues.sql.ledger.verification import verify
from queues.sql.tables import PARTITIONED
from queues.sql.world import closed_among, load_world
from queues.text_format import rfc3339
from queues.workload import AdmissionId, QueueName
from tests.sql.ledger_harness import NOW, LedgerHarness, eviction, gang, key, queue
from tests.waiting import LIMIT

DAY = 86_400
#: NOW is a Friday; partitions begin on Mondays.
MONDAY = datetime(2027, 1, 11, tzinfo=UTC)
WEEK = timedelta(weeks=1)


async def harness_of(muster: Database, *names: str) -> LedgerHarness:
    """Queues and a node, and partitions for two weeks before NOW and two after it."""
    harness = await LedgerHarness.begin(muster, [queue("a"), queue("b")], {"n1": 90}, names)
    async with muster.transaction() as tx:
        for table in ("postings", "closed_admissions"):
            await ensure_partitions(tx, harness.term, table, (MONDAY - 2 * WEEK).date(), weeks=5)
    return harness


async def journal(muster: Database) -> dict[str, int]:
    """What each account holds by the postings."""
    async with muster.transaction() as tx:
        rows = await tx.execute(
            text(
                "SELECT account, sum(amount)::bigint FROM ("
                " SELECT debit AS account, amount FROM muster_postings"
                " UNION ALL SELECT credit, -amount FROM muster_postings) entries"
                " WHERE account <> 'pool' GROUP BY account HAVING sum(amount) <> 0"
            )
        )
        return {row.account: row.sum for row in rows}


async def held_by(muster: Database, partition: HistoryPartition) -> Held:
    closing = Closing(partition)
    async with muster.transaction() as tx:
        while await closing.add_page(tx):
            pass
    return closing.held()


async def drop_until(harness: LedgerHarness, before: datetime) -> list[str]:
    """Drop old postings; the names of the partitions."""
    async with harness.muster.transaction() as tx:
        old = await expired(tx, "postings", before)
    for part in old:
        held = await held_by(harness.muster, part)
        async with harness.muster.transaction() as tx:
            await drop(tx, harness.term, "postings", part, held)
    return [part.name for part in old]


# ── closed admissions ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_closed_part_of_a_gang_says_since_when_the_gang_was_admitted(muster: Database) -> None:
    """Not since a run before that: after an eviction the time begins anew."""
    harness = await harness_of(muster, "j1")
    (run_before,) = (await harness.admit(gang("j1", "a", "n1"), at=NOW - 900)).accepted.values()
    await harness.evict(eviction(run_before))
    await harness.free(run_before, 0, at=NOW - 600)
    (core,) = (await harness.admit(gang("j1", "a", "n1"), at=NOW - 500)).accepted.values()
    part = replace(gang("j1", "a", "n1", first=1), elastic=True)
    (joined,) = (await harness.admit(part, at=NOW - 100)).accepted.values()
    expected = {
        id_: ClosedAdmission(key("j1"), QueueName("a"), since)
        for id_, since in ((run_before, NOW - 900), (core, NOW - 500), (joined, NOW - 500))
    }
    for number, closing in enumerate((joined, core), 2):
        await harness.free(closing, 0, at=NOW + number)
        async with muster.snapshot() as tx:
            found = await closed_among(tx, [run_before, core, joined])
        assert found == {id_: expected[id_] for id_ in found}
        assert len(found) == number


async def test_an_admission_is_history_as_soon_as_it_closes(muster: Database) -> None:
    harness = await harness_of(muster, "j1", "j2")
    verdict = await harness.admit(gang("j1", "a", "n1 n1"), gang("j2", "a", "n1"))
    first, second = verdict.accepted.values()
    await harness.free(first, 0)
    await harness.evict(eviction(first))
    await harness.free(first, 1, at=NOW + 60)

    async with muster.snapshot() as tx:
        assert [each.id for each in (await load_world(tx)).admissions] == [second]
        assert list(await tx.scalars(text("SELECT id FROM admissions"))) == [second]
        assert await closed_among(tx, [first, second, AdmissionId(999)]) == {
            first: ClosedAdmission(key("j1"), QueueName("a"), NOW)
        }
        rows = await tx.execute(
            text(
                "SELECT id, state, seats, seats_held, cause_code, closed_at FROM muster_admissions ORDER BY id"
            )
        )
        told_by_view = [tuple(row) for row in rows]
    closed_at = datetime.fromtimestamp(NOW + 60, UTC)
    assert told_by_view == [
        (first, "closed", 2, 0, "Preempted", closed_at),
        (second, "open", 1, 1, None, None),
    ]
    (told,) = await SqlReader(muster).explain(namespace="ns", name="j1", kind=None)
    (admission,) = told.admissions
    assert (admission.id, admission.state, admission.seats) == (first, "closed", ())
    assert admission.eviction is not None
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM closed_admissions_2027_01_11")) == 1


# ── postings ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_held_adds_up_though_older_postings_are_gone(muster: Database) -> None:
    harness = await harness_of(muster, "j1", "j2", "j3")
    long_ago = NOW - 14 * DAY
    wanted = gang("j1", "a", "n1 n1 n1"), gang("j2", "a", "n1", takes=4)
    verdict = await harness.admit(*wanted, at=long_ago)
    first, second = verdict.accepted.values()
    await harness.free(first, 0, at=long_ago + 60)
    await harness.free(second, 0, at=NOW)
    await harness.admit(gang("j3", "b", "n1"), at=NOW)
    before = await journal(muster)
    assert before == {"queue/a": 2, "queue/b": 1}

    assert await drop_until(harness, MONDAY) == ["postings_2026_12_28", "postings_2027_01_04"]

    assert await journal(muster) == before
    async with muster.snapshot() as tx:
        assert await verify(tx) == ()
        rows = await tx.execute(
            text("SELECT kind, posted_at, debit, credit, amount FROM muster_postings ORDER BY posted_at, id")
        )
        told = [tuple(row) for row in rows]
        starts = await tx.execute(
            text("SELECT history, begins_at FROM muster_history WHERE begins_at IS NOT NULL")
        )
        assert [tuple(row) for row in starts] == [("postings", MONDAY)]
    # As of the end of the first week, carried on over the second one.
    assert told[0] == ("carry", MONDAY, "queue/a", "pool", 6)
    assert [line[0] for line in told] == ["carry", "free", "admit"]

    await harness.free(first, 1, 2, at=NOW + 8 * DAY)
    await drop_until(harness, MONDAY + 2 * WEEK)
    assert await journal(muster) == {"queue/b": 1}


async def test_killed_before_its_commit_a_drop_has_not_happened(muster: Database) -> None:
    harness = await harness_of(muster, "j1")
    await harness.admit(gang("j1", "a", "n1"), at=NOW - 14 * DAY)
    async with muster.transaction() as tx:
        (oldest, *_) = await expired(tx, "postings", MONDAY)
    held = await held_by(muster, oldest)
    async with muster.bare_connection() as tx:
        await drop(tx, harness.term, "postings", oldest, held)
    assert await journal(muster) == {"queue/a": 1}
    async with muster.transaction() as tx:
        assert (await partitions(tx, "postings"))[0] == oldest


async def test_who_asks_about_a_workload_is_told_where_the_history_begins(muster: Database) -> None:
    harness = await harness_of(muster, "j1")
    async with muster.transaction() as tx:
        await ensure_partitions(tx, harness.term, "decisions", MONDAY.date(), weeks=1)
        (week,) = await partitions(tx, "decisions")
    (told,) = await SqlReader(muster).explain(namespace="ns", name="j1", kind=None)
    assert told.history_begins is None
    async with muster.transaction() as tx:
        await drop(tx, harness.term, "decisions", week)
    (told,) = await SqlReader(muster).explain(namespace="ns", name="j1", kind=None)
    assert told.history_begins == rfc3339((MONDAY + WEEK).timestamp())


async def test_a_deposed_leader_drops_nothing(muster: Database) -> None:
    harness = await harness_of(muster)
    async with muster.transaction() as tx:
        (oldest, *_) = await expired(tx, "postings", MONDAY)
        await tx.execute(text("UPDATE leases SET expires = clock_timestamp()"))
        assert await elect(tx, "another", 600.0) is not None
    with pytest.raises(Fenced):
        async with muster.transaction() as tx:
            await drop(tx, harness.term, "postings", oldest)


async def test_old_rows_of_the_default_partition_go_in_steps(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 90}, ["j1", "j2", "j3"])
    for number, name in enumerate(("j1", "j2", "j3")):
        await harness.admit(gang(name, "a", "n1"), at=NOW + number * DAY)
    before = datetime.fromtimestamp(NOW + 2 * DAY, UTC)
    left = []
    for _ in range(2):
        async with muster.transaction() as tx:
            left.append(await trim_default(tx, harness.term, "postings", before, rows=1))
        assert await journal(muster) == {"queue/a": 3}
    assert left == [True, False]
    async with muster.transaction() as tx:
        kinds = list(await tx.scalars(text("SELECT kind FROM postings ORDER BY kind, id")))
        assert kinds == ["admit", "carry", "carry"]


# ── partitions ──────────────────────────────────────────────────────────────────────────────────────────────


# NOW of the harness is 2027-01-15, a Friday.
DECEMBER = date(2026, 12, 31)
OF_NOW = "postings_2027_01_11"


async def ensured(harness: LedgerHarness) -> list[str]:
    """The partitions that were missing, of all tables."""
    made: list[str] = []
    for table in PARTITIONED:
        async with harness.muster.transaction() as tx:
            made += await ensure_partitions(tx, harness.term, table, DECEMBER)
    return made


async def test_parts_are_made_ahead_of_time_and_once(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster)
    assert {"postings_2026_12_28", "postings_2027_01_18", "decisions_2027_01_04"} <= {*await ensured(harness)}
    assert await ensured(harness) == []


async def test_what_came_too_early_is_moved_to_its_week(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    await harness.admit(gang("j1", "a", "n1"))
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM postings_default")) == 1
    await ensured(harness)
    async with muster.transaction() as tx:
        assert await tx.scalar(text("SELECT count(*) FROM postings_default")) == 0
        assert await tx.scalar(text(f"SELECT count(*) FROM {OF_NOW}")) == 1


async def test_new_rows_go_to_their_week(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    await ensured(harness)
    await harness.admit(gang("j1", "a", "n1"))
    async with muster.transaction() as tx:
        assert await tx.scalar(text(f"SELECT count(*) FROM {OF_NOW}")) == 1


async def test_who_writes_while_a_part_is_made_is_not_refused(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    async with muster.transaction() as tx:
        await ensure_partitions(tx, harness.term, "postings", DECEMBER)
        admitting = asyncio.create_task(harness.admit(gang("j1", "a", "n1")))
        async with asyncio.timeout(LIMIT):
            while not admitting.done() and not await _somebody_waits(muster):  # noqa: ASYNC110 - Postgres tells nobody
                await asyncio.sleep(0.01)
    await admitting
    async with muster.transaction() as tx:
        assert await tx.scalar(text(f"SELECT count(*) FROM {OF_NOW}")) == 1


async def _somebody_waits(database: Database) -> bool:
    waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"
    async with database.transaction() as tx:
        return bool(await tx.scalar(text(waiting)))


async def test_a_report_that_reads_for_long_delays_a_partition_and_not_the_ledger(muster: Database) -> None:
    harness = await LedgerHarness.begin(muster, [queue("a")], {"n1": 4}, ["j1"])
    async with muster.snapshot() as report:
        await report.execute(text("SELECT count(*) FROM postings"))
        with pytest.raises(DatabaseUnavailable):
            await ensured(harness)
        await harness.admit(gang("j1", "a", "n1"))
    assert f"postings_{DECEMBER - timedelta(days=3):%Y_%m_%d}" in await ensured(harness)
