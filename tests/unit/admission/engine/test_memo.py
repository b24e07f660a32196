"""What the engine keeps from turn to turn follows the snapshot."""

import gc
from dataclasses import replace

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues.quota.queue import Queue
from queues.workload import QueueName, Workload
from tests.builders.decided_work import a_snapshot, a_workload, an_admission, gpu_node, gpu_pods, seats_on

NODES = [gpu_node("n"), gpu_node("m")]


def snapshot_of(number: int | None, *waiting: Workload, weight: int = 1) -> Snapshot:
    """One workload that holds this admission, if any."""
    job = a_workload("job", gpu_pods())
    held = [] if number is None else [an_admission(number, job, *seats_on("n", *job.pod_sets))]
    queue = Queue(name=QueueName("q"), weight=weight)
    return a_snapshot(*waiting, queues=[queue], nodes=NODES, admissions=held, now=1_000_000)


@pytest.mark.parametrize("weight", [1, 2], ids=["queues stay", "queues change"])
def test_an_admission_that_closes_is_no_candidate_any_more(weight: int) -> None:
    first = snapshot_of(1)
    state = Memo().state_for(first)
    second = snapshot_of(2, weight=weight)
    if weight == 1:
        second = replace(second, queues=first.queues, nodes=first.nodes)

    later = Memo(state=state, turns=state.turns).state_for(second)

    assert (later is state) == (weight == 1)
    assert set(later.held_admissions) == {2}


def test_what_a_change_of_queues_replaces_is_freed_without_a_collection() -> None:
    """No collection visits what is as old as workloads that wait: their garbage would stay until the term ends."""
    waiting = [a_workload(str(number), gpu_pods(gpus=9)) for number in range(100)]
    first = snapshot_of(None, *waiting)
    memo = decide(first, Memo())[1]
    gc.collect()
    gc.disable()
    try:
        plan, memo = decide(replace(snapshot_of(None, *waiting, weight=2), nodes=first.nodes), memo)
        assert len(plan.reasons) == len(waiting)
        assert gc.collect() < len(waiting)
    finally:
        gc.enable()
