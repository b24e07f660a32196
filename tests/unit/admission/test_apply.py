"""The plan applier and the turn around it, on a real Postgres."""

import logging
from dataclasses import dataclass, field, replace

import pytest
import pytest_asyncio
from sqlalchemy import text

from admission import cycle, intake
from admission.apply import Applied, TurnPlan, apply
from admission.cycle import Cycle
from admission.facts.changes import Change, Fact
from admission.facts.workloads import WorkloadFact
from admission.failpoints import armed
from admission.figures.gang_waits import GangWait
from admission.turn_report import Stage, TurnReport
from admission.volcano_jobs.state import JobState, Phase
from queues import kind_names
from queues.admissions import Admission, Seat
from queues.errors import DatabaseTooSlow, DataRefused, Fenced
from queues.plan import Admit, Evict, Plan
from queues.quota.accounts import Account
from queues.quota.queue import ROOT, Limits
from queues.reason_codes import ReasonCode
from queues.resources import GPU, Resources
from queues.sql import leadership
from queues.sql.database import Database
from queues.sql.leadership import Term
from queues.sql.world import load_world
from queues.workload import NO_FLAVOR, NodeName, QueueName, WorkloadKey
from tests.builders.cycles import begun_world, cycle_over
from tests.builders.facts import (
    GROUP,
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    gated,
    gone,
    gpus,
    group,
    job,
    migrated,
    node,
    pod,
    queue,
    released,
    seen,
    volcano_job,
)

GPUS = Account(NO_FLAVOR, GPU)


@dataclass(slots=True)
class Ring:
    """Intake, world, engine and applier over one database; objects are shown by hand."""

    database: Database
    term: Term
    cycle: Cycle = field(init=False)
    now: int = NOW

    async def begin(self, *facts: Fact) -> None:
        """A world read from the database and these objects."""
        world = await begun_world(self.database, facts)
        self.cycle = cycle_over(self.database, self.term, world, lambda: self.now)

    async def turn(self, *changes: Change | Fact) -> TurnReport:
        report = await self.cycle.turn([each if isinstance(each, Change) else seen(each) for each in changes])
        while await self.cycle.store_rest():
            pass
        return report

    @property
    def admissions(self) -> list[Admission]:
        return list(self.cycle.world.admissions.values())

    async def stored(self) -> list[Admission]:
        async with self.database.snapshot() as tx:
            return list((await load_world(tx)).admissions)

    async def one(self, question: str) -> object:
        async with self.database.transaction() as tx:
            return await tx.scalar(text(question))


@pytest_asyncio.fixture
async def ring(muster: Database) -> Ring:
    async with muster.transaction() as tx:
        term = await leadership.elect(tx, "me", 600.0)
    assert term is not None
    return Ring(muster, term)


QUEUES = (queue("root"), queue("team", parent=ROOT))


async def test_what_happens_is_one_line_each_in_the_log(ring: Ring, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "admission.turn_report")
    await ring.begin(*QUEUES, node("n1"), volcano_job(4))
    await ring.turn()
    await ring.turn(queue("team", parent=QueueName(ROOT), generation=2), queue("new", parent=QueueName(ROOT)))
    await ring.turn(gone(volcano_job(4)), gone(queue("new")))
    await ring.turn()

    lines = [(each.message, vars(each).get("workload"), vars(each)["queue"]) for each in caplog.records]
    assert lines == [
        ("admitted", "ns/train", "team"),
        ("queue changed", None, "team"),
        ("queue created", None, "new"),
        ("queue deleted", None, "new"),
        ("freed", "ns/train", "team"),
    ]


async def test_what_makes_room_is_decided_before_who_gets_it(ring: Ring) -> None:
    second = WorkloadKey(kind_names.VOLCANO_JOB, "second")
    await ring.begin(*QUEUES, node("n1"), volcano_job(8, name="first"))
    await ring.turn()
    assert len(ring.admissions) == 1
    # The node is full: the second one comes in with what the first one gives back, in one turn.
    await ring.turn(gone(volcano_job(8, name="first")), replace(volcano_job(8, name="second"), key=second))
    await ring.turn()
    kinds = await ring.one("SELECT string_agg(kind || ' ' || name, ', ' ORDER BY id) FROM decisions")
    assert kinds == "admit first, free first, admit second"


async def test_the_log_of_decisions_keeps_that_seats_were_given_back_by_a_suspension(ring: Ring) -> None:
    await ring.begin(*QUEUES, node("n1"), volcano_job(4))
    await ring.turn()
    ring.cycle.world.volcano_jobs.stored[VOLCANO.uid] = JobState(uid=VOLCANO.uid, phase=Phase.ABORTED)
    await ring.turn(volcano_job(4, finished=True, phase="Aborted"))
    await ring.turn()
    kinds = await ring.one("SELECT string_agg(kind || ' ' || code, ', ' ORDER BY id) FROM decisions")
    assert kinds == "admit gang, free suspended"


