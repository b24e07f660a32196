"""What people are told about who could take the place of a workload that runs."""

from dataclasses import replace
from typing import Any

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Budget, Snapshot
from admission.explain.takers import MOST_QUEUES, TakerRule, standing
from admission.web.leader.outlook import outlooks
from queues import kind_names
from queues.quota.queue import QueuePolicy
from queues.read_api.bodies import StandingBody
from queues.text_format import rfc3339
from queues.workload import QueueName, WorkloadKey
from tests.unit.admission.explain.test_explain import NOW, Running, full, job, queue, world

STARTED = NOW - 1800


def place(snapshot: Snapshot, name: str = "x0") -> StandingBody:
    found = standing(snapshot, WorkloadKey(kind_names.JOB, name))
    assert found is not None
    return found


def told(snapshot: Snapshot, name: str = "x0") -> dict[str, str]:
    return {taker.rule: taker.message for taker in place(snapshot, name).takers}


def gang(of: str = "b", **more: Any) -> list[Running]:
    """One gang of two whole nodes."""
    return [(job("x0", of, count=2, **more), ["n0", "n1"])]


def test_a_gang_inside_what_its_queue_deserves_goes_for_a_higher_priority_only() -> None:
    found = place(world([queue("a", 16), queue("b", 16)], gang(priority=7), []))

    assert found.message == "Inside what queue b deserves"
    assert [taker.message for taker in found.takers] == [
        "a workload of its own queue b with a priority above 7 (none waits now)"
    ]
    assert (found.protected_until, found.nobody) == (None, "")


def test_those_that_wait_with_a_higher_priority_are_named() -> None:
    waiting = [
        job("low", "b", priority=7),
        job("high", "b", priority=8),
        job("never", "b", priority=9, preempts=False),
    ]
    snapshot = world([queue("b", 16)], gang(priority=7), waiting)

    assert told(snapshot)[TakerRule.PREEMPTED].endswith("with a priority above 7 (job/ml/high waits)")


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (QueuePolicy(within_queue="never"), "nothing is preempted inside its queue"),
        (QueuePolicy(max_priority=7), "no priority above 7 counts in its queue"),
    ],
)
def test_nobody_is_told_with_the_reason(policy: QueuePolicy, why: str) -> None:
    found = place(world([queue("a", 16), queue("b", 16, policy=policy)], gang(priority=7), []))

    assert found.takers == ()
    assert found.nobody == f"nobody: {why} and its queue uses no more than it deserves"


def test_on_lent_quota_the_queues_that_may_take_it_back_are_told_with_how_much() -> None:
    never = QueuePolicy(reclaim="never")
    queues = [queue("a", 16), queue("b", 8), queue("c", 8, policy=never)]
    found = place(world(queues, gang(), []))

    assert found.message == "On lent quota: queue b uses 16 nvidia.com/gpu and deserves 8"
    assert [(each.rule, each.queues) for each in found.takers[1:]] == [(TakerRule.RECLAIMED, ("a",))]
    assert found.takers[1].message == (
        "queue a may take back up to 16 nvidia.com/gpu that it deserves and does not use"
    )


def test_a_queue_that_uses_what_it_deserves_takes_in_place_of_its_own_work_only() -> None:
    running = [*gang(), (job("own", "a", gpus=8), ["n2"])]

    assert told(world([queue("a", 8), queue("b", 8)], running, []))[TakerRule.RECLAIMED] == (
        "queue a only in place of work of its own, as it uses all that it deserves"
    )


def test_a_queue_takes_back_no_more_than_its_capability_leaves_it() -> None:
    team = QueueName("team")
    queues = [
        queue("team", 12, capability=12),
        queue("a", 12, parent=team),
        queue("mine", 8, parent=team),
        queue("b", 0),
    ]
    running = [*gang(), (job("own", "mine", gpus=8), ["n2"])]

    takers = {each.queues: each for each in place(world(queues, running, [])).takers}
    assert takers[QueueName("a"),].message == (
        "queue a may take back up to 4 nvidia.com/gpu that it deserves and does not use"
    )


def test_a_gang_beyond_its_own_capability_clears_nobodys_place() -> None:
    waits = [job("it", "a", count=3)]
    pod = full()[:2]
    found = told(world([queue("a", 16, capability=16), queue("b", 16)], pod, waits))[TakerRule.CLEARED]
    assert found.endswith("(none waits now)")
    assert "(job/ml/it waits)" in told(world([queue("a", 16), queue("b", 16)], pod, waits))[TakerRule.CLEARED]
    none = told(world([queue("a", 16, capability=0), queue("b", 16)], pod, waits))[TakerRule.CLEARED]
    assert "queue a" not in none


