"""What one user may use in a queue and all below it: nobody gets more, and nobody else waits for it."""

from dataclasses import replace
from typing import Any

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues.quota.queue import Queue, QueuePolicy
from queues.reason_codes import ReasonCode
from queues.workload import QueueName, Workload
from tests.builders.decided_work import (
    a_snapshot,
    a_workload,
    admitted,
    gpu_node,
    gpu_pods,
    plan_of,
    turn_after,
    waiting,
)

GPU = "nvidia.com/gpu"
NOW = 10_000
TOP, A, B = QueueName("top"), QueueName("a"), QueueName("b")


def job(name: str, user: str = "ann", gpus: int = 1, count: int = 1, **fields: Any) -> Workload:
    given = {"queue": A, "arrival": int(name[1:]), "created": NOW - 100, "user": user, **fields}
    return a_workload(name, gpu_pods(count, gpus), **given)


def world(*jobs: Workload, gpus: int = 16, limit: int = 4, **of_a: Any) -> Snapshot:
    """Queue top limits each user to so many GPUs; a and b are below it."""
    queues = (
        Queue(name=TOP, max_per_user={GPU: limit * 1000}),
        Queue(name=A, parent=TOP, **of_a),
        Queue(name=B, parent=TOP),
    )
    return a_snapshot(*jobs, queues=queues, nodes=[gpu_node("n", gpus)], now=NOW)


def test_the_limit_is_on_what_a_user_has_in_all_queues_below_together() -> None:
    plan = plan_of(world(job("j1", gpus=2), job("j2", gpus=3, queue=B), job("j3", "bob", gpus=4)))
    assert waiting(plan) in ({"j1": ReasonCode.USER_LIMIT}, {"j2": ReasonCode.USER_LIMIT})


def test_the_reason_has_the_numbers_and_holds_up_nobody_else() -> None:
    snapshot = world(job("j1", gpus=3))
    plan, memo = decide(snapshot, Memo())
    later = turn_after(snapshot, plan, job("j2", gpus=2), job("j3", "bob", gpus=2), job("j4", gpus=1))
    plan, _ = decide(later, memo)
    assert admitted(plan) == {"j3", "j4"}
    [reason] = plan.reasons.values()
    assert reason.code == ReasonCode.USER_LIMIT
    assert reason.message == f"one user may use 4 {GPU} in queue top: ann uses 3, 2 asked"
    assert (reason.facts["queue"], reason.facts["user"], reason.facts["limit"]) == ("top", "ann", 4000)
    assert plan.reasons == plan_of(later).reasons


def test_in_a_strict_queue_a_user_at_the_limit_does_not_hold_up_the_others() -> None:
    snapshot = world(job("j1", gpus=4), order="strict-fifo")
    plan, memo = decide(snapshot, Memo())
    later = turn_after(snapshot, plan, job("j2"), job("j3", "bob"))
    plan, memo = decide(later, memo)
    assert (admitted(plan), waiting(plan)) == ({"j3"}, {"j2": ReasonCode.USER_LIMIT})


def test_what_is_given_back_may_be_used_again() -> None:
    snapshot = world(job("j1", gpus=4))
    plan, memo = decide(snapshot, Memo())
    later = turn_after(snapshot, plan, job("j2"))
    plan, memo = decide(later, memo)
    assert waiting(plan) == {"j2": ReasonCode.USER_LIMIT}
    free = replace(later, admissions={}, holders={}, nodes=snapshot.nodes)
    assert admitted(decide(free, memo)[0]) == admitted(plan_of(free)) == {"j2"}


def test_one_who_asks_for_more_than_the_limit_waits_and_a_smaller_one_does_not() -> None:
    plan = plan_of(world(job("j1", gpus=5), job("j2", gpus=4)))
    assert (admitted(plan), waiting(plan)) == ({"j2"}, {"j1": ReasonCode.NEVER_FITS})


def test_of_an_elastic_gang_as_many_pods_start_as_the_user_may_use() -> None:
    plan = plan_of(world(job("j1", count=8, minimum=2)))
    seats = sum(len(admit.seats) for admit in plan.admits)
    assert 2 <= seats <= 4
    snapshot = world(job("j1", count=8, minimum=2))
    memo = Memo()
    for _ in range(8):
        plan, memo = decide(snapshot, memo)
        snapshot = snapshot.after(plan)
    held = sum(len(each.holding()) for each in snapshot.admissions.values())
    assert held == 4


def test_work_without_a_known_user_counts_as_one_users() -> None:
    plan = plan_of(world(job("j1", "", gpus=2), job("j2", "", gpus=3), job("j3", "ann", gpus=2)))
    assert (admitted(plan), waiting(plan)) == ({"j1", "j3"}, {"j2": ReasonCode.USER_LIMIT})


@pytest.mark.parametrize("limit", [4, 8])
def test_nothing_is_evicted_for_one_who_may_use_no_more(limit: int) -> None:
    """Of the limit of 8 GPUs both fit, of 4 only one."""
    low = [job(f"j{number}", f"low{number}", gpus=4, priority=0, preemptable=True) for number in (1, 2)]
    policy = QueuePolicy(within_queue="lower-priority")
    snapshot = world(*low, gpus=8, limit=limit, policy=policy)
    plan, memo = decide(snapshot, Memo())
    assert admitted(plan) == {"j1", "j2"}
    high = [job(f"j{number}", "ann", gpus=4, priority=10) for number in (3, 4)]
    plan, memo = decide(turn_after(snapshot, plan, *high), memo)
    assert len(plan.evicts) == len(plan.claims) == limit // 4


def test_room_that_is_made_for_a_user_counts_as_the_users() -> None:
    low = job("j1", "low", gpus=4, preemptable=True)
    snapshot = world(low, gpus=4, limit=4)
    plan, memo = decide(snapshot, Memo())
    high = job("j2", "ann", gpus=4, priority=10)
    snapshot = turn_after(snapshot, plan, high)
    plan, memo = decide(snapshot, memo)
    assert [claim.workload.uid for claim in plan.claims] == ["j2"]
    plan, memo = decide(turn_after(snapshot, plan, job("j3", "ann", gpus=1, queue=B)), memo)
    assert waiting(plan)["j3"] == ReasonCode.USER_LIMIT