async def test_the_log_of_decisions_tells_one_gang_however_many_parts_it_has(ring: Ring) -> None:
    elastic = replace(volcano_job(8), minimum=2)
    await ring.begin(*QUEUES, node("n1"), elastic)
    await ring.turn()
    assert [len(each.seats) for each in ring.admissions] == [2, *[1] * 6]
    assert await ring.stored() == ring.admissions, "as a new leader reads it"
    parts = [
        Evict(
            admission=each.id,
            code=ReasonCode.RECLAIMED,
            message="for another workload",
            beneficiary=JOB,
            elastic=True,
        )
        for each in ring.admissions[-3:]
    ]
    plan = Plan(now=NOW, ledger_seq=ring.cycle.world.ledger.seq, evicts=tuple(parts))
    lost = {each.admission: 100 for each in parts}
    known = {each.id: each for each in ring.admissions}
    await apply(ring.database, ring.term, TurnPlan(plan=plan, lost=lost), known, armed(None))
    told = await ring.one(
        "SELECT string_agg(concat_ws(' ', kind, code, numbers->>'seats', numbers->>'lostDeviceSeconds'), ', '"
        " ORDER BY id) FROM decisions"
    )
    assert told == "admit gang 8, evict Reclaimed 3 300"
    assert await ring.one("SELECT count(*) FROM backoffs") == 0, "the gang was not evicted"


async def test_a_gang_the_ledger_refuses_stays_pending_with_the_ledgers_reason(ring: Ring) -> None:
    await ring.begin(*QUEUES, node("n1"), volcano_job(4), replace(job(1), minimum=1))
    await ring.turn()
    (held,) = [each for each in ring.admissions if each.workload == VOLCANO]
    beyond = Admit(
        workload=JOB,
        namespace="ns",
        name="train",
        queue=TEAM,
        priority=0,
        generation="",
        seats=tuple(
            Seat(pod_set="main", ordinal=index, node=NodeName("n1"), takes=gpus()) for index in range(1, 9)
        ),
    )
    plan = Plan(now=NOW, ledger_seq=ring.cycle.world.ledger.seq, admits=(beyond,))
    applied = await apply(ring.database, ring.term, TurnPlan(plan=plan), {held.id: held}, armed(None))
    assert applied.admitted == ()
    assert applied.dropped.keys() == {JOB}
    assert held in await ring.stored()


async def refuse_rows(ring: Ring, table: str, condition: str) -> None:
    """From now on Postgres refuses rows of a table unless they meet the condition."""
    async with ring.database.transaction() as tx:
        await tx.execute(text(f"ALTER TABLE {table} ADD CONSTRAINT poison CHECK ({condition}) NOT VALID"))


def jobs_of_one(*names: str) -> list[WorkloadFact]:
    return [replace(job(1), key=WorkloadKey(kind_names.JOB, name), name=name) for name in names]


async def test_a_workload_whose_row_postgres_refuses_is_set_aside_and_all_others_go_in(ring: Ring) -> None:
    poison, *others = jobs_of_one("c-poison", "a", "b", "d", "e")
    await ring.begin(*QUEUES, node("n1"), poison, *others)
    await refuse_rows(ring, "admissions", "name <> 'c-poison'")
    assert (await ring.turn()).set_aside == 1
    await ring.turn()
    assert {each.name for each in ring.admissions} == {"a", "b", "d", "e"}
    assert await ring.stored() == ring.admissions
    assert ring.cycle.world.ledger.reasons[poison.key].code == "Defect"


async def test_a_workload_that_was_set_aside_is_tried_again_when_it_changes_and_after_a_while(
    ring: Ring,
) -> None:
    (poison,) = jobs_of_one("poison")
    await ring.begin(*QUEUES, node("n1"), poison)
    await refuse_rows(ring, "admissions", "name <> 'poison' OR cardinality(nodes) > 1")
    for _ in range(3):
        await ring.turn()
    assert ring.cycle.world.ledger.reasons[poison.key].code == "Defect"
    ring.now += 601
    await ring.turn()
    await ring.turn()
    assert ring.cycle.world.ledger.reasons[poison.key].code == "Defect"
    await ring.turn(replace(poison, minimum=2, pod_sets=job(2).pod_sets))
    assert [each.name for each in ring.admissions] == ["poison"]


