"""A decision that does not end costs one term, and from then on only the workload that it did not get done with."""

from collections.abc import Iterator
from dataclasses import replace
from time import sleep

import pytest
import pytest_asyncio

from admission.containment.decision_thread import DecisionTooLong
from admission.engine.placement import gangs
from admission.engine.placement.need import MissingMembers
from admission.engine.trial import Trial
from admission.facts.changes import Fact
from admission.facts.workloads import WorkloadFact
from admission.world.learned.held_back import TRIED_AGAIN_AFTER
from queues import kind_names
from queues.plan import Admit, Reason
from queues.quota.queue import ROOT
from queues.resources import GPU, Resources
from queues.sql.database import Database
from queues.workload import PodSet, Workload, WorkloadKey
from tests.builders.cycles import Leaders
from tests.builders.facts import job, node, queue

#: Seconds of a decision that does not end.
SHORT = 1.5
CLUSTER = (node("n1"), node("n2"), queue("root"), queue("team", parent=ROOT))


def named(name: str, count: int = 1) -> WorkloadFact:
    """A Job. Its generation tells how many pods it has, as that of a real one does."""
    key = WorkloadKey(kind_names.JOB, name)
    return replace(job(count), key=key, name=name, generation=f"of {count}")


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Names of the workloads that the engine does not get done with, as they are asked for now."""
    names, admit = set[str](), gangs.admit

    def tries(workload: Workload, need: MissingMembers, trial: Trial) -> Admit | Reason:
        found = admit(workload, need, trial)
        while workload.name in names:
            sleep(0.001)
        return found

    monkeypatch.setattr(gangs, "admit", tries)
    yield names
    names.clear()


async def stuck_one(leaders: Leaders, *facts: Fact) -> None:
    """Another replica leads, and its first decision does not end."""
    await leaders.next_one(*facts, limit=SHORT)
    with pytest.raises(DecisionTooLong):
        await leaders.turn()


@pytest_asyncio.fixture
async def leaders(muster: Database) -> Leaders:
    return Leaders(muster, CLUSTER)


async def test_the_next_leader_goes_on_without_the_workload_and_so_does_every_later_one(
    leaders: Leaders, endless: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    jobs = named("a", 2), named("b", 4), named("poison"), named("z", 3)
    endless.add("poison")
    await stuck_one(leaders, *jobs)
    assert "job/ns/poison" in str([vars(each).get("workloads") for each in caplog.records])
    for _ in range(2):
        await leaders.next_one(*jobs)
        report = await leaders.turn()
        assert report.set_aside == 1
        assert leaders.admitted() == {"a", "b", "z"}
        assert leaders.waiting() == {"poison": "Defect"}
    obstacle = leaders.cycle.world.states[WorkloadKey(kind_names.JOB, "poison")].workload.obstacle
    assert obstacle is not None
    assert "did not end" in obstacle.message


async def test_it_is_tried_again_when_it_has_changed_and_not_at_once(
    leaders: Leaders, endless: set[str]
) -> None:
    endless.add("poison")
    await stuck_one(leaders, named("poison"))
    await leaders.next_one(named("poison"))
    await leaders.turn()
    endless.clear()
    await leaders.turn(named("poison", 2))
    assert leaders.waiting() == {"poison": "Defect"}, (
        "whoever changes it often costs nobody a decision each time"
    )
    await leaders.turn(named("poison"))
    leaders.now += TRIED_AGAIN_AFTER
    await leaders.next_one(named("poison"))
    await leaders.turn()
    assert leaders.waiting() == {"poison": "Defect"}, "it is the same that it was"
    await leaders.turn(named("poison", 2))
    assert leaders.admitted() == {"poison"}


async def test_the_next_workload_follows_if_the_next_decision_does_not_end_either(
    leaders: Leaders, endless: set[str]
) -> None:
    jobs = named("a"), named("b", 2), named("c", 3)
    endless |= {"a", "c"}
    for _ in range(2):
        await stuck_one(leaders, *jobs)
    await leaders.next_one(*jobs)
    await leaders.turn()
    assert leaders.admitted() == {"b"}
    assert leaders.waiting() == {"a": "Defect", "c": "Defect"}


async def test_what_asks_for_the_same_in_its_namespace_and_queue_is_set_aside_with_it(
    leaders: Leaders, endless: set[str]
) -> None:
    alike = [named(f"alike-{number}") for number in range(5)]
    others = replace(named("elsewhere"), namespace="other"), named("larger", 2)
    endless |= {f"alike-{number}" for number in range(5)}
    await stuck_one(leaders, *alike, *others)
    await leaders.next_one(*alike, *others)
    await leaders.turn()
    assert leaders.admitted() == {"elsewhere", "larger"}


async def test_what_it_holds_can_end_while_it_is_set_aside(leaders: Leaders, endless: set[str]) -> None:
    """A Job that runs, and asks for more."""
    running = named("poison")
    await leaders.next_one(running)
    await leaders.turn()
    more = replace(running, pod_sets=(*running.pod_sets, extra()))
    endless.add("poison")
    await stuck_one(leaders, more)
    await leaders.next_one(more)
    await leaders.turn()
    assert leaders.admitted() == {"poison"}
    await leaders.turn(replace(more, finished=True))
    await leaders.turn()
    assert leaders.admitted() == set()


def extra() -> PodSet:
    return PodSet(name="extra", count=1, takes=Resources({GPU: 1000, "pods": 1}))
