"""Different workloads of one queue that together are costly to place take turns: no queue is held up by another."""

from dataclasses import replace
from typing import Any

import pytest

from admission.engine import round as round_
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.pending.classes import ClassAnswer
from admission.engine.placement import gangs
from admission.engine.preemption import preemption
from admission.engine.preemption.context import PreemptionContext
from queues.plan import Plan
from queues.quota.queue import Limits, Queue
from queues.reason_codes import ReasonCode
from queues.resources import GPU, Resources
from queues.workload import (
    PodSet,
    QueueName,
    Workload,
)
from tests.builders.decided_work import (
    a_node,
    a_snapshot,
    a_workload,
    an_admission,
    gpu_node,
    gpu_pods,
    seats_on,
)

BEGAN = 1_200_000
NODES = (
    gpu_node("n0"),
    gpu_node("n1"),
    # All that these tests ask would fit if this node were open.
    a_node("cordoned", {GPU: 10**9, "pods": 10**5}, usable=False, why_not="unschedulable"),
)


def workload(name: str, queue: str, arrival: int, *sets: int, **more: Any) -> Workload:
    """A workload with one pod set for each of these amounts, one pod of so many GPUs in each."""
    pods = (gpu_pods(gpus=gpus, name=f"set{number}") for number, gpus in enumerate(sets))
    return a_workload(name, *pods, queue=queue, arrival=arrival, created=BEGAN, **more)


def scattered(number: int) -> Workload:
    """Three of its pods fit by their sum (15 of 16 GPUs), and on no nodes; no two numbers ask the same."""
    return workload(f"w{number}", "many", number, *[5] * 3, *[0] * (7 + number))


RUNS = workload("runs", "full", 1, 7, preemptable=False)
RUNNING = an_admission(1, RUNS, *seats_on("n0", *RUNS.pod_sets), opened_at=BEGAN - 600, generation="1")


def plan_of(now: int, *pending: Workload, running: bool = False) -> tuple[Plan, Memo]:
    """The plan for what waits. ``running``: beside a pod in queue ``full``, which leaves no quota for another."""
    queues = [Queue(name=QueueName(name)) for name in ("many", "other")]
    full = Queue(name=QueueName("full"), limits=Limits(capability={GPU: 8000}))
    held = {"admissions": [RUNNING], "holders": {RUNS.key: RUNS}} if running else {}
    return decide(a_snapshot(*pending, queues=[*queues, full], nodes=NODES, now=now, **held), Memo())


def tried(plan: Plan) -> set[str]:
    return {key.uid for key, reason in plan.reasons.items() if reason.code == ReasonCode.NO_FIT}


def test_two_workloads_of_many_pod_sets_are_tried_at_a_time_and_another_queue_goes_on() -> None:
    large = [scattered(number) for number in range(1, 7)]
    plan, memo = plan_of(BEGAN, workload("small", "other", 9, 1), *large)
    assert [admit.name for admit in plan.admits] == ["small"]
    codes = [reason.code for reason in plan.reasons.values()]
    assert sorted(codes) == [ReasonCode.NO_FIT] * 2 + [ReasonCode.TAKES_TURNS] * 4
    assert memo.until == BEGAN + 60


def test_each_of_them_is_tried_within_minutes() -> None:
    large = [scattered(number) for number in range(1, 6)]
    seen = [tried(plan_of(BEGAN + minute * 60, *large)[0]) for minute in range(5)]
    assert seen[0] != seen[1]
    assert set.union(*seen) == {each.name for each in large}


def choosy(number: int) -> Workload:
    """Any fifteen of its twenty members complete it, each with a GPU and so many thousandths: fourteen fit."""
    takes = Resources({GPU: 1000 + number, "pods": 1})
    pods = tuple(PodSet(name=name, count=10, takes=takes) for name in ("a", "b"))
    return replace(workload(f"w{number}", "many", number), minimum=15, pod_sets=pods)


def test_gangs_that_other_members_can_complete_take_turns_where_many_different_ones_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choices = [choosy(number) for number in range(1, 4)]
    assert tried(plan_of(BEGAN, *choices)[0]) == {each.name for each in choices}
    monkeypatch.setattr(round_, "_TRIED_TOGETHER", 30_000)
    seen = [tried(plan_of(BEGAN + minute * 60, *choices)[0]) for minute in range(2)]
    assert sorted(map(len, seen)) == [1, 2]
    assert set.union(*seen) == {each.name for each in choices}


def of_few_sets(number: int) -> Workload:
    """Eight sets of a thousand pods, which no other number asks for: they would be tried in eight orders."""
    pods = tuple(
        PodSet(name=f"set{index}", count=1000, takes=Resources({GPU: number, "pods": 1}))
        for index in range(8)
    )
    return replace(workload(f"w{number}", "many", number), minimum=8000, pod_sets=pods)


def test_gangs_of_few_sets_take_turns_where_they_have_many_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that wait for their turn are not asked about the nodes either."""
    asked: list[str] = []
    refusal = gangs.refusal_of_first

    def noted(each: Workload, *rest: Any) -> Any:
        asked.append(each.name)
        return refusal(each, *rest)

    monkeypatch.setattr(gangs, "refusal_of_first", noted)
    large = [of_few_sets(number) for number in range(1, 5)]
    plan, _ = plan_of(BEGAN, workload("small", "other", 9, 1), *large)
    assert [admit.name for admit in plan.admits] == ["small"]
    assert len(tried(plan)) == 1
    assert set(asked) == tried(plan)
    seen = [tried(plan_of(BEGAN + minute * 60, *large)[0]) for minute in range(4)]
    assert set.union(*seen) == {each.name for each in large}


def test_many_different_workloads_of_one_set_take_turns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_, "_TRIED_TOGETHER", 1000)
    large = [workload(f"w{number}", "many", number, 9 + number) for number in range(1, 7)]
    seen = [tried(plan_of(BEGAN + minute * 60, *large)[0]) for minute in range(2)]
    assert [len(each) for each in seen] == [3, 3]
    assert set.union(*seen) == {each.name for each in large}


def test_what_a_queue_has_no_quota_for_takes_turns_where_victims_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[str] = []
    make_room = preemption._make_room_for_class

    def noted(context: PreemptionContext, refused: ClassAnswer) -> None:
        searched.append(refused.members[0].workload.name)
        make_room(context, refused)

    monkeypatch.setattr(preemption, "_make_room_for_class", noted)
    monkeypatch.setattr(round_, "_TRIED_TOGETHER", 1000)
    urgent = [replace(workload(f"w{number}", "full", number, number), priority=9) for number in range(2, 8)]
    for minute in range(2):
        plan, memo = plan_of(BEGAN + minute * 60, *urgent, running=True)
        assert {reason.code for reason in plan.reasons.values()} == {ReasonCode.QUEUE_LIMIT}
        assert memo.until == BEGAN + minute * 60 + 60
    assert sorted(searched) == [each.name for each in urgent]


def test_workloads_of_few_pod_sets_do_not_take_turns() -> None:
    few = [workload(f"w{number}", "many", number, *[5] * 3, *[0] * number) for number in range(1, 6)]
    assert tried(plan_of(BEGAN, *few)[0]) == {each.name for each in few}