async def be_slow(ring: Ring, table: str, rows: int) -> None:
    """From now on Postgres does not get a statement done in time that is about more than so many rows of a table."""
    async with ring.database.transaction() as tx:
        await tx.execute(
            text(
                "CREATE FUNCTION be_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                f" IF (SELECT count(*) FROM added) > {rows} THEN"
                "   RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014';"
                " END IF; RETURN NULL; END $$"
            )
        )
        await tx.execute(
            text(
                f"CREATE TRIGGER slow AFTER INSERT ON {table} REFERENCING NEW TABLE AS added"
                " FOR EACH STATEMENT EXECUTE FUNCTION be_slow()"
            )
        )


@pytest.mark.parametrize(("table", "nodes"), [("admissions", 2), ("reasons", 0)])
async def test_a_plan_that_postgres_does_not_get_done_in_time_is_stored_in_smaller_ones(
    ring: Ring, table: str, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle, "SEATS_PER_PLAN", 16)
    monkeypatch.setattr(cycle, "REASONS_PER_TURN", 16)
    names = [f"job-{number:02}" for number in range(12)]
    await ring.begin(*QUEUES, *(node(f"n{number}") for number in range(nodes)), *jobs_of_one(*names))
    await be_slow(ring, table, rows=3)
    put_off = 0
    for _ in range(20):
        ring.now += 1
        try:
            await ring.turn()
        except DatabaseTooSlow:
            put_off += 1
    stored = await ring.one(f"SELECT count(*) FROM {table}")
    assert (stored, put_off > 0) == (12, True)


async def test_arrivals_that_postgres_does_not_store_in_time_are_stored_in_smaller_parts(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "ROWS", 16)
    await ring.begin(*QUEUES, node("n1"), *jobs_of_one(*(f"job-{number:02}" for number in range(12))))
    await be_slow(ring, "workloads", rows=3)
    put_off = 0
    for _ in range(8):
        try:
            await ring.turn()
        except DatabaseTooSlow:
            put_off += 1
    assert (await ring.one("SELECT count(*) FROM workloads"), put_off > 0) == (12, True)
    assert len(ring.admissions) == 8


async def test_departures_that_postgres_does_not_store_in_time_are_stored_in_smaller_parts(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "ROWS_OF_REST", 16)
    jobs = jobs_of_one(*(f"job-{number:02}" for number in range(12)))
    await ring.begin(*QUEUES, *jobs)
    await ring.turn()
    await be_slow(ring, "ended_workloads", rows=3)
    await ring.turn(*map(gone, jobs))
    for _ in range(20):
        await ring.turn()
    assert await ring.one("SELECT count(*) FROM ended_workloads") == 12


async def test_seats_that_postgres_does_not_take_back_stop_nobody_else(ring: Ring) -> None:
    """As when a balance is wrong, and would fall below zero."""
    poison, other = jobs_of_one("poison", "other")
    await ring.begin(*QUEUES, node("n1"), poison)
    await ring.turn()
    await refuse_rows(ring, "closed_admissions", "name <> 'poison'")
    await ring.turn(gone(poison), other)
    await ring.turn()
    assert {each.name for each in ring.admissions} == {"poison", "other"}
    assert await ring.stored() == ring.admissions


