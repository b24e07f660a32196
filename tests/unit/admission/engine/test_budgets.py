"""A queue whose budget is used up admits nothing more, here and below; what runs goes on."""

from dataclasses import replace
from typing import Any

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues.plan import Plan
from queues.quota.budgets import HoursBudget, SpentBudget
from queues.quota.queue import Limits, Queue
from queues.reason_codes import ReasonCode
from queues.resources import GPU
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

NOW = 10_000
TOP, A, B = QueueName("top"), QueueName("a"), QueueName("b")
BUDGET = HoursBudget(hours={GPU: 1_000_000}, holds=True)
SPENT = SpentBudget(resource=GPU, ends_on="2026-12-01")


def job(name: str, gpus: int = 1, count: int = 1, **fields: Any) -> Workload:
    given = {"queue": A, "arrival": int(name[1:]), "created": NOW - 100, **fields}
    return a_workload(name, gpu_pods(count, gpus), **given)


def world(*jobs: Workload, gpus: int = 8, **of_top: Any) -> Snapshot:
    """Queue a is below top; b is not. Each deserves half of the GPUs."""
    half = Limits(deserved={GPU: gpus * 500})
    queues = (
        Queue(name=TOP, limits=half, **of_top),
        Queue(name=A, parent=TOP, limits=half),
        Queue(name=B, limits=half),
    )
    return a_snapshot(*jobs, queues=queues, nodes=[gpu_node("n", gpus)], now=NOW)


def after(snapshot: Snapshot, plan: Plan, *jobs: Workload, spent: bool) -> Snapshot:
    """The next turn, with further workloads, and the budget used up or not."""
    top = replace(snapshot.queues[TOP], budget=BUDGET, spent=SPENT if spent else None)
    return turn_after(snapshot, plan, *jobs, queues={**snapshot.queues, TOP: top})


def test_nothing_is_admitted_here_and_below_until_the_day_in_the_reason() -> None:
    plan = plan_of(world(job("j1"), job("j2", queue=B), budget=BUDGET, spent=SPENT))
    assert admitted(plan) == {"j2"}
    [reason] = plan.reasons.values()
    assert reason.code is ReasonCode.BUDGET_SPENT
    assert reason.message == (
        f"queue top, above a, has used up its budget of 1000 hours of {GPU} for this month; the next one begins on "
        "2026-12-01"
    )


def test_when_it_is_raised_what_waits_comes_in_with_the_memo_and_without() -> None:
    snapshot = world(job("j1"), budget=BUDGET, spent=SPENT)
    plan, memo = decide(snapshot, Memo())
    raised = after(snapshot, plan, spent=False)
    assert admitted(plan_of(raised)) == admitted(decide(raised, memo)[0]) == {"j1"}


def test_what_runs_is_not_evicted_and_an_elastic_gang_does_not_grow() -> None:
    other = job("j1", 6, queue=B)
    snapshot = world(other, job("j2", count=4, minimum=2))
    plan, memo = decide(snapshot, Memo())
    later = after(snapshot, plan, spent=True)
    [ended] = [number for number, each in later.admissions.items() if each.workload == other.key]
    later = replace(later, ended={ended: frozenset({0})})
    plan, _ = decide(later, memo)
    assert (plan.evicts, plan.admits, waiting(plan)) == ((), (), {"j2": ReasonCode.BUDGET_SPENT})


def test_pods_that_a_running_gang_lost_are_replaced() -> None:
    gang = job("j1", count=2)
    snapshot = world(gang)
    plan, memo = decide(snapshot, Memo())
    later = after(snapshot, plan, gang, spent=True)
    [(number, held)] = later.admissions.items()
    lost = replace(later, admissions={number: replace(held, ended=frozenset({1}))})
    plan, _ = decide(lost, memo)
    assert [seat.ordinal for admit in plan.admits for seat in admit.seats] == [1]


def test_nothing_is_evicted_for_it_and_no_place_is_kept() -> None:
    """Queue b borrows all, and a would get its half back."""
    borrowing = [job(f"j{number}", 2, queue=B) for number in range(1, 5)]
    snapshot = world(*borrowing)
    plan, memo = decide(snapshot, Memo())
    owner, small = job("j5", 4), job("j6", 1, queue=B)
    plan_without, _ = decide(after(snapshot, plan, owner, spent=False), memo)
    assert plan_without.evicts
    assert plan_without.claims
    spent = plan_of(after(snapshot, plan, owner, small, spent=True))
    assert (spent.evicts, spent.claims) == ((), ())
    assert waiting(spent)["j5"] is ReasonCode.BUDGET_SPENT


def test_a_place_that_is_kept_already_is_given_back() -> None:
    snapshot = world(*(job(f"j{number}", 2, queue=B) for number in range(1, 5)))
    snapshot = after(snapshot, plan_of(snapshot), job("j5", 4), spent=False)
    claimed = plan_of(snapshot)
    [claim] = claimed.claims
    assert plan_of(after(snapshot, claimed, spent=True)).dropped == (claim.workload,)


def test_what_waits_for_the_budget_takes_no_room_among_those_that_may_be_admitted() -> None:
    """The tenant above considers one workload at a time."""
    tenant = QueueName("tenant")
    queues = (
        Queue(name=tenant, max_pending=1),
        Queue(name=A, parent=tenant, budget=BUDGET, spent=SPENT),
        Queue(name=B, parent=tenant),
    )
    jobs = (job("j1"), job("j2"), job("j3", queue=B))
    plan = plan_of(a_snapshot(*jobs, queues=queues, nodes=[gpu_node("n")], now=NOW))
    assert admitted(plan) == {"j3"}
    assert waiting(plan) == {"j1": ReasonCode.BUDGET_SPENT, "j2": ReasonCode.PENDING_LIMIT}
    [reason] = [each for each in plan.reasons.values() if each.code is ReasonCode.PENDING_LIMIT]
    assert "workloads that cannot be admitted as things are" in reason.message
