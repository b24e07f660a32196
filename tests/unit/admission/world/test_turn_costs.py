"""What a turn costs the event loop, without a clock: what changed, however much is known beside it."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from admission.facts.changes import Change
from admission.facts.cluster import NamespaceFact
from admission.reconcile.world_status import QueueStatuses, WorldStatuses
from admission.volcano_jobs.state import JobState, Phase
from admission.world.world import World
from queues import kind_names
from queues.admissions import Admission, AdmissionState
from queues.plan import Reason
from queues.quota.queue import ROOT
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, QueueName, Requirement, WorkloadKey
from tests.builders.facts import (
    NOW,
    TEAM,
    admission,
    gone,
    group,
    node,
    queue,
    released,
    see,
    seen,
    volcano_job,
    world,
)
from tests.function_calls import calls_of

#: Jobs; half of them run.
FEW, MANY = 100, 400
#: Running Jobs of one node.
BESIDE = 5


def key(number: int) -> WorkloadKey:
    return WorkloadKey(kind_names.VOLCANO_JOB, f"j{number}")


def job(number: int) -> Change:
    return seen(replace(volcano_job(1), key=key(number), name=f"train-{number}"))


def pod(number: int, **facts: object) -> Change:
    of = {"owner": key(number), "index": 0, "task": "worker", "by": number + 1}
    return seen(released(f"p{number}", "worker/0", f"n{number // BESIDE}", **of, **facts))


def known(count: int) -> World:
    """So many Jobs are known; the first half of them run. One queue is gone, and nothing is held in it."""
    half = count // 2
    begun = world(
        [
            queue("root"),
            queue(TEAM, parent=QueueName(ROOT), namespace_selector=(Requirement("x", "DoesNotExist"),)),
            *(node(f"n{number}") for number in range(half // BESIDE)),
        ],
        [
            admission(key(number), f"n{number // BESIDE}", number=number + 1, started=True)
            for number in range(half)
        ],
        {key(number): number + 1 for number in (*range(count), MANY)},
    )
    begun.observe(
        [*(job(number) for number in (*range(count), MANY)), *(pod(number) for number in range(half))]
    )
    see(begun, queue("old"), gone(queue("old")), QUIET)
    begun.freeze(NOW)
    return begun


#: Statuses of queues in each world.
STATUSES: dict[int, QueueStatuses] = {}
#: A queue without work.
QUIET = queue("quiet", max_gang=1)


def turn(of: World, *changes: Change) -> None:
    """What the loop does of a turn, but for the transactions."""
    of.observe(changes)
    dirty = of.refresh(NOW + 1)
    of.freeze(NOW + 1)
    of.volcano_jobs.may_disappear()
    statuses = WorldStatuses(of, None, {})  # type: ignore[arg-type]
    for each in dirty:
        statuses.why_waiting(each)
    list(STATUSES.setdefault(id(of), QueueStatuses(of)).changed())


CHANGES = {
    "nothing": (),
    "a Job comes": (job(MANY + 1),),
    "a Job that runs goes": (replace(job(0), fact=None),),
    "another goes": (replace(job(MANY), fact=None),),
    "a pod gets a condition": (pod(1, ready_since=NOW),),
    "the status of a queue changes": (seen(replace(QUIET, shown="Closing")),),
    "the labels of a namespace change": (seen(NamespaceFact(name="other", labels={"x": "y"})),),
    "a pod goes": (replace(pod(1), fact=None),),
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_a_change_costs_the_same_whatever_else_is_there(changes: tuple[Change, ...]) -> None:
    few, many = (known(count) for count in (FEW, MANY))
    turn(few), turn(many)
    small, large = (calls_of(lambda of=of: turn(of, *changes)) for of in (few, many))
    assert large < 1.2 * small + FEW


def test_what_an_applied_plan_changes_costs_the_same_whatever_else_is_there() -> None:
    costs = []
    for count in (FEW, MANY):
        of = known(count)
        turn(of)
        closed = replace(of.admissions[AdmissionId(1)], state=AdmissionState.CLOSED)

        def apply(of: World = of, closed: Admission = closed) -> None:
            of.put_admissions([closed])
            turn(of)

        costs.append(calls_of(apply))
    assert costs[1] < 1.2 * costs[0] + FEW


def refuse(of: World) -> None:
    """The API server refuses a pod of the first Job."""
    of.refusals[key(0)] = Reason(code=ReasonCode.NAME_TAKEN, message="taken")
    of.look_again(key(0))


#: What writers and their objects tell of a Job that runs, and whether its state may be another one by it.
ABOUT_WRITES: dict[str, tuple[Callable[[World], None], bool]] = {
    "its object shows the phase that was written": (
        lambda of: of.observe([seen(replace(volcano_job(1), key=key(0), name="train-0", phase="Running"))]),
        False,
    ),
    "its object has ended": (
        lambda of: of.observe([seen(replace(volcano_job(1), key=key(0), name="train-0", finished=True))]),
        True,
    ),
    "its PodGroup shows the phase that was written": (
        lambda of: of.observe([seen(group(1, phase="Running", stands_for=key(0)))]),
        False,
    ),
    "a write has ended": (lambda of: of.look_again(key(0)), False),
    "a write was refused": (refuse, True),
    "the ledger says that it runs": (
        lambda of: of.put_job(key(0), JobState(uid="j0", phase=Phase.RUNNING)),
        False,
    ),
    "the ledger says that it restarts": (
        lambda of: of.put_job(key(0), JobState(uid="j0", phase=Phase.RESTARTING)),
        True,
    ),
}


@pytest.mark.parametrize(("told", "derived"), ABOUT_WRITES.values(), ids=ABOUT_WRITES)
def test_a_state_is_derived_anew_only_if_what_writers_tell_may_change_it(
    told: Callable[[World], None], *, derived: bool
) -> None:
    of = known(2)
    of.refresh(NOW)
    before = of.states[key(0)]
    told(of)
    assert key(0) in of.refresh(NOW), "its writers look at it in any case"
    assert (of.states[key(0)] is not before) == derived


def test_a_state_is_derived_anew_once_other_seats_are_awaited() -> None:
    of = known(2)
    awaited = {AdmissionId(1): frozenset({0})}
    states = []
    for seats in ({}, {}, awaited, awaited, {}):
        of.look_again(key(0))
        of.refresh(NOW, lambda each, seats=seats: seats)
        states.append(of.states[key(0)])
    assert [one is after for one, after in pairwise(states)] == [True, False, True, False]
