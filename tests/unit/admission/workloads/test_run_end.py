"""A workload that has held its seats for as long as its queue allows is ended, and not run again."""

from dataclasses import replace
from typing import Any

import pytest

from admission.reconcile.release import Verb, orders_for
from admission.workloads.inputs import Timeouts
from admission.workloads.state import WorkloadState
from admission.world.nodes import NodeInventory
from queues.admissions import NEVER_AGAIN, Admission, Setbacks
from queues.quota.queue import RunLimit
from queues.reason_codes import ReasonCode
from queues.workload import QueueName, Result
from tests.builders.facts import (
    GRACE,
    GROUP,
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    admission,
    evicting,
    gated,
    group,
    job,
    pod,
    queue,
    released,
    see,
    seen,
    state_of,
    volcano_job,
    world,
)

HOUR = RunLimit(3600, QueueName("top"))
RUN_OUT = Setbacks(not_before=NEVER_AGAIN, rollbacks=1)
RUNNING = (released("a", "worker/0", "n1"), released("b", "worker/1", "n2"))


def gang(admitted_ago: int, *more: Admission, limit: RunLimit | None = HOUR, **inputs: Any) -> WorkloadState:
    held = admission(VOLCANO, "n1 n2", started=True, opened_at=NOW - admitted_ago)
    return state_of(volcano_job(2), RUNNING, [held, *more], run_limit=limit, **inputs)


def test_it_is_ended_whole_at_the_second_at_which_its_time_is_over() -> None:
    assert gang(3599).evictable == {}
    joined = admission(VOLCANO, "n3", number=2, first=2, opened_at=NOW - 5, started=True)
    ended = gang(3600, joined).evictable
    assert set(ended) == {1, 2}, "members that joined do not prolong it"
    assert {each.code for each in ended.values()} == {ReasonCode.MAX_RUN_TIME}
    assert {each.not_before for each in ended.values()} == {NEVER_AGAIN}
    assert ended[1].message == "it has held its seats for the 1h that queue top allows (access.maxRunTime)"


def test_a_queue_without_a_limit_ends_nothing() -> None:
    state = gang(10**9, limit=None)
    assert (state.evictable, state.run_end, state.look_at) == ({}, None, None)


def test_it_is_looked_at_when_it_is_warned_and_when_it_ends() -> None:
    opened = NOW - 60
    warned, ends = opened + 3600 - 360, opened + 3600
    assert gang(60).look_at == warned
    assert gang(60, now=warned).look_at == ends
    assert gang(60, now=ends).look_at is None


@pytest.mark.parametrize(
    ("seconds", "before"), [(10, 1), (3, 1), (3600, 360), (72 * 3600, 1800), (5 * 3600, 1800)]
)
def test_it_is_warned_when_a_tenth_is_left_and_half_an_hour_before_at_most(seconds: int, before: int) -> None:
    limit = RunLimit(seconds, TEAM)
    assert limit.end(NOW) - limit.warning(NOW) == before


def test_the_end_goes_before_every_other_reason_to_go_back() -> None:
    assert gang(3600, dead_nodes=frozenset({"n1"})).evictable[1].code is ReasonCode.MAX_RUN_TIME


def test_what_has_ended_by_itself_is_not_ended() -> None:
    assert gang(3600, job_result=Result.SUCCEEDED).evictable == {}


@pytest.mark.parametrize("fact", [job(1), volcano_job(1), group(1)], ids=["job", "vcjob", "group"])
def test_it_is_not_run_again_and_says_why(fact: Any) -> None:
    waiting = state_of(fact, setbacks=RUN_OUT)
    assert waiting.workload.obstacle.code is ReasonCode.MAX_RUN_TIME
    assert "submit it anew" in waiting.workload.obstacle.message
    assert (waiting.workload.not_before, waiting.needs_seats) == (0, True)


def test_members_that_come_later_do_not_run_either() -> None:
    state = state_of(group(1), [gated("new", group="gang")], setbacks=RUN_OUT)
    assert state.workload.obstacle.code is ReasonCode.MAX_RUN_TIME


@pytest.mark.parametrize(
    ("setbacks", "made_again", "verb"),
    [(RUN_OUT, 0, Verb.DELETE_POD), (Setbacks(), 1, Verb.EVICT_POD)],
    ids=["its time is over", "evicted otherwise"],
)
def test_pods_are_not_made_again_and_no_budget_of_their_user_keeps_them(
    setbacks: Setbacks, made_again: int, verb: Verb
) -> None:
    leaving = evicting(admission(GROUP, "n1", pod_set="worker", started=True))
    alone = released("a", "worker/0", "n1", controller="", group="gang")
    assert len(state_of(group(1), [alone], [leaving], setbacks=setbacks).to_recreate) == made_again
    state = state_of(group(1), [replace(alone, controller="job/a")], [leaving], setbacks=setbacks)
    orders = orders_for(state, group(1), NodeInventory(), Timeouts(refusal_grace=GRACE))
    assert [order.verb for order in orders if order.intent == "evict"] == [verb]


def test_a_limit_that_changes_counts_at_once_for_what_runs() -> None:
    held = admission(JOB, "n1", started=True, opened_at=NOW - 100)
    top = queue("top", max_run_time=3600)
    known = world([top, queue(TEAM, parent="top"), job(1), pod("a", "n1")], [held], {JOB: 1})
    assert known.states[JOB].evictable == {}
    known.observe([seen(queue("top", max_run_time=60))])
    assert JOB in known.refresh(NOW)
    assert known.states[JOB].evictable[1].code is ReasonCode.MAX_RUN_TIME
    see(known, queue("top"))
    assert known.states[JOB].run_end is None


def test_the_queue_that_let_it_in_counts_whatever_its_object_says_by_now() -> None:
    held = admission(JOB, "n1", started=True, opened_at=NOW - 100)
    facts = [queue(TEAM, max_run_time=60), queue("free"), replace(job(1), queue=QueueName("free"))]
    known = world([*facts, pod("a", "n1")], [held], {JOB: 1})
    assert known.states[JOB].evictable[1].code is ReasonCode.MAX_RUN_TIME


def test_work_is_woken_at_the_second_at_which_it_ends() -> None:
    held = admission(JOB, "n1", started=True, opened_at=NOW - 10)
    known = world([queue(TEAM, max_run_time=100), job(1), pod("a", "n1")], [held], {JOB: 1})
    assert known.refresh(NOW + 79) == set()
    assert known.refresh(NOW + 80) == {JOB}, "to be warned"
    assert known.refresh(NOW + 89) == set()
    assert known.refresh(NOW + 90) == {JOB}
    assert known.states[JOB].evictable[1].code is ReasonCode.MAX_RUN_TIME


def test_queues_without_limits_have_nothing_looked_at_again() -> None:
    held = admission(JOB, "n1", started=True)
    known = world([queue(TEAM), job(1), pod("a", "n1")], [held], {JOB: 1})
    known.observe([seen(queue("other")), seen(queue(TEAM, priority=3))])
    assert known.refresh(NOW) == set()
