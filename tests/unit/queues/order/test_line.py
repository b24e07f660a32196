"""Who is considered in a queue, and who of its users comes next."""

from dataclasses import replace
from typing import Any

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues.plan import Plan
from queues.quota.queue import Queue
from queues.resources import Resources
from queues.workload import PodSet, QueueName, Workload
from tests.builders.decided_work import a_node, a_snapshot, a_workload

GPU = "nvidia.com/gpu"
NOW = 10_000
Q = QueueName("q")


def job(number: int, user: str = "", gpus: int = 1, run_time: int | None = None) -> Workload:
    return a_workload(
        f"u{number}",
        PodSet(name="main", count=1, takes=Resources({GPU: gpus * 1000, "pods": 1})),
        name=f"w{number}",
        queue=Q,
        arrival=number,
        created=NOW,
        user=user,
        run_time=run_time,
    )


def snapshot_of(gpus: int, *jobs: Workload, **policy: Any) -> Snapshot:
    node = a_node("n", {GPU: gpus * 1000, "pods": 100})
    return a_snapshot(*jobs, queues=[Queue(name=Q, **policy)], now=NOW, nodes=[node])


def plan_of(gpus: int, *jobs: Workload, **policy: Any) -> Plan:
    return decide(snapshot_of(gpus, *jobs, **policy), Memo())[0]


def admitted(plan: Plan) -> list[str]:
    return [admit.name for admit in plan.admits]


def test_users_take_turns_by_what_they_have() -> None:
    jobs = [job(1, "ann"), job(2, "ann"), job(3, "ann"), job(4, "bob"), job(5, "bob", gpus=2), job(6, "cid")]

    plan = plan_of(5, *jobs, order="round-robin")

    assert admitted(plan) == ["w1", "w4", "w6", "w2", "w3"]


def test_the_shortest_comes_first_and_unknown_run_times_last() -> None:
    plan = plan_of(
        3, job(1), job(2, run_time=7200), job(3, run_time=60), job(4, run_time=600), order="shortest"
    )

    assert admitted(plan) == ["w3", "w4", "w2"]


def test_of_one_user_only_so_many_are_considered_at_a_time() -> None:
    jobs = [job(1, "ann"), job(2, "ann"), job(3, "ann"), job(4, "bob")]

    plan = plan_of(8, *jobs, max_pending_per_user=2)

    assert admitted(plan) == ["w1", "w2", "w4"]
    (reason,) = plan.reasons.values()
    assert (reason.code, reason.facts) == ("PendingLimit", {"queue": "q", "limit": 2, "user": "ann"})


def test_work_without_a_known_user_counts_as_one_users() -> None:
    plan = plan_of(8, job(1, ""), job(2, "ann"), job(3, ""), max_pending_per_user=1)

    assert admitted(plan) == ["w1", "w2"]
    (reason,) = plan.reasons.values()
    assert (reason.code, reason.facts["user"]) == ("PendingLimit", "")


def test_when_the_head_of_a_strict_queue_leaves_the_others_stand_behind_the_next() -> None:
    first, second, third = job(1, gpus=2), job(2, gpus=3), job(3, gpus=4)
    snapshot = snapshot_of(1, first, second, third, order="strict-fifo")
    _, memo = decide(snapshot, Memo())

    later = replace(snapshot, pending={each.key: each for each in (second, third)})

    assert decide(later, memo)[0].reasons == decide(later, Memo())[0].reasons
