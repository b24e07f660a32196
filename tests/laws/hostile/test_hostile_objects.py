"""Whatever an object says, it harms itself only: nothing raises, and the work of others gets in as without it."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from admission.containment.decider import Decider
from admission.containment.decision_thread import DecisionThread
from admission.cycle import Cycle
from admission.engine.decide import Memo, decide
from admission.facts.cluster import HyperNodeFact, QueueFact
from admission.reconcile.events import waiting_event
from admission.reconcile.release import orders_for
from admission.reconcile.status import merge_patch, settled
from admission.reconcile.volcano_jobs import VolcanoJobController
from admission.reconcile.world_status import QueueStatuses, WorldStatuses
from admission.volcano_jobs.pods import PodRules
from admission.workloads.inputs import Timeouts
from admission.world.world import World
from queues.plan import Plan
from queues.sql.database import Database
from queues.sql.leadership import elect
from queues.sql.world import load_world
from queues.workload import AdmissionId, WorkloadKey
from queues.world_rows import WorldRows
from tests.builders.empty_ledger import empty_ledger
from tests.builders.facts import NOW
from tests.builders.hostile_objects import Hostile, hostile_objects
from tests.laws.worlds.hostile import OTHERS, THEIR_PODS, told
from tests.laws.worlds.settings import tried_of

OBJECTS = hostile_objects()
CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
#: Characters of what is kept of one object, its document aside.
MOST_KEPT = 300_000


class _World:
    """A world without a database: turns, and everything that follows from them."""

    def __init__(self, objects: Sequence[Hostile]) -> None:
        self.informers = told([*OTHERS, *objects])
        self.world = World(WorldRows(), Timeouts())
        self.jobs = VolcanoJobController(PodRules())
        self.admitted: dict[WorkloadKey, int] = {}
        self.world.observe(self.informers.everything())

    def turn(self, now: int) -> None:
        """Look, decide, take the plan in, and say what must be written."""
        dirty = self.refresh(now)
        self.jobs.transitions(self.world, sorted(dirty, key=str), now)
        plan, _ = decide(self.world.freeze(now), Memo())
        self.take(plan)
        self.refresh(now)
        self.write(now)
        assert not self.world.take_defects()

    def refresh(self, now: int) -> set[WorkloadKey]:
        dirty = set(self.world.refresh(now))
        fresh = sorted(self.world.unsaved.arrivals, key=lambda key: (key.uid, key.kind))
        first = len(self.world.ledger.arrivals) + 1
        self.world.number({key: first + place for place, key in enumerate(fresh)})
        self.world.unsaved.arrivals.clear()
        return dirty | set(self.world.refresh(now))

    def take(self, plan: Plan) -> None:
        opened = []
        for admit in (*plan.admits, *(adopt.admit for adopt in plan.adopts)):
            number = AdmissionId(len(self.world.admissions) + len(opened) + 1)
            opened.append(admit.opened(number, plan.now))
            self.admitted[admit.workload] = self.admitted.get(admit.workload, 0) + len(admit.seats)
        self.world.put_admissions(opened)
        self.world.ledger.put_reasons(plan.reasons, ())

    def write(self, now: int) -> None:
        statuses = WorldStatuses(self.world, self.jobs, {})
        for key, state in self.world.states.items():
            for wanted in statuses.of(key):
                merge_patch({}, settled(wanted, {}, now))
            waiting_event(self.world, key, statuses.why_waiting(key))
            orders_for(state, self.world.facts.get(key), self.world.node_inventory, self.world.timeouts)
        for wanted in QueueStatuses(self.world).changed():
            merge_patch({}, settled(wanted, {}, now))
        self.jobs.work(self.world, list(self.world.states), now)

    def of_others(self) -> dict[str, int]:
        """Seats of the other tenant's workloads."""
        return {
            key.uid: seats
            for key, seats in self.admitted.items()
            if self.world.states[key].workload.namespace == "theirs"
        }


def check(objects: Sequence[Hostile], logged: pytest.LogCaptureFixture) -> None:
    logged.clear()
    lived = _World(objects)
    lived.turn(NOW)
    lived.turn(NOW + 100)
    assert sum(lived.of_others().values()) == THEIR_PODS
    # Not what the loop says of tasks that tests before this one have left.
    assert not [record for record in logged.records if record.levelno >= logging.ERROR and _is_ours(record)]
    for informer in lived.informers.by_name.values():
        for kept in informer.collection.kept.values():
            assert len(repr(_without_its_document(kept.value))) < MOST_KEPT


def _without_its_document(fact: object) -> object:
    """A fact without what is kept as written: queues and HyperNodes are of administrators, and may be long."""
    match fact:
        case QueueFact():
            return replace(fact, document={})
        case HyperNodeFact():
            return replace(fact, members=())
    return fact


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name.startswith(("admission.", "queues."))


@settings(max_examples=tried_of(100), suppress_health_check=[*CHECKS, HealthCheck.function_scoped_fixture])
@given(objects=OBJECTS)
def test_a_hostile_object_harms_itself_only(objects: list[Hostile], caplog: pytest.LogCaptureFixture) -> None:
    check(objects, caplog)


@pytest.mark.long
@settings(max_examples=5000, suppress_health_check=[*CHECKS, HealthCheck.function_scoped_fixture])
@given(objects=OBJECTS)
def test_thousands_of_hostile_objects_harm_themselves_only(
    objects: list[Hostile], caplog: pytest.LogCaptureFixture
) -> None:
    check(objects, caplog)


async def leads(database: Database, objects: Sequence[Hostile]) -> None:
    """A term on an empty database that is told these objects, and makes three turns."""
    async with database.transaction() as tx:
        await empty_ledger(tx)
    async with database.transaction() as tx:
        term = await elect(tx, "leader", 600.0)
    assert term is not None
    async with database.snapshot() as tx:
        rows = await load_world(tx)
    world, jobs, now = World(rows, Timeouts()), VolcanoJobController(PodRules()), [NOW]
    world.observe(told([*OTHERS, *objects]).everything())
    world.drop_gone(rows.queues, rows.nodes)
    cycle = Cycle(
        database,
        term,
        world,
        awaited=lambda key: {},
        transitions=jobs.transitions,
        clock=lambda: now[0],
        decider=Decider(DecisionThread(60.0), keep=lambda snapshot: None),
        failpoint=lambda point: None,
    )
    for _ in range(3):
        await cycle.turn()
        now[0] += 100
        for key in world.states:
            world.mark_dirty(key)
    # What Postgres refuses, or the engine fails for, would be set aside.
    assert not world.set_aside_count()
    theirs = [each for each in world.admissions.values() if each.namespace == "theirs"]
    assert sum(len(each.holding()) for each in theirs) == THEIR_PODS


async def test_postgres_takes_whatever_is_made_of_hostile_objects(muster: Database) -> None:
    loop = asyncio.get_running_loop()

    @settings(max_examples=tried_of(60), suppress_health_check=CHECKS)
    @given(objects=OBJECTS)
    def try_them(objects: list[Hostile]) -> None:
        asyncio.run_coroutine_threadsafe(leads(muster, objects), loop).result(60)

    await asyncio.to_thread(try_them)