async def test_a_refusal_that_does_not_come_back_is_blamed_on_no_workload(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(*_: object) -> Applied:
        raise DataRefused(reason="once")

    await ring.begin(*QUEUES, node("n1"), *jobs_of_one("a", "b"))
    monkeypatch.setattr(cycle, "apply", refuses)
    with pytest.raises(DataRefused):
        await ring.turn()
    assert len(ring.cycle.world.aside) == 0


async def test_a_refusal_that_is_no_workloads_fault_ends_the_term(ring: Ring) -> None:
    await ring.begin(*QUEUES, node("n1"), *jobs_of_one("a", "b"))
    await refuse_rows(ring, "fences", "ledger_seq = 0")
    with pytest.raises(DataRefused):
        await ring.turn()


async def test_a_plan_of_another_ledger_sequence_writes_nothing(ring: Ring) -> None:
    await ring.begin(*QUEUES, node("n1"), volcano_job(1))
    await ring.turn()
    stale = Plan(now=NOW, ledger_seq=ring.cycle.world.ledger.seq - 1, starts=(ring.admissions[0].id,))
    with pytest.raises(Fenced):
        await apply(ring.database, ring.term, TurnPlan(plan=stale), {}, armed(None))
    assert await ring.stored() == ring.admissions


async def test_pods_that_run_already_are_in_the_books_after_the_first_turn(ring: Ring) -> None:
    running = migrated("a", "n1", owner=JOB)
    await ring.begin(*QUEUES, node("n1"), job(1), running)
    report = await ring.turn()
    assert (report.adopted, ring.admissions[0].adopted, ring.admissions[0].started) == (1, {"a": 0}, True)
    assert await ring.stored() == ring.admissions


async def test_running_pods_are_adopted_though_their_queue_does_not_exist(ring: Ring) -> None:
    await ring.begin(*QUEUES, node("n1"), job(1, queue=QueueName("nowhere")), migrated("a", "n1", owner=JOB))
    assert (await ring.turn()).adopted == 1


async def test_a_queue_that_is_deleted_keeps_what_it_holds_and_takes_nothing_new(ring: Ring) -> None:
    await ring.begin(*QUEUES, node("n1"), volcano_job(1))
    await ring.turn()
    await ring.turn(gone(QUEUES[1]), group(1), gated("a", group="gang"))
    assert [each.workload for each in ring.admissions] == [VOLCANO]
    assert ring.cycle.world.ledger.reasons[GROUP].code == "UnknownQueue"
    await ring.turn(gone(volcano_job(1)))
    assert ring.admissions == []


async def test_a_queue_that_moves_takes_its_use_along(ring: Ring) -> None:
    other = queue("other", parent=ROOT)
    await ring.begin(*QUEUES, other, node("n1"), volcano_job(3))
    await ring.turn()
    await ring.turn(queue("team", parent=QueueName("other")))
    assert (
        await ring.one(f"SELECT used FROM queue_balances WHERE queue = 'other' AND resource = '{GPU}'")
        == 3000
    )


async def test_gauges_tell_what_queues_use_and_deserve(ring: Ring) -> None:
    limits = Limits(deserved=Resources({GPU: 6000}))
    await ring.begin(
        queue("root"), queue("team", parent=ROOT, limits=limits), node("n1"), volcano_job(3, created=NOW - 5)
    )
    report = await ring.turn()
    assert report.stages[Stage.ADMITTED] == [5]
    assert list(report.waits) == [GangWait(TEAM, 3, 5)]
    ring.cycle.stages.note_released([ring.admissions[0].id], NOW + 2.0)
    report = await ring.turn(*(released(f"p{i}", f"worker/{i}", "n1", owner=VOLCANO) for i in range(3)))
    assert report.books is not None
    assert (report.books.used[TEAM, GPUS], report.books.deserved[TEAM, GPUS]) == (3000, 6000)
    assert (len(report.stages[Stage.BOUND]), report.stages[Stage.RELEASED]) == (1, [2.0])
    assert TEAM in report.books.tree.paths


async def test_what_postgres_cannot_store_as_it_is_stops_nobody(ring: Ring) -> None:
    """Texts of users may hold characters that Postgres has no place for."""
    odd = job(1, queue=QueueName("a\x00b"), generation="\x00")
    await ring.begin(*QUEUES, node("n1"), odd, volcano_job(1))
    assert (await ring.turn()).admitted == 1
    assert ring.cycle.world.ledger.reasons[JOB].code == "UnknownQueue"


async def test_foreign_pods_beyond_what_a_node_has_stop_nobody(ring: Ring) -> None:
    foreign = pod("f", "n1", takes=Resources({GPU: 9000, "example.com/none": 1000, "pods": 1}))
    await ring.begin(*QUEUES, node("n1"), node("n2"), foreign, volcano_job(1))
    assert (await ring.turn()).admitted == 1
    assert ring.admissions[0].seats[0].node == "n2"


async def test_amounts_beyond_any_cluster_wait_with_a_reason(ring: Ring) -> None:
    sets = (replace(volcano_job(1).pod_sets[0], count=16, takes=Resources({"memory": 2**60, "pods": 1})),)
    huge = volcano_job(16, pod_sets=sets)
    await ring.begin(*QUEUES, node("n1"), huge, job(1))
    assert (await ring.turn()).admitted == 1
    assert VOLCANO in ring.cycle.world.ledger.reasons


async def test_a_bare_pod_that_ended_leaves_nothing_behind(ring: Ring) -> None:
    key = WorkloadKey(kind_names.POD, "bare")
    await ring.begin(*QUEUES, node("n1"), gated("bare", queue=TEAM, owner=key))
    await ring.turn()
    (held,) = ring.admissions
    await ring.turn(released("bare", "pod/0", "n1", by=held.id, queue=TEAM, owner=key))
    await ring.turn(gone(gated("bare")))
    await ring.turn()
    assert (ring.admissions, ring.cycle.world.states, ring.cycle.world.admission_index.closed) == ([], {}, {})
