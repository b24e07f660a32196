"""Sixty days of a ledger with old history, in fast time: its size day by day, and what the start of a term costs.

What is real: intake, world, engine, applier, ledger, the keeper of the history, and Postgres. What is made up: the
cluster is one node, seen by hand, whose Jobs run for an hour; the clock; and the old rows, which SQL makes.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from admission.cycle import Cycle, look_back, recall
from admission.facts.changes import Fact
from admission.facts.workloads import WorkloadFact
from admission.history_keeper import HistoryKeeper
from queues import kind_names
from queues.quota.queue import ROOT, QueuePolicy
from queues.sql import leadership
from queues.sql.database import Database, migrate, raw_connection
from queues.sql.embedded.server import EmbeddedPostgres
from queues.sql.history.partitions import WEEK, ensure_partitions
from queues.sql.history.retention import Retention
from queues.sql.leadership import Term
from queues.workload import WorkloadKey
from tests.bench.mark import Mark
from tests.builders.cycles import begun_world, cycle_over
from tests.builders.facts import TEAM, gone, job, node, queue, seen

DAY: Final = 86_400
#: A Monday.
FIRST: Final = 1_800_230_400
HALF_LIFE: Final = 7 * DAY
KEPT_DAYS: Final = 30
#: Days before the first one over which the old rows lie.
OLD_DAYS: Final = 119
TURNS_A_DAY: Final = 24

#: What one old job leaves behind: two postings, a decision, an ended workload, a closed admission. ``$1``: the first
#: number, ``$2``: the last one, ``$3``: the second of the first one, ``$4``: seconds from one to the next.
_OLD: Final = (
    """
    INSERT INTO postings (posted_at, ledger_seq, term, kind, admission, username, debit, credit,
                          flavors, resources, amounts)
    SELECT to_timestamp($3 + $4 * (n - $1) + 3600 * ends), 1, 1, CASE ends WHEN 0 THEN 'admit' ELSE 'free' END,
           10000000 + n, 'user' || n % 200, CASE ends WHEN 0 THEN 'queue/team' ELSE 'pool' END,
           CASE ends WHEN 0 THEN 'pool' ELSE 'queue/team' END, '{"",""}', '{nvidia.com/gpu,pods}', '{1000,1}'
    FROM generate_series($1::bigint, $2::bigint) AS n, generate_series(0, 1) AS ends
    """,
    """
    INSERT INTO decisions (decided_at, ledger_seq, term, kind, workload_kind, workload_uid, namespace, name, queue,
                           code, message, admission, numbers)
    SELECT to_timestamp($3 + $4 * (n - $1)), 1, 1, 'admit', 'job', 'old-' || n, 'ns', 'old-' || n, 'team', 'gang',
           '', 10000000 + n, '{"seats": 1}'
    FROM generate_series($1::bigint, $2::bigint) AS n
    """,
    """
    INSERT INTO ended_workloads (kind, uid, ended_at, namespace, name, queue, arrival, priority, created, minimum,
                                 pods, asks, username, image, result, finished_at, seen_at)
    SELECT 'job', 'old-' || n, to_timestamp($3 + $4 * (n - $1)), 'ns', 'old-' || n, 'team', n, 0, $3, 1,
           1, '{"pods": 1}', '', '', '', 0, to_timestamp($3)
    FROM generate_series($1::bigint, $2::bigint) AS n
    """,
    """
    INSERT INTO closed_admissions (id, closed_at, kind, uid, namespace, name, queue, priority, generation, started,
                                   opened_at, held_since, admitted_at, term, pod_sets, ordinals, nodes, flavors,
                                   shape_of, shapes)
    SELECT 10000000 + n, to_timestamp($3 + $4 * (n - $1)), 'job', 'old-' || n, 'ns', 'old-' || n, 'team', 0, '1', true,
           to_timestamp($3), to_timestamp($3), to_timestamp($3),
           1, '{main}', '{0}', '{n1}', '{""}', '{0}', '[{"pods": 1}]'
    FROM generate_series($1::bigint, $2::bigint) AS n
    """,
)
#: Rows of one old job.
_ROWS: Final = 5


@dataclass(slots=True)
class RetentionFigures:
    """Seconds and megabytes."""

    days: int
    old_rows: int
    postings: int
    filled: float = 0.0
    #: Size of the database by day; 0: with all old rows.
    sizes: dict[int, float] = field(default_factory=dict)
    first_drop: float = 0.0
    slowest_day: float = 0.0
    begin_first: float = 0.0
    begin_last: float = 0.0
    #: The start of a term with postings that nobody has summed up, how long that takes then, and a start afterwards.
    begin_behind: float = 0.0
    summed_up: float = 0.0
    begin_summed: float = 0.0


def play(
    *, days: int, jobs: int, old_rows: int, postings: int, folder: Path | None = None
) -> RetentionFigures:
    """All of it. ``jobs``: a day. ``postings``: of one half-life, for the failover in the end."""
    with ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        server = EmbeddedPostgres()
        dsn = server.start(place / "postgres")
        stack.callback(lambda: server.stop(discard=folder is None))
        figures = RetentionFigures(days=days, old_rows=old_rows, postings=postings)
        asyncio.run(_play(dsn, jobs, figures))
        return figures


async def _play(dsn: str, jobs: int, figures: RetentionFigures) -> None:
    await migrate(dsn)
    database = await Database.connect(dsn)
    try:
        async with database.transaction() as tx:
            term = await leadership.elect(tx, "the bench", 10 * DAY)
        assert term is not None
        leader = _Leader(database, term)
        figures.filled = await _timed(lambda: _fill(leader, dsn, figures.old_rows))
        figures.sizes[0] = await leader.size()
        figures.begin_first = await _timed(leader.begin)
        for day in range(1, figures.days + 1):
            figures.slowest_day = max(figures.slowest_day, await _timed(lambda: leader.live(jobs)))
            kept = await _timed(leader.keeper.look)
            if day == 1:
                figures.first_drop = kept
            figures.sizes[day] = await leader.size()
            _say(f"day {day}: {figures.sizes[day]:.1f} MB\n")
        figures.begin_last = await _timed(leader.begin)
        await _fill_postings(leader, dsn, figures.postings)
        figures.begin_behind = await _timed(leader.begin)
        _say("summing up\n")
        figures.summed_up = await _timed(leader.keeper._sum_up)
        figures.begin_summed = await _timed(leader.begin)
    finally:
        await database.close()


class _Leader:
    """What one process does, with a clock of its own."""

    def __init__(self, database: Database, term: Term) -> None:
        self.database = database
        self.term = term
        self.now = FIRST
        self.running: list[WorkloadFact] = []
        self.jobs = 0
        self.cycle: Cycle | None = None
        self.keeper = HistoryKeeper(
            database,
            term,
            Retention(decisions=KEPT_DAYS, ended_work=KEPT_DAYS, postings=KEPT_DAYS),
            lambda: self.now,
            half_lives=lambda: frozenset({HALF_LIFE}),
            summed_up=lambda half_lives: None,
            budgets_since=lambda now: None,
        )

    async def begin(self) -> None:
        """A term begins: everything is read, and the first turn decides."""
        facts: list[Fact] = [
            queue("root"),
            queue(TEAM, parent=ROOT, policy=QueuePolicy(usage_half_life=HALF_LIFE)),
            node("n1", count=100_000),
            *self.running,
        ]
        world = await begun_world(self.database, facts)
        await recall(self.database, world)
        await look_back(self.database, world, self.now)
        self.cycle = cycle_over(self.database, self.term, world, lambda: self.now)
        await self.cycle.turn()

    async def live(self, jobs: int) -> None:
        """One day: in each turn the Jobs of the turn before end, and others come."""
        assert self.cycle is not None
        for turn in range(TURNS_A_DAY):
            coming = jobs * (turn + 1) // TURNS_A_DAY - jobs * turn // TURNS_A_DAY
            new = [self._job() for _ in range(coming)]
            await self.cycle.turn([*map(gone, self.running), *map(seen, new)])
            while await self.cycle.store_rest():
                pass
            self.running = new
            self.now += DAY // TURNS_A_DAY

    def _job(self) -> WorkloadFact:
        self.jobs += 1
        name = f"live-{self.jobs}"
        key = WorkloadKey(kind_names.JOB, name)
        return replace(job(1), key=key, name=name, created=self.now)

    async def size(self) -> float:
        """Of the database, in megabytes."""
        connection = await raw_connection(self.database.dsn)
        try:
            found = await connection.fetchval("SELECT pg_database_size(current_database())")
            return float(found) / 1e6
        finally:
            await connection.close()


async def _fill(leader: _Leader, dsn: str, rows: int) -> None:
    """Old rows, evenly over the days before the first one."""
    begins = FIRST - OLD_DAYS * DAY
    await _partitions(leader, datetime.fromtimestamp(begins, UTC).date(), OLD_DAYS // 7 + 1)
    count, per_week = rows // _ROWS, max(1, rows // _ROWS // (OLD_DAYS // 7))
    connection = await raw_connection(dsn)
    try:
        await connection.execute("SET synchronous_commit = off")
        for number, first in enumerate(range(0, count, per_week)):
            last = min(count, first + per_week) - 1
            at = begins + number * 7 * DAY
            for statement in _OLD:
                await connection.execute(statement, first, last, float(at), 7 * DAY / per_week, timeout=3600)
            _say(f"filled {(last + 1) * _ROWS:,} of {rows:,} old rows\n")
        await connection.execute("ANALYZE", timeout=3600)
    finally:
        await connection.close()


async def _fill_postings(leader: _Leader, dsn: str, postings: int) -> None:
    """Postings of the last half-life, that nobody has summed up."""
    connection = await raw_connection(dsn)
    try:
        await connection.execute("SET synchronous_commit = off")
        step, jobs = 200_000, postings // 2
        for first in range(0, jobs, step):
            last = min(jobs, first + step) - 1
            at, apart = leader.now - HALF_LIFE + first * HALF_LIFE / jobs, (HALF_LIFE - 3600) / jobs
            await connection.execute(_OLD[0], first, last, at, apart, timeout=3600)
        # They came while another leader summed up nothing.
        await connection.execute("DELETE FROM past_use_marks")
        await connection.execute("ANALYZE postings", timeout=3600)
    finally:
        await connection.close()
    leader.now += 60


async def _partitions(leader: _Leader, first: date, weeks: int) -> None:
    for table in ("postings", "decisions", "ended_workloads", "closed_admissions"):
        for number in range(0, weeks, 4):
            async with leader.database.transaction() as tx:
                await ensure_partitions(tx, leader.term, table, first + number * WEEK, weeks=4)


async def _timed(work: Callable[[], Any]) -> float:
    began = time.monotonic()
    await work()
    return time.monotonic() - began


def marks(figures: RetentionFigures) -> list[Mark]:
    """What must hold."""

    def mark(name: str, reached: float, unit: str, must: float, aim: float) -> Mark:
        return Mark(name=f"retention: {name}", reached=reached, unit=unit, must=must, aim=aim, upwards=False)

    found = [
        mark("start of a term at the end ÷ at the beginning", _ratio(figures), "", 1.5, 1.0),
        mark("failover, past use of a week summed up: decides after", figures.begin_summed, "s", 30, 5),
        mark("failover, nothing summed up yet: decides after", figures.begin_behind, "s", 30, 5),
    ]
    if (growth := _growth(figures)) is not None:
        found.append(
            mark("largest size of the last week ÷ of the first after the retention", growth, "", 1.1, 1.05)
        )
    return found


def _ratio(figures: RetentionFigures) -> float:
    # A tenth of a second is the noise of this machine.
    return max(0.1, figures.begin_last) / max(0.1, figures.begin_first)


def _growth(figures: RetentionFigures) -> float | None:
    """None: there are fewer days than it takes."""
    settled = KEPT_DAYS + 8
    if figures.days < settled + 14:
        return None
    first = [figures.sizes[day] for day in range(settled, settled + 7)]
    last = [figures.sizes[day] for day in range(figures.days - 6, figures.days + 1)]
    return max(last) / max(first)


def table(figures: RetentionFigures) -> str:
    """The figures, a line each."""
    return "\n".join(_lines(figures))


def _lines(figures: RetentionFigures) -> Iterator[str]:
    for day, size in figures.sizes.items():
        yield f"size of the database after day {day:>3}{size:12.1f} MB"
    for name, seconds in (
        (f"{figures.old_rows:,} old rows made by SQL", figures.filled),
        ("start of a term, all old rows there", figures.begin_first),
        ("first look of the keeper: what is older than the retention is dropped", figures.first_drop),
        ("slowest day", figures.slowest_day),
        (f"start of a term after {figures.days} days", figures.begin_last),
        (
            f"start of a term, {figures.postings:,} postings not summed up (present use counts)",
            figures.begin_behind,
        ),
        ("  … they are summed up beside the turns in", figures.summed_up),
        ("start of a term, all summed up", figures.begin_summed),
    ):
        yield f"{name:<80}{seconds:10.2f} s"


def _say(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)