def test_of_many_queues_the_first_are_named() -> None:
    queues = [*(queue(f"a{number:02}", 2) for number in range(MOST_QUEUES + 3)), queue("b", 0)]
    takers = [each for each in place(world(queues, gang(), [])).takers if each.rule == TakerRule.RECLAIMED]

    assert len(takers) == MOST_QUEUES + 1
    assert takers[-1].message == "3 further queues in the same way"


def test_a_single_pod_goes_for_a_gang_that_has_waited_and_since_when_is_told(golden: Any) -> None:
    snapshot = world([queue("a", 16), queue("b", 16)], full()[:2], [job("it", "a", count=3)])
    found = next(each for each in place(snapshot).takers if each.rule == TakerRule.CLEARED)

    assert found.message == golden
    assert found.from_ == rfc3339(NOW - 600 + 1800)
    assert TakerRule.CLEARED not in told(world([queue("a", 16), queue("b", 16)], gang(), []))


def test_what_protects_it_is_told_and_moves_the_time() -> None:
    policy = QueuePolicy(min_run_time=3600)
    found = place(world([queue("a", 16), queue("b", 8, policy=policy)], gang(), []))

    assert found.protected_until == rfc3339(STARTED + 3600)
    assert {taker.from_ for taker in found.takers} == {rfc3339(STARTED + 3600)}
    assert "Protected from eviction until" in found.message


def test_the_run_time_that_is_assumed_is_told_with_its_source() -> None:
    found = place(world([queue("a", 16), queue("b", 16)], gang(run_time=5400), []))

    assert found.message.endswith(
        "Its run time is assumed to be 1h30m (from muster.dev/run-time or a deadline of its own)"
    )


def test_an_owner_that_waited_before_it_started_is_told() -> None:
    policy = QueuePolicy(min_run_time=7200)
    waits = replace(job("waits", "a", count=1), created=STARTED - 1200)
    gangs = [(replace(each, created=STARTED - 10), nodes) for each, nodes in gang()]
    queues = [queue("a", 16), queue("b", 8, policy=policy)]
    takers = {taker.rule: taker for taker in place(world(queues, gangs, [waits])).takers}
    found = takers[TakerRule.RECLAIMED]

    assert found.from_ == rfc3339(STARTED - 1200 + 1800)
    assert found.message.endswith(", for work that has waited for 30m, and since before this one started")
    later = replace(waits, created=STARTED + 1)
    takers = {taker.rule: taker for taker in place(world(queues, gangs, [later])).takers}
    assert takers[TakerRule.RECLAIMED].from_ == rfc3339(STARTED + 7200)


def test_a_wish_counts_inside_what_is_deserved_and_else_in_its_own_queue_only() -> None:
    owned = place(world([queue("a", 16), queue("b", 16)], gang(preemptable=False), []))
    lent = place(world([queue("a", 16), queue("b", 8)], gang(preemptable=False), []))

    assert owned.nobody == "nobody: it may not be evicted for others"
    assert {taker.rule for taker in lent.takers} == {TakerRule.RECLAIMED}
    assert "Its user wishes that it is not evicted, inside its own queue only" in lent.message


def test_as_many_evictions_as_are_allowed_protect_it() -> None:
    policy = QueuePolicy(max_evictions=2)
    found = place(world([queue("a", 16), queue("b", 8, policy=policy)], gang(evictions=2), []))

    assert (found.takers, found.nobody) == ((), "nobody: it may not be evicted for others")
    assert "Evicted 2 times, as often as policy.maxEvictions allows" in found.message


def test_a_fault_and_a_budget_are_told() -> None:
    snapshot = world([queue("b", 16, policy=QueuePolicy(on_fault="evict"))], gang(), [])
    key = WorkloadKey(kind_names.JOB, "x0")
    kept = replace(snapshot, budgets=(Budget(namespace="ml", name="keep", allowed=0, pods={key: 2}),))

    assert told(kept)[TakerRule.UNHEALTHY_DEVICE] == (
        "an unhealthy device of its nodes (policy.health.onFault: evict)"
    )
    assert place(kept).message.endswith("PodDisruptionBudget keep allows no eviction of its pods now")
    (lent,) = (replace(kept, queues={**kept.queues, QueueName("b"): queue("b", 0)}),)
    assert "allows no eviction of its pods now, which keeps lent quota until" in place(lent).message


def test_what_holds_nothing_has_no_standing() -> None:
    snapshot = world([queue("b", 16)], gang(), [job("it", "b")])

    assert standing(snapshot, WorkloadKey(kind_names.JOB, "it")) is None
    assert standing(snapshot, WorkloadKey(kind_names.JOB, "nobody")) is None


def test_the_outlook_of_what_runs_has_its_standing() -> None:
    snapshot = world([queue("a", 16), queue("b", 8)], gang(), [])
    (outlook,) = outlooks(snapshot, decide(snapshot, Memo())[0], "ml", "x0", None)

    assert outlook.standing == place(snapshot)
