"""A workload whose affinity asks for pods of others that do not exist has no place until they come."""

from dataclasses import replace

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.snapshot import Snapshot
from queues.quota.queue import Limits, Queue
from queues.reason_codes import ReasonCode
from queues.resources import GPU
from queues.workload import (
    COUNTED,
    HostPort,
    NearRule,
    NodeName,
    PlacementRules,
    PodSelection,
    PodSet,
    QueueName,
    Workload,
)
from tests.builders.decided_work import a_snapshot, a_workload, admitted, gpu_node, gpu_pods, plan_of

NOW = 1_000_000
CACHE = PodSelection("cache", ())
NEAR_CACHE = PlacementRules(near=(NearRule((HOST,), CACHE),))
OF_CACHE = (HostPort(0, COUNTED, "cache"),)


def job(name: str, arrival: int, *sets: PodSet, gpus: int = 1) -> Workload:
    sets = sets or (gpu_pods(gpus=gpus),)
    return a_workload(name, *sets, arrival=arrival, created=NOW - 10_000 + arrival)


WAITS = job("waits", 1, gpu_pods(rules=NEAR_CACHE))


def snapshot(*pending: Workload, order: str = "strict-fifo") -> Snapshot:
    queue = Queue(name=QueueName("q"), order=order, limits=Limits(capability={GPU: 8000}))
    return a_snapshot(*pending, queues=[queue], now=NOW, nodes=[gpu_node("n")])


@pytest.mark.parametrize("order", ["strict-fifo", "priority"])
def test_it_holds_up_nobody_and_says_what_it_lacks(order: str) -> None:
    later = job("later", 2)
    plan, _ = decide(snapshot(WAITS, later, order=order), Memo())
    assert admitted(plan) == {"later"}
    reason = plan.reasons[WAITS.key]
    assert reason.code is ReasonCode.NO_FIT
    assert "without the pods that affinity asks for" in reason.message


def test_it_holds_up_nobody_also_while_its_queue_is_full() -> None:
    large = job("large", 2, gpus=8)
    before = snapshot(WAITS, large)
    plan, memo = decide(before, Memo())
    assert admitted(plan) == {"large"}
    full = replace(before.after(plan), now=NOW + 1)
    plan, _ = decide(full, memo)
    assert plan.reasons[WAITS.key].code in (ReasonCode.NO_FIT, ReasonCode.QUEUE_LIMIT)
    small = job("small", 3)
    waiting = replace(full, pending={**full.pending, small.key: small})
    plan, _ = decide(waiting, Memo())
    assert plan.reasons[small.key].code is not ReasonCode.BEHIND


def test_it_starts_once_the_pods_come_and_is_the_head_while_they_are_there() -> None:
    cache = job("cache", 2, gpu_pods(name="c", counted=OF_CACHE))
    before = snapshot(WAITS, cache)
    plan, memo = decide(before, Memo())
    assert admitted(plan) == {"cache"}
    after = replace(before.after(plan), now=NOW + 1)
    runs = replace(after, nodes=after.nodes.with_ports({NodeName("n"): OF_CACHE}))
    plan, _ = decide(runs, memo)
    assert admitted(plan) == {"waits"}


def test_pods_of_its_own_gang_are_awaited_by_none() -> None:
    both = job("both", 1, gpu_pods(name="c", counted=OF_CACHE), gpu_pods(name="w", rules=NEAR_CACHE))
    assert admitted(plan_of(snapshot(both))) == {"both"}
