"""What the world notes for Postgres when it sees something."""

from dataclasses import replace

from admission.facts import Change, FactKind, WorkloadFact
from admission.portrait import Patience
from admission.world import LedgerRows, World
from queues.resources import Resources
from queues.workload import PodSet, QueueName, WorkloadKey, WorkloadKind

KEY = WorkloadKey(WorkloadKind.JOB, "uid-1")
JOB = WorkloadFact(
    key=KEY,
    namespace="team",
    name="train",
    queue=QueueName("team"),
    minimum=1,
    suspended=True,
    pod_sets=(PodSet(name="main", count=1, minimum=1, takes=Resources({"cpu": 1000})),),
)


def seen(world: World, fact: WorkloadFact | None) -> None:
    world.observe([Change(FactKind.WORKLOAD, KEY.uid, fact, KEY.kind)])
    world.refresh(0)


def stored(world: World) -> None:
    world.saved(world.unsaved.arrivals.copy(), world.unsaved.described.copy(), (), {}, (), ())


def test_a_workload_that_ended_is_told_to_those_who_ask_who_waits() -> None:
    world = World(LedgerRows(arrivals={KEY: 1}), Patience())
    seen(world, JOB)
    stored(world)
    seen(world, replace(JOB, finished=True))
    assert KEY in world.unsaved.described


def test_what_changes_nothing_that_is_told_is_not_written_again() -> None:
    world = World(LedgerRows(arrivals={KEY: 1}), Patience())
    seen(world, JOB)
    stored(world)
    seen(world, replace(JOB, generation="2"))
    assert not world.unsaved
