"""Use in a period, as one statement adds it up, is what all postings say, to the unit and second. So is what is used of
budgets."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from queues.admissions import Seat
from queues.read_api.usage import UsageBody
from queues.resources import amount
from queues.sql import ledger
from queues.sql.database import Database
from queues.sql.history.partitions import ensure_partitions
from queues.sql.history.retention import Closing, drop, expired, trim_default
from queues.sql.observed.rows import NodeLimit
from queues.sql.read.usage import (
    UsageColumn,
    UsageQuestion,
    UsageQueue,
    UsageViewer,
    hours_used,
    usage,
    usage_history,
)
from queues.workload import AdmissionId, FlavorName, NodeName
from tests.builders.empty_ledger import empty_ledger
from tests.laws.worlds.settings import in_worlds
from tests.laws.worlds.usage import PostedAmount, used_time
from tests.sql.ledger_harness import NOW, LedgerHarness, admit, eviction, freeing, gpus, key, queue

DAY = 86_400
QUEUES = ("a", "b", "c")
EVERY = frozenset(UsageColumn)

#: Seats of a gang: flavor, and thousandths of a GPU.
SEATS = st.lists(st.tuples(st.sampled_from(["", "h100", "l4"]), st.integers(0, 8000)), min_size=1, max_size=4)
ADMIT = st.tuples(
    st.just("admit"), st.sampled_from(QUEUES), st.sampled_from(["", "ada", "bert", "queue/a"]), SEATS
)
FREE = st.tuples(st.just("free"), st.integers(0, 5), st.frozensets(st.integers(0, 3), min_size=1))
#: Seconds until it happens, and what does.
STEP = st.tuples(
    st.sampled_from([0, 1, 7, 3_600, DAY, 5 * DAY + 11]),
    st.one_of(
        ADMIT,
        ADMIT,
        FREE,
        FREE,
        st.tuples(st.just("evict"), st.integers(0, 5)),
        st.tuples(st.just("drop"), st.sampled_from(["partitions", "default"])),
    ),
)


class World(NamedTuple):
    """What happens, and which period is asked for."""

    steps: list[tuple[int, tuple[Any, ...]]]
    #: Seconds from the last step to now.
    rest: int
    #: Two times: the number of a step, and seconds from then on.
    begins: tuple[int, int]
    ends: tuple[int, int]
    partitioned: bool


WORLDS = st.builds(
    World,
    st.tuples(ADMIT, st.lists(STEP, min_size=4, max_size=12)).map(lambda drawn: [(0, drawn[0]), *drawn[1]]),
    st.sampled_from([0, 1, DAY]),
    st.tuples(st.integers(0, 6), st.sampled_from([-DAY, -3_600, -1, 0, 1, 1_800])),
    st.tuples(st.integers(3, 12), st.sampled_from([-1_800, -1, 0, 1, 5_000, 9 * DAY])),
    st.booleans(),
)


async def test_use_in_a_period_is_what_all_postings_say(muster: Database) -> None:
    loop = asyncio.get_running_loop()

    @settings(in_worlds(80), suppress_health_check=list(HealthCheck), database=None)
    @given(world=WORLDS)
    def run(world: World) -> None:
        asyncio.run_coroutine_threadsafe(play(muster, world), loop).result(60)

    await asyncio.to_thread(run)


async def play(muster: Database, world: World) -> None:
    async with muster.transaction() as tx:
        await _without_partitions(tx)
        await empty_ledger(tx)
    harness = await LedgerHarness.begin(muster, [queue(name) for name in QUEUES])
    await harness.nodes(
        **{
            f"n{flavor}": NodeLimit(limits=gpus(2**40), flavor=FlavorName(flavor))
            for flavor in ("", "h100", "l4")
        }
    )
    if world.partitioned:
        async with muster.transaction() as tx:
            await ensure_partitions(
                tx, harness.term, "postings", datetime.fromtimestamp(NOW, UTC).date(), weeks=9
            )
    now, opened, dropped = NOW, list[AdmissionId](), list[PostedAmount]()
    times = list[int]()
    for number, (seconds, step) in enumerate(world.steps):
        now += seconds
        times.append(now)
        await act(harness, step, number, now, opened, dropped)
    begins, ends = (times[min(number, len(times) - 1)] + more for number, more in (world.begins, world.ends))
    ends = min(ends, now + world.rest)
    await check(harness, begins, ends, dropped)


async def act(
    harness: LedgerHarness,
    step: tuple[Any, ...],
    number: int,
    now: int,
    opened: list[AdmissionId],
    dropped: list[PostedAmount],
) -> None:
    match step:
        case ("admit", into, user, seats):
            await harness.arrive(f"j{number}", queue=into)
            async with harness.entered(now) as (tx, entry):
                gang = admit(f"j{number}", into, tuple(_seats(seats)))
                verdict = await ledger.admit(tx, entry, [gang], {key(f"j{number}"): user})
            assert not verdict.rejected
            opened += verdict.accepted.values()
        case ("free", which, seats) if opened:
            async with harness.entered(now) as (tx, entry):
                await ledger.free(tx, entry, [freeing(opened[which % len(opened)], seats)])
        case ("evict", which) if opened:
            await harness.evict(eviction(opened[which % len(opened)]))
        case ("drop", "partitions"):
            await _drop_partitions(harness, now, dropped)
        case ("drop", "default"):
            before = datetime.fromtimestamp(now, UTC) - timedelta(days=3)
            async with harness.muster.transaction() as tx:
                kept = await _postings(tx, "WHERE tableoid = 'postings_default'::regclass", before)
                await trim_default(tx, harness.term, "postings", before, rows=1000)
            dropped += kept


def _seats(drawn: list[tuple[str, int]]) -> list[Seat]:
    return [
        Seat(
            pod_set="worker",
            ordinal=number,
            node=NodeName(f"n{flavor}"),
            flavor=FlavorName(flavor),
            takes=gpus(units),
        )
        for number, (flavor, units) in enumerate(drawn)
    ]


async def check(harness: LedgerHarness, begins: int, ends: int, dropped: list[PostedAmount]) -> None:
    async with harness.muster.snapshot() as tx:
        kept = await _postings(tx)
        history = await usage_history(tx)
        begins = max(begins, history.postings)
        ends = max(begins, ends)

        def asked(*by: UsageColumn) -> UsageQuestion:
            return UsageQuestion(begins=begins, ends=ends, by=frozenset(by), limit=1000)

        viewer = everything(*QUEUES)
        whole = await usage(tx, asked(*EVERY), viewer)
        by_admission = used_time(
            [each for each in (*dropped, *kept) if each.kind != "carry"],
            begins,
            ends,
            lambda each: (each.queue, each.user, each.flavor, each.resource, each.admission),
        )
        rows = await tx.execute(text("SELECT id, name FROM muster_admissions"))
        names = {row.id: row.name for row in rows}
        assert {_named(each): _units(each) for each in whole.items} == {
            (*of[:4], names[of[4]]): units for of, units in by_admission.items()
        }
        groups: dict[frozenset[UsageColumn], Callable[[PostedAmount], tuple[str, ...]]] = {
            frozenset({UsageColumn.QUEUE, UsageColumn.USER}): lambda each: (
                each.queue,
                each.user,
                each.resource,
            ),
            frozenset({UsageColumn.FLAVOR}): lambda each: (each.flavor, each.resource),
            frozenset(): lambda each: (each.resource,),
        }
        for by, group in groups.items():
            page = await usage(tx, asked(*by), viewer)
            # What is carried over is among them: the sums are the same with it and without what was dropped.
            expected = used_time(kept, begins, ends, group)
            told = [(each.queue, each.user, each.flavor, each.resource) for each in page.items]
            found = {
                tuple(
                    part
                    for part, column in zip(line, ("queue", "user", "flavor", ""), strict=True)
                    if not column or column in by
                ): _units(each)
                for line, each in zip(told, page.items, strict=True)
            }
            assert found == expected
            assert {each.resource: _units(each) for each in page.totals} == used_time(
                kept, begins, ends, lambda each: each.resource
            )
        now = max([begins, *(each.at for each in kept)])
        hours = await hours_used(tx, begins, now, {each.resource for each in kept})
    for later in (now, now + 100):
        found_hours = {
            (queue_name, resource): used
            for queue_name, resources in hours.items()
            for resource, each in resources.items()
            if (used := each.until(later))
        }
        assert found_hours == used_time(kept, begins, later, lambda each: (each.queue, each.resource))


def everything(*names: str) -> UsageViewer:
    queues = tuple(UsageQueue(queue=name, tenant=name, shown_as=name) for name in names)
    return UsageViewer(user="root@example.com", queues=queues, is_narrowed=False, seen=None)


def _named(line: UsageBody) -> tuple[str | None, ...]:
    return line.queue, line.user, line.flavor, line.resource, line.workload and line.workload.name


def _units(line: UsageBody) -> int:
    return amount(line.resource, line.amount_seconds)


async def _postings(tx: Any, where: str = "", before: datetime | None = None) -> list[PostedAmount]:
    rows = await tx.execute(
        text(
            "SELECT CAST(extract(epoch FROM posted_at) AS bigint) AS at, kind, admission,"
            " substr(CASE debit WHEN 'pool' THEN credit ELSE debit END, 7) AS queue, username,"
            " line.flavor, line.resource, CASE debit WHEN 'pool' THEN -line.amount ELSE line.amount END AS units"
            " FROM (SELECT *, tableoid AS part FROM postings) AS postings,"
            " unnest(flavors, resources, amounts) AS line(flavor, resource, amount) "
            + where.replace("tableoid", "part")
        )
    )
    found = [PostedAmount(*row) for row in rows]
    return found if before is None else [each for each in found if each.at < before.timestamp()]


async def _drop_partitions(harness: LedgerHarness, now: int, dropped: list[PostedAmount]) -> None:
    async with harness.muster.transaction() as tx:
        old = await expired(tx, "postings", datetime.fromtimestamp(now, UTC))
    for part in old:
        closing = Closing(part)
        async with harness.muster.transaction() as tx:
            while await closing.add_page(tx):
                pass
            dropped += await _postings(tx, f"WHERE tableoid = '{part.name}'::regclass")
            await drop(tx, harness.term, "postings", part, closing.held())


async def _without_partitions(tx: Any) -> None:
    for name in await tx.scalars(
        text("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^postings_[0-9]'")
    ):
        await tx.execute(text(f'DROP TABLE "{name}"'))
