"""Gangs that lost pods which nothing makes again go back whole, as if they had never got ready."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from admission.facts.pods import PodFact, PodPhase
from admission.workloads.gang_readiness import JOB_FAILURE_BACKOFF
from admission.workloads.inputs import MissingSince
from admission.workloads.pod_shapes import shape_name
from admission.workloads.state import WorkloadState
from queues.admissions import Admission
from queues.plan import Reason
from queues.quota.queue import DEFAULT_POLICY
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, WorkloadKey
from tests.builders.facts import (
    GROUP,
    JOB,
    NOW,
    VOLCANO,
    admission,
    gated,
    gone,
    group,
    job,
    node,
    queue,
    released,
    see,
    state_of,
    volcano_job,
    world,
)
from tests.tables import named_rows

ONE, TWO = AdmissionId(1), AdmissionId(2)
#: The pods are lost now; when the time of the default policy is over.
OVER = NOW + 600
EVENTS = "(events of the Job say why its controller makes none)"
#: When what is missing is told.
TOLD = NOW + 30


def ready(of: WorkloadKey, nodes: str = "n1 n2", **facts: Any) -> Admission:
    return admission(of, nodes, **{"started": True, "opened_at": NOW - 7200, **facts})


def lost(*, seat: int = NOW, needed: int = NOW, of: AdmissionId = ONE) -> dict[str, Any]:
    """Input: what was missing already when the state was derived before."""
    return {"missing_since": {of: MissingSince(seat=seat, needed=needed)}}


def state(
    fact: Any, pods: Sequence[PodFact], taken: Admission, *more: Admission, now: int = OVER, **inputs: Any
) -> WorkloadState:
    return state_of(fact, pods, [taken, *more], now=now, **{**lost(), **inputs})


def message(found: WorkloadState) -> str:
    assert found.problem.code == "NotReady"
    return found.problem.message


WORKER = released("train-0", "worker/0", "n1", owner=VOLCANO)


@named_rows(
    ("fact", "taken", "names"),
    {
        "job": (job(2, directed=ONE), ready(JOB), f"2 seats without a pod {EVENTS}"),
        "indexed job": (job(2, directed=ONE, indexed=True), ready(JOB), f"main/0 and main/1 {EVENTS}"),
        "volcano job": (volcano_job(2), ready(VOLCANO), "worker/0 and worker/1"),
        "lost before it was ready": (
            job(2, directed=ONE),
            ready(JOB, ready=False),
            f"2 seats without a pod {EVENTS}",
        ),
    },
)
def test_a_gang_of_which_no_pod_is_made_again_goes_back_whole_with_what_is_missing(
    fact: Any, taken: Admission, names: str
) -> None:
    assert not (before := state(fact, [], taken, now=OVER - 1)).evictable
    assert before.look_at == OVER
    (rollback,) = state(fact, [], taken).evictable.values()
    assert rollback.code == "NotReady"
    assert rollback.message == f"2 of 2 pods missing 10m after the first of them was lost: {names}"
    assert rollback.not_before == OVER + 10
    assert rollback.revision, "it counts as a failure to get ready"


def test_the_time_runs_from_the_first_needed_pod_that_was_lost_and_ends_when_none_is_missing() -> None:
    fact, taken = volcano_job(2), ready(VOLCANO)
    first = state_of(fact, [WORKER], [taken], now=NOW)
    assert (first.remembered.missing_since, first.look_at) == (
        {ONE: MissingSince(seat=NOW, needed=NOW)},
        TOLD,
    )
    both = state_of(fact, [], [taken], now=NOW + 50, missing_since=first.remembered.missing_since)
    assert both.remembered.missing_since == first.remembered.missing_since
    whole = [WORKER, released("train-1", "worker/1", "n2", owner=VOLCANO)]
    again = state_of(fact, whole, [taken], now=NOW + 60, missing_since=both.remembered.missing_since)
    assert (again.remembered.missing_since, again.problem, again.look_at) == ({}, None, None)


def test_a_gang_that_lacks_one_of_the_pods_it_needs_goes_back_too() -> None:
    (rollback,) = state(volcano_job(2), [WORKER], ready(VOLCANO)).evictable.values()
    assert rollback.message.startswith("1 of 2 pods missing 10m after the first of them was lost: worker/1")


def test_what_refuses_the_pods_is_named() -> None:
    why = Reason(code=ReasonCode.REFUSED, message='pods "train-0" is forbidden: no service account')
    (rollback,) = state(volcano_job(2), [], ready(VOLCANO), refusal=why).evictable.values()
    told = 'worker/0 and worker/1 (pods "train-0" is forbidden: no service account)'
    assert rollback.message.endswith(told)


def test_a_successor_that_others_hold_back_is_missing_still() -> None:
    held = gated("again", other_gates=("example.org/wait",))
    (rollback,) = state(group(1), [held], ready(GROUP, "n1", pod_set=shape_name(held))).evictable.values()
    assert rollback.message.endswith("1 seat without a pod (scheduling gates of others: example.org/wait)")


def test_what_is_missing_is_told_while_there_is_time_left_but_not_while_pods_are_just_made_again(
    golden: Any,
) -> None:
    fact, taken = job(2, directed=ONE), ready(JOB)
    assert state(fact, [], taken, now=TOLD - 1).problem is None
    assert message(state(fact, [], taken, now=TOLD)) == golden


def test_a_gang_keeps_its_seats_and_says_so_where_the_queue_wants_that() -> None:
    never = replace(DEFAULT_POLICY, ready_within=0)
    found = state(volcano_job(2), [], ready(VOLCANO), now=NOW + 10**6, policy=never)
    assert not found.evictable
    assert message(found).endswith("; the gang keeps its seats, because policy.readyWithin is 0")


def test_an_elastic_gang_that_has_as_many_pods_as_it_needs_goes_on() -> None:
    fact = volcano_job(2, minimum=1)
    found = state(fact, [WORKER], ready(VOLCANO), now=NOW + 10**6)
    assert not found.evictable
    assert found.remembered.missing_since == {ONE: MissingSince(seat=NOW, needed=0)}
    assert message(found).endswith("worker/1; the others go on, and the seats are kept")


def test_a_pod_that_an_elastic_gang_can_do_without_says_nothing_about_one_that_it_lost_later() -> None:
    fact = volcano_job(2, minimum=1)
    found = state(fact, [], ready(VOLCANO), now=NOW + 10**6, **lost(needed=0))
    assert not found.evictable
    assert found.look_at == NOW + 10**6 + 600


def test_members_that_are_done_are_part_of_the_gang_still() -> None:
    done = {("worker", ordinal): PodPhase.SUCCEEDED for ordinal in (1, 2)}
    taken = ready(VOLCANO, "n1 n2 n3 n4")
    pods = [WORKER]
    found = state(volcano_job(4, minimum=3), pods, taken, outcomes=done)
    assert not found.evictable
    assert message(found).startswith("1 of 2 pods missing")


@pytest.mark.parametrize(
    "fact",
    [
        job(0, directed=ONE, parallelism=2),
        job(2, directed=ONE, finished=True),
        job(2, directed=ONE, deleting=True),
    ],
    ids=["all have succeeded", "finished", "being deleted"],
)
def test_a_job_that_ends_lacks_nothing(fact: Any) -> None:
    found = state(fact, [], ready(JOB))
    assert (found.evictable, found.problem, found.remembered.missing_since) == ({}, None, {})


def test_a_job_whose_controller_has_not_seen_its_pods_go_keeps_its_seats() -> None:
    """While the controller is away, a Job with pods that all succeeded looks the same."""
    found = state(job(2, directed=ONE, active=2), [], ready(JOB), now=NOW + 10**6)
    assert not found.evictable
    assert message(found).endswith("; the seats are kept: the Job's status still says 2 active pods")


def test_the_pause_of_the_job_controller_after_failures_is_waited_for() -> None:
    failed = released("a", None, "n1", owner=JOB, phase=PodPhase.FAILED)
    fact, over = job(2, directed=ONE), OVER + JOB_FAILURE_BACKOFF
    assert not state(fact, [failed], ready(JOB), now=over - 1).evictable
    assert state(fact, [failed], ready(JOB), now=over).evictable


def test_what_joined_goes_with_its_gang_and_alone_once_it_has_no_pod() -> None:
    fact, base = volcano_job(2, minimum=1), ready(VOLCANO, "n1")
    joined = ready(VOLCANO, "n2", number=2, first=1)
    assert set(state(fact, [], base, joined).evictable) == {ONE, TWO}
    assert set(state(fact, [WORKER], base, joined, **lost(of=TWO)).evictable) == {TWO}


def test_what_joined_a_job_stays_because_a_job_is_suspended_whole() -> None:
    base, joined = ready(JOB, "n1"), ready(JOB, "n2", number=2, first=1)
    pods = [released("a", "main/0", "n1", owner=JOB)]
    found = state(job(2, minimum=1), pods, base, joined, now=NOW + 10**6, **lost(of=TWO))
    assert not found.evictable
    assert message(found).endswith("; the others go on, and the seats are kept")


def test_the_world_remembers_when_pods_were_lost_and_looks_again_when_the_time_is_over() -> None:
    pods = [released(f"train-{each}", f"worker/{each}", f"n{each + 1}", owner=VOLCANO) for each in range(2)]
    facts = (queue("team"), node("n1"), node("n2"), volcano_job(2), *pods)
    known = world(facts, [ready(VOLCANO)], arrivals={VOLCANO: 1})
    see(known, gone(pods[0]))
    assert VOLCANO not in known.refresh(TOLD - 1)
    assert VOLCANO in known.refresh(TOLD)
    see(known, gone(pods[1]), now=NOW + 100)
    assert VOLCANO in known.refresh(OVER)
    assert set(known.freeze(OVER).evictable) == {ONE}
    see(known, pods[0], pods[1], now=OVER)
    assert not known.states[VOLCANO].evictable
    assert not known.states[VOLCANO].remembered.missing_since


def test_another_policy_of_the_queue_counts_at_once() -> None:
    facts = (queue("team"), node("n1"), node("n2"), volcano_job(2))
    known = world(facts, [ready(VOLCANO)], arrivals={VOLCANO: 1})
    known.refresh(NOW + 60)
    assert not known.states[VOLCANO].evictable
    see(known, queue("team", policy=replace(DEFAULT_POLICY, ready_within=60)), now=NOW + 60)
    assert known.states[VOLCANO].evictable
