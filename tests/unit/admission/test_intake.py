"""What intake promises about large batches and about rows that Postgres refuses."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest
import pytest_asyncio
from sqlalchemy import text

from admission import intake
from admission.facts.pods import Conduct, PodPhase
from admission.facts.workloads import WorkloadFact
from admission.workloads.inputs import Timeouts
from admission.world.world import World
from queues import kind_names
from queues.admissions import AdmissionState
from queues.errors import Fenced
from queues.quota.accounts import Account
from queues.quota.queue import Limits, Loan
from queues.reason_codes import ReasonCode
from queues.sql import leadership
from queues.sql.database import Database
from queues.sql.leadership import Term
from queues.sql.observed import workloads
from queues.sql.world import load_world
from queues.workload import NO_FLAVOR, QueueName, Result, WorkloadKey
from tests.builders.facts import (
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    admission,
    gone,
    job,
    node,
    pod,
    queue,
    released,
    seen,
    volcano_job,
    world,
)

#: More than an index holds, and not to be compressed.
LONG = QueueName("".join(Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=6000)))


@dataclass(slots=True)
class Store:
    """A database, and the term that writes into it."""

    database: Database
    term: Term

    async def save(self, known: World, rows: int = intake.ROWS) -> bool:
        stored = await intake.save(self.database, self.term, known, NOW, rows=rows)
        known.refresh(NOW)
        return stored

    async def save_rest(self, known: World, rows: int = intake.ROWS_OF_REST) -> bool:
        return await intake.save_rest(self.database, self.term, known, NOW, rows=rows)

    async def ask(self, question: str) -> list[tuple[object, ...]]:
        async with self.database.transaction() as tx:
            return [tuple(row) for row in await tx.execute(text(question))]


@pytest_asyncio.fixture
async def store(muster: Database) -> Store:
    async with muster.transaction() as tx:
        term = await leadership.elect(tx, "me", 600.0)
    assert term is not None
    return Store(muster, term)


def key(number: int) -> WorkloadKey:
    return WorkloadKey(kind_names.JOB, f"uid-{number}")


def jobs(count: int, queue: QueueName = TEAM) -> list[WorkloadFact]:
    """The later their number, the earlier they were created."""
    return [
        replace(job(1, queue=queue), key=key(number), name=f"train-{number}", created=NOW - number)
        for number in range(count)
    ]


async def test_many_arrivals_are_stored_in_parts_and_keep_their_order(store: Store) -> None:
    known = world(jobs(7))
    assert await store.save(known, rows=3)
    assert sorted(known.ledger.arrivals, key=known.ledger.arrivals.__getitem__) == [
        key(number) for number in range(6, -1, -1)
    ]
    assert await store.ask("SELECT count(*) FROM workloads GROUP BY xmin::text ORDER BY 1") == [
        (1,),
        (3,),
        (3,),
    ]
    assert not known.unsaved
    assert not await store.save(known)


async def test_an_arrival_is_described_at_once(store: Store) -> None:
    known = world([job(3, priority=7)])
    await store.save(known)
    assert await store.ask("SELECT priority, pods, asks->>'nvidia.com/gpu' FROM workloads") == [
        (7, 3, "3000")
    ]
    assert not await store.save_rest(known)


async def test_an_arrival_that_has_ended_is_stored_so_and_no_new_leader_describes_it_again(
    store: Store,
) -> None:
    ended = job(3, finished=True)
    known = world([ended])
    await store.save(known)
    assert await store.ask("SELECT finished, pods FROM workloads") == [(True, 0)]
    async with store.database.snapshot() as tx:
        rows = await load_world(tx)
    second = World(rows, Timeouts())
    second.observe([seen(ended)])
    second.refresh(NOW)
    assert not second.unsaved


async def test_a_new_leader_writes_no_description_that_is_stored_already(store: Store) -> None:
    first = world(jobs(3))
    await store.save(first)
    versions = await store.ask("SELECT uid, xmin::text FROM workloads ORDER BY uid")
    changed = [*jobs(2), replace(jobs(3)[2], priority=9)]
    second = world(changed, arrivals=first.ledger.arrivals)
    assert second.unsaved.described.keys() == first.ledger.arrivals.keys()
    while await store.save_rest(second, rows=2):
        pass
    assert not second.unsaved
    after = await store.ask("SELECT uid, xmin::text FROM workloads ORDER BY uid")
    assert [new == old for new, old in zip(after, versions, strict=True)] == [True, True, False]


async def test_departures_are_stored_in_parts_and_no_decision_waits_for_them(store: Store) -> None:
    known = world(jobs(5))
    await store.save(known)
    known.observe([gone(each) for each in jobs(5)])
    known.refresh(NOW)
    assert not await store.save(known)
    left = []
    while more := await store.save_rest(known, rows=2):
        left.append(len(known.ledger.arrivals))
        assert more
    assert left == [3, 1]
    assert known.ledger.arrivals == {}
    assert await store.ask("SELECT count(*) FROM ended_workloads") == [(5,)]


async def test_one_row_that_postgres_refuses_keeps_no_other_from_being_stored(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    bad = replace(jobs(6)[4], queue=LONG)
    known = world([*jobs(4), bad, jobs(6)[5], queue("root"), node("n1")])
    with caplog.at_level(logging.ERROR):
        await store.save(known)
    assert known.ledger.arrivals.keys() == {key(number) for number in (0, 1, 2, 3, 5)}
    assert await store.ask("SELECT count(*) FROM nodes") == [(1,)]
    problem = known.refused_rows.workloads[bad.key]
    assert problem.code is ReasonCode.DEFECT
    assert "index row" in problem.message
    (line,) = caplog.records
    assert (line.row, line.about) == ("arrivals", str(bad.key))  # type: ignore[attr-defined]


async def test_a_refused_row_is_tried_again_when_it_has_changed_and_not_before(store: Store) -> None:
    bad = replace(jobs(1)[0], queue=LONG)
    known = world([bad])
    assert await store.save(known)
    assert not await store.save(known)
    known.observe([seen(replace(bad, generation="2"))])
    known.refresh(NOW)
    assert not await store.save(known), "nothing changed of what is stored"
    known.observe([seen(jobs(1)[0])])
    known.refresh(NOW)
    assert await store.save(known)
    assert known.ledger.arrivals.keys() == {bad.key}
    assert known.refused_rows.workloads == {}


async def test_a_refused_workload_that_goes_is_forgotten(store: Store) -> None:
    bad = replace(jobs(1)[0], queue=LONG)
    known = world([bad])
    await store.save(known)
    known.observe([gone(bad)])
    known.refresh(NOW)
    assert not len(known.refused_rows)
    assert known.refused_rows.workloads == {}
    assert not known.unsaved


async def test_many_refused_rows_take_several_calls_and_delay_the_good_ones_only(store: Store) -> None:
    bad = [replace(each, queue=LONG) if number % 2 else each for number, each in enumerate(jobs(40))]
    known = world(bad)
    calls = 0
    intake_attempts = intake.ATTEMPTS
    try:
        intake.ATTEMPTS = 5  # type: ignore[misc]
        while await store.save(known):
            calls += 1
    finally:
        intake.ATTEMPTS = intake_attempts  # type: ignore[misc]
    assert calls > 1
    assert known.ledger.arrivals.keys() == {key(number) for number in range(0, 40, 2)}
    assert len(known.refused_rows) == 20


async def test_a_queue_that_postgres_refuses_says_so(store: Store) -> None:
    known = world([queue(LONG), queue("root"), queue("team", parent="root")])
    await store.save(known)
    assert await store.ask("SELECT name FROM queues ORDER BY name") == [("root",), ("team",)]
    assert "the database refuses" in known.queue_problems()[LONG]


async def test_a_pod_with_an_end_that_postgres_refuses_may_not_disappear(store: Store) -> None:
    def ended(name: str, index: int) -> Sequence[object]:
        return [
            pod(name, "n1", owner=VOLCANO, task="worker", index=index, phase=PodPhase.SUCCEEDED, kept=True)
        ]

    facts = [volcano_job(4), *ended("good", 1), *ended("bad", 2**70)]
    known = world(facts)  # type: ignore[arg-type]
    await store.save(known)
    assert [each.name for each in known.volcano_jobs.may_disappear()] == ["good"]
    assert await store.ask("SELECT pod_uid FROM outcomes") == [("good",)]


async def test_a_deposed_leader_stores_nothing_of_a_batch_in_parts(store: Store) -> None:
    known = world(jobs(4))
    async with store.database.transaction() as tx:
        await tx.execute(text("UPDATE leases SET expires = clock_timestamp()"))
    async with store.database.transaction() as tx:
        assert await leadership.elect(tx, "other") is not None
    with pytest.raises(Fenced):
        await store.save(known, rows=2)
    assert await store.ask("SELECT count(*) FROM workloads") == [(0,)]
    assert len(known.unsaved.arrivals) == 4
    with pytest.raises(Fenced):
        async with store.database.transaction() as tx:
            await workloads.depart(tx, store.term, {key(1): Result.UNKNOWN}, NOW)


async def test_what_was_described_stays_when_its_object_goes_while_it_runs(store: Store) -> None:
    runs = job(2, priority=7, created=NOW - 60, conduct=Conduct(user="ann"))
    pods = [released(name, None, "n1", owner=JOB, phase=PodPhase.RUNNING) for name in ("a", "b")]
    known = world([node("n1"), runs, *pods], admissions=[admission(JOB, "n1 n1", started=True)])
    await store.save(known)
    columns = "username, created, priority, minimum, pods, asks->>'nvidia.com/gpu', finished, result"
    described = ("ann", NOW - 60, 7, 2, 2, "2000")
    assert await store.ask(f"SELECT {columns} FROM workloads") == [(*described, False, "")]

    known.observe([gone(runs)])
    known.refresh(NOW)
    assert known.states[JOB].is_gone
    await store.save_rest(known)

    assert await store.ask(f"SELECT {columns} FROM workloads") == [(*described, True, "deleted")]


@pytest.mark.parametrize("phase", [PodPhase.SUCCEEDED, PodPhase.FAILED])
async def test_a_pod_that_ended_is_stored_as_it_ended_though_it_is_there_still(
    store: Store, phase: PodPhase
) -> None:
    bare = WorkloadKey(kind_names.POD, "a")
    runs = released("a", "main/0", "n1", queue=TEAM, phase=PodPhase.RUNNING)
    held = admission(bare, "n1", pod_set="main", started=True)
    known = world([node("n1"), runs], admissions=[held])
    await store.save(known)
    known.observe([seen(replace(runs, phase=phase))])
    known.refresh(NOW)
    known.put_admissions([replace(held, state=AdmissionState.CLOSED)])
    known.refresh(NOW)
    while await store.save_rest(known):
        pass
    assert await store.ask("SELECT uid, result FROM ended_workloads") == [("a", phase.lower())]


async def test_a_loan_is_in_the_limits_of_both_queues_until_it_ends(store: Store) -> None:
    loan = Loan(to=QueueName("b"), account=Account(NO_FLAVOR, "cpu"), units=3000, until=NOW + 60)
    owning = Limits(deserved={"cpu": 8000})
    known = world([queue("a", limits=owning, loans=(loan,)), queue("b", limits=owning)])
    limits = "SELECT queue, deserved FROM queue_limits WHERE deserved IS NOT NULL ORDER BY queue"
    versions = "SELECT count(*) FROM queue_versions"
    await store.save(known)
    assert await store.ask(limits) == [("a", 5000), ("b", 11000)]
    stored = await store.ask(versions)

    known.refresh(NOW + 60)
    assert await store.save(known)
    assert await store.ask(limits) == [("a", 8000), ("b", 8000)]
    assert await store.ask(versions) == stored
