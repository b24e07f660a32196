"""Volcano Jobs that cannot have the names of their pods: they go back, and wait without seats until they can."""

from dataclasses import replace
from typing import Any

from admission.workloads.inputs import Timeouts
from admission.world.world import World
from queues.admissions import Admission, AdmissionState
from queues.plan import Reason, Setback
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId
from queues.world_rows import WorldRows
from tests.builders.facts import (
    GRACE,
    NOW,
    VOLCANO,
    admission,
    gone,
    node,
    pod,
    released,
    see,
    seen,
    volcano_job,
)

SQUATTER = pod("train-worker-1")
TAKEN = "pod train-worker-1 exists and is not this Job's; delete it or rename the Job"


def refusal(admission_id: int = 1, **facts: Any) -> Reason:
    told = {"admission": AdmissionId(admission_id), "pod": "train-worker-1"} | facts
    return Reason(code=ReasonCode.NAME_TAKEN, message=TAKEN, facts=told)


def begun(taken: Admission, *pods: Any, minimum: int = 2, refused: Reason | None = None) -> World:
    rows = WorldRows(arrivals={VOLCANO: 1}, admissions=(taken,))
    world = World(rows, Timeouts(refusal_grace=GRACE))
    world.refusals = {VOLCANO: refused or refusal()}
    facts = (node("n1"), volcano_job(2, minimum=minimum), SQUATTER, *pods)
    world.observe([seen(fact) for fact in facts])
    world.refresh(NOW)
    return world


def gone_back(minimum: int = 2) -> World:
    """The gang has gone back: its seats are free."""
    taken = admission(VOLCANO, "n1 n1")
    world = begun(taken, minimum=minimum)
    rollback = world.states[VOLCANO].evictable[taken.id]
    world.put_setback(VOLCANO, Setback(not_before=rollback.not_before), NOW)
    world.put_admissions([replace(taken, state=AdmissionState.CLOSED, ended=frozenset({0, 1}))])
    world.refusals.clear()
    world.refresh(NOW)
    return world


def waits_for(world: World) -> ReasonCode | None:
    obstacle = world.states[VOLCANO].workload.obstacle
    return None if obstacle is None else obstacle.code


def test_a_gang_that_cannot_have_a_name_goes_back_and_says_which() -> None:
    rollback = begun(admission(VOLCANO, "n1 n1")).states[VOLCANO].evictable[AdmissionId(1)]
    assert (rollback.code, rollback.message) == (ReasonCode.NAME_TAKEN, TAKEN)


def test_it_waits_without_seats_and_with_the_name_as_its_reason() -> None:
    state = gone_back().states[VOLCANO]
    assert state.workload.obstacle == (ReasonCode.NAME_TAKEN, TAKEN)
    assert (state.needs_seats, state.seat_maps) == (True, ())


def test_it_is_tried_again_as_soon_as_the_name_is_free() -> None:
    world = gone_back()
    world.observe([gone(SQUATTER)])
    assert VOLCANO in world.refresh(NOW)
    assert waits_for(world) is None
    assert world.states[VOLCANO].workload.not_before <= NOW


def test_it_is_tried_again_after_pauses_that_grow() -> None:
    """Not everything that has a name is watched: nobody may say when it is free."""
    world = gone_back()
    world.refresh(NOW + 9)
    assert waits_for(world) is ReasonCode.NAME_TAKEN
    world.refresh(NOW + 10)
    assert waits_for(world) is None
    again = admission(VOLCANO, "n1 n1", number=2)
    world.put_admissions([again])
    world.refusals[VOLCANO] = refusal(2)
    world.refresh(NOW + 10)
    world.put_admissions([replace(again, state=AdmissionState.CLOSED, ended=frozenset({0, 1}))])
    world.refresh(NOW + 29)
    assert waits_for(world) is ReasonCode.NAME_TAKEN
    world.refresh(NOW + 30)
    assert waits_for(world) is None


def test_what_was_said_of_an_earlier_admission_sends_no_later_one_back() -> None:
    assert not begun(admission(VOLCANO, "n1 n1", number=2)).states[VOLCANO].evictable


def test_a_gang_that_needs_the_name_less_than_it_has_pods_stays() -> None:
    first = released("train-worker-0", "worker/0", "n1", owner=VOLCANO, owner_name="train")
    assert not begun(admission(VOLCANO, "n1 n1"), first, minimum=1).states[VOLCANO].evictable
    assert begun(admission(VOLCANO, "n1 n1"), first).states[VOLCANO].evictable


def test_a_changed_job_is_tried_again() -> None:
    world = gone_back()
    see(world, volcano_job(2, generation="another"))
    assert waits_for(world) is None
