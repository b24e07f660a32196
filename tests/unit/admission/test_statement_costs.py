"""What the statements of a turn cost Postgres, without a clock: the rows that it looks at grow with the rows given."""

from collections import Counter
from dataclasses import replace

import pytest

from admission import intake
from admission.cycle import Cycle
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from queues import kind_names
from queues.admissions import Admission, PodOutcome
from queues.quota.queue import ROOT
from queues.sql import leadership
from queues.sql.database import Database
from queues.sql.leadership import Term
from queues.sql.observed.workloads import record_outcomes
from queues.workload import QueueName, WorkloadKey
from tests.builders.cycles import begun_world, cycle_over
from tests.builders.explained_statements import LOOKED, explained
from tests.builders.facts import NOW, gone, node, queue, released, seen, volcano_job

FEW, MANY = 160, 640


def jobs(count: int) -> list[WorkloadFact]:
    names = [f"of-{count}-{number}" for number in range(count)]
    return [
        replace(volcano_job(1), key=WorkloadKey(kind_names.VOLCANO_JOB, name), name=name) for name in names
    ]


def outcome(job: WorkloadFact) -> PodOutcome:
    return PodOutcome(
        workload=job.key, pod_set="worker", ordinal=0, pod_uid=f"{job.name}-0", phase="Succeeded"
    )


def pod_of(admission: Admission) -> PodFact:
    """The pod of a Job that runs in its seat, has left its Job, and is adopted."""
    (seat,) = admission.seats
    return released(f"{admission.name}-left", "worker/0", seat.node, by=admission.id, queue=admission.queue)


async def live(database: Database, term: Term, cycle: Cycle, count: int) -> None:
    """So many Jobs arrive; half of them get seats, the others reasons; some pods are adopted; nodes and all else go."""
    world, here = cycle.world, jobs(count)
    nodes = [node(f"n{number}", count=count // 20) for number in range(10)]
    await cycle.turn([seen(each) for each in (*nodes, *here)])
    while cycle.has_stopped():
        await cycle.turn()
    assert (len(world.admissions), len(world.ledger.reasons)) == (count // 2, count - count // 2)
    async with database.transaction() as tx:
        await record_outcomes(tx, term, [outcome(job) for job in here])
    await cycle.turn([seen(pod_of(each)) for each in list(world.admissions.values())[: count // 4]])
    await cycle.turn([gone(each) for each in nodes])
    await cycle.turn()
    assert len(world.admissions) == count // 4
    assert {each.workload.kind for each in world.admissions.values()} == {kind_names.POD}
    await cycle.turn([gone(each) for each in (*world.pods.values(), *here)])
    while world.ledger.arrivals:
        await cycle.turn()
        await cycle.store_rest()


async def test_statements_look_at_so_many_rows_for_each_row_that_they_are_given(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "ROWS_OF_REST", MANY)
    connected = await explained(database, monkeypatch)
    try:
        async with connected.transaction() as tx:
            term = await leadership.elect(tx, "me", 600.0)
        assert term is not None
        world = await begun_world(connected, [queue("root"), queue("team", parent=QueueName(ROOT))])
        cycle = cycle_over(connected, term, world, lambda: NOW)
        looked: list[Counter[str]] = []
        for count in (FEW, MANY):
            LOOKED.clear()
            await live(connected, term, cycle, count)
            looked.append(LOOKED.copy())
    finally:
        await connected.close()
    few, many = looked
    for table in ("ended_workloads", "closed_admissions", "backoffs"):
        assert any(f"INSERT INTO {table}" in text for text in few), table
    steeper = {
        text: (few[text], many[text]) for text in few if many[text] > 1.5 * MANY / FEW * few[text] + MANY
    }
    assert steeper == {}
