"""Quota that is held for a gang while its pods are being made."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.table import Node
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.plan import Plan
from queues.quota.queue import Limits, Queue
from queues.reason_codes import ReasonCode
from queues.resources import GPU, Resources
from queues.workload import (
    FlavorName,
    Obstacle,
    QueueName,
    QuotaHold,
    Workload,
)
from tests.builders.decided_work import a_snapshot, a_workload, admitted, gpu_node, gpu_pods, plan_of
from tests.tables import named_rows, with_rows

NOW = 1_000_000
Q = QueueName("q")
TEN_MINUTES = 600
LACKS_PODS = Obstacle(ReasonCode.NOT_ENOUGH_PODS, "0 of 2 pods exist")


def gpus(count: int) -> Resources:
    return Resources({GPU: count * 1000})


def group(name: str, asks: int, **facts: Any) -> Workload:
    """A PodGroup without pods that wants quota for so many GPUs to be held."""
    given = {"created": NOW, "minimum": 2, "generation": "1", "obstacle": LACKS_PODS, **facts}
    hold = QuotaHold(gpus(asks), TEN_MINUTES)
    return a_workload(name, kind=kind_names.POD_GROUP, **{"hold": hold, **given})


def with_pods(of: Workload, each: int, count: int = 2) -> Workload:
    """The same group when it has its pods, each with so many GPUs."""
    return replace(of, obstacle=None, pod_sets=(gpu_pods(count, each),))


def job(name: str, asks: int, arrival: int = 2) -> Workload:
    return a_workload(name, gpu_pods(gpus=asks), arrival=arrival, created=NOW)


def snapshot(*pending: Workload, limit: int | None = 8, nodes: Iterable[Node] = (gpu_node("n"),)) -> Snapshot:
    limits = Limits() if limit is None else Limits(capability=gpus(limit))
    return a_snapshot(*pending, queues=[Queue(name=Q, limits=limits)], now=NOW, nodes=nodes)


def turn(of: Snapshot, *, after: int = 0) -> Plan:
    return plan_of(replace(of, now=NOW + after))


def later(of: Snapshot, *others: Workload, without: Iterable[Workload] = ()) -> Snapshot:
    """The snapshot of the next turn, with these workloads instead of those of the same names, or beside them."""
    after = of.after(turn(of))
    gone = {each.key for each in without}
    pending = {key: each for key, each in after.pending.items() if key not in gone}
    return replace(after, pending={**pending, **{each.key: each for each in others}})


def holds(plan: Plan) -> list[tuple[str, Resources]]:
    return [(claim.workload.uid, claim.seats[0].takes) for claim in plan.claims]


def code_of(plan: Plan, of: Workload) -> tuple[ReasonCode, str]:
    reason = plan.reasons[of.key]
    return reason.code, reason.message


A, B = group("a", 6), group("b", 4, arrival=2)


def test_quota_is_held_for_a_group_before_its_pods_exist() -> None:
    plan = turn(snapshot(A))
    [claim] = plan.claims
    assert (claim.is_quota_only, claim.seats[0].takes, claim.until) == (True, gpus(6), NOW + TEN_MINUTES)
    code, message = code_of(plan, A)
    assert code is ReasonCode.NOT_ENOUGH_PODS
    held = "6 nvidia.com/gpu of queue q are held for it until 1970-01-12T13:56:40Z"
    assert message == f"0 of 2 pods exist; {held}"
    assert [seat.node for seat in claim.seats] == [""]
    assert not claim.victims


@with_rows("asks", "limit", "message")
def test_what_never_fits_waits_for_that_and_holds_up_nobody(
    asks: int, limit: int | None, message: str
) -> None:
    too_large = group("large", asks)
    plan = turn(snapshot(too_large, B, limit=limit))
    assert code_of(plan, too_large) == (ReasonCode.NEVER_FITS, message)
    assert holds(plan) == [("b", gpus(4))]
    with_another = snapshot(too_large, limit=limit, nodes=(gpu_node("n"), gpu_node("m")))
    assert bool(holds(turn(with_another))) is (limit is None)


def test_nobody_else_gets_what_is_held() -> None:
    plan = turn(later(snapshot(A), job("j", 4)))
    assert not plan.admits
    assert code_of(plan, job("j", 4))[0] is ReasonCode.QUEUE_LIMIT
    assert admitted(turn(later(snapshot(A), job("j", 2)))) == {"j"}


def test_of_two_that_ask_for_it_the_first_gets_it_and_the_other_waits_with_the_numbers() -> None:
    plan = turn(snapshot(B, A))
    assert holds(plan) == [("a", gpus(6))]
    code, message = code_of(plan, B)
    assert code is ReasonCode.QUEUE_LIMIT
    assert message == "queue q may use 8 nvidia.com/gpu: 6 used, 4 asked, 2 too many"


def test_the_more_urgent_one_goes_first() -> None:
    assert holds(turn(snapshot(A, replace(B, priority=1)))) == [("b", gpus(4))]


def test_what_can_be_admitted_goes_before_what_has_no_pods() -> None:
    plan = turn(snapshot(A, job("j", 4, arrival=9)))
    assert admitted(plan) == {"j"}
    assert not plan.claims


def test_it_is_held_for_those_whose_queue_gets_room_later() -> None:
    first = snapshot(A, B)
    assert holds(turn(later(first, without=[A]))) == [("b", gpus(4))]


def test_the_gang_is_admitted_with_it_when_its_pods_exist() -> None:
    plan = turn(later(snapshot(A), with_pods(A, 3), job("j", 4)))
    assert admitted(plan) == {"a"}
    assert plan.dropped == (A.key,)


def test_pods_that_ask_for_more_than_was_held_get_it_if_there_is_more() -> None:
    assert admitted(turn(later(snapshot(A), with_pods(A, 4)))) == {"a"}


@pytest.mark.parametrize("preempts", [True, False])
def test_a_gang_that_fits_on_no_nodes_waits_like_others_and_its_quota_is_free_again(preempts: bool) -> None:
    spread = snapshot(A, nodes=[gpu_node("n1", 5), gpu_node("n2", 3)])
    asks_too_much = replace(with_pods(A, 4), preempts=preempts)
    plan = turn(later(spread, asks_too_much))
    assert not plan.admits
    assert plan.dropped == (A.key,)
    assert code_of(plan, A)[0] is ReasonCode.NEVER_FITS
    after = later(later(spread, asks_too_much), job("j", 4))
    assert admitted(turn(after)) == {"j"}


def test_it_is_given_back_when_the_pods_do_not_come_in_time_and_not_held_again(golden: Any) -> None:
    held = later(snapshot(A), job("j", 4))
    assert not turn(held, after=TEN_MINUTES).admits
    plan = turn(held, after=TEN_MINUTES + 1)
    assert admitted(plan) == {"j"}
    assert not plan.claims
    assert not plan.dropped, "it is known by its claim that it had its time"
    code, message = code_of(plan, A)
    assert code is ReasonCode.NOT_ENOUGH_PODS
    assert message == golden


def test_the_engine_looks_again_when_the_time_is_over() -> None:
    held = later(snapshot(A), job("j", 4))
    _, memo = decide(held, Memo())
    assert memo.answer(replace(held, now=NOW + TEN_MINUTES)) is not None
    plan, _ = decide(replace(held, now=NOW + TEN_MINUTES + 1), memo)
    assert admitted(plan) == {"j"}


def test_pods_that_come_late_wait_like_others() -> None:
    held = later(snapshot(A), with_pods(A, 3))
    plan = turn(held, after=TEN_MINUTES + 1)
    assert plan.dropped == (A.key,)
    assert admitted(plan) == {"a"}


@named_rows(
    "change",
    {
        "asks no more": {"hold": None},
        "asks for another amount": {"hold": QuotaHold(gpus(5), TEN_MINUTES)},
        "is in another queue": {"queue": QueueName("other")},
        "has another size": {"generation": "2"},
        "is wrong now": {"obstacle": Obstacle(ReasonCode.INVALID_SPEC, "spec.minMember: found -1")},
        "is gone": None,
    },
)
def test_it_is_not_held_for_a_group_that_asks_something_else(change: dict[str, Any] | None) -> None:
    now = later(snapshot(A), without=[A]) if change is None else later(snapshot(A), replace(A, **change))
    assert turn(now).dropped == (A.key,)


@named_rows(
    ("queue", "code"),
    {
        "closed": (Queue(name=Q, closed=True), ReasonCode.QUEUE_CLOSED),
        "paused": (Queue(name=Q, paused=True), ReasonCode.QUEUE_PAUSED),
        "on hold": (Queue(name=Q, hold="it moves"), ReasonCode.QUEUE_ON_HOLD),
        "unknown": (Queue(name=QueueName("another")), ReasonCode.UNKNOWN_QUEUE),
    },
)
def test_a_queue_that_takes_no_work_holds_nothing(queue: Queue, code: ReasonCode) -> None:
    plan = turn(replace(snapshot(A), queues={queue.name: queue}))
    assert not plan.claims
    assert code_of(plan, A)[0] is code
    assert turn(replace(later(snapshot(A)), queues={queue.name: queue})).dropped == (A.key,)


def test_a_queue_with_flavors_holds_it_in_one_that_has_it_all() -> None:
    small, large = FlavorName("a100"), FlavorName("h100")
    quotas = {small: Limits(capability=gpus(4)), large: Limits(capability=gpus(8))}
    of_flavors = Queue(name=Q, flavors=quotas)
    nodes = [gpu_node("n1", flavor=small), gpu_node("n2", flavor=large)]
    both = replace(snapshot(A, B, nodes=nodes), queues={Q: of_flavors})
    found = [(each.workload.uid, each.seats[0].flavor) for each in turn(both).claims]
    assert found == [("a", large), ("b", small)]


def test_quota_is_not_promised_twice_beside_victims_that_leave_for_others() -> None:
    urgent = replace(job("urgent", 8), priority=9)
    first = snapshot(job("running", 5), limit=12, nodes=[gpu_node("n1", 8), gpu_node("n2", 4)])
    running = first.after(turn(first))
    waiting = replace(running, pending={each.key: each for each in (urgent, A)})
    plan = turn(waiting)
    assert len(plan.evicts) == 1
    assert [each.workload for each in plan.claims] == [urgent.key]
    assert not turn(waiting.after(plan)).claims, "of 12 GPUs 8 are promised"
