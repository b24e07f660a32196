"""What the engine keeps from turn to turn follows the snapshot."""

import gc
from collections.abc import Iterable
from dataclasses import replace

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.table import NodeTable
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission, Seat
from queues.quota.queue import Queue
from queues.resources import GPU, Resources
from queues.workload import AdmissionId, NodeName, PodSet, QueueName, Workload, WorkloadKey, WorkloadKind
from tests.builders.decided_work import a_node

TAKES = Resources({GPU: 1000, "pods": 1})
QUEUE = QueueName("q")
NODE = a_node("n", {GPU: 8000, "pods": 110})


def snapshot_of(numbers: Iterable[int], *, weight: int = 1) -> Snapshot:
    """One workload that holds these admissions."""
    return Snapshot(
        now=1_000_000,
        nodes=NodeTable.build([NODE], {}),
        queues={QUEUE: Queue(name=QUEUE, weight=weight)},
        pending={},
        admissions={
            AdmissionId(number): Admission(
                id=AdmissionId(number),
                workload=WorkloadKey(WorkloadKind.JOB, "job"),
                namespace="ml",
                name="job",
                queue=QUEUE,
                priority=0,
                seats=(Seat(pod_set="worker", ordinal=0, node=NodeName("n"), takes=TAKES),),
                opened_at=0,
            )
            for number in numbers
        },
    )


def test_an_admission_that_closes_while_queues_change_is_no_candidate_any_more() -> None:
    state = Memo().state_for(snapshot_of([1]))

    later = Memo(state=state, turns=state.turns).state_for(snapshot_of([2], weight=2))

    assert set(later.held_admissions) == {AdmissionId(2)}


def test_an_admission_that_closes_is_no_candidate_any_more() -> None:
    first = snapshot_of([1])
    state = Memo().state_for(first)

    second = replace(snapshot_of([2]), queues=first.queues, nodes=first.nodes)
    later = Memo(state=state, turns=state.turns).state_for(second)

    assert later is state
    assert set(later.held_admissions) == {AdmissionId(2)}


def too_large(name: str) -> Workload:
    """It waits for a node, though its queue has room for it."""
    pods = PodSet(name="main", count=1, takes=Resources({GPU: 9000, "pods": 1}))
    key = WorkloadKey(WorkloadKind.JOB, name)
    return Workload(
        key=key,
        namespace="ml",
        name=name,
        queue=QUEUE,
        arrival=1,
        minimum=1,
        pod_sets=(pods,),
        generation="1",
    )


def test_what_a_change_of_queues_replaces_is_freed_without_a_collection() -> None:
    """No collection visits what is as old as workloads that wait: their garbage would stay until the term ends."""
    waiting = {each.key: each for each in (too_large(str(number)) for number in range(100))}
    nodes = NodeTable.build([NODE, replace(NODE, name=NodeName("m"))], {})
    memo = decide(replace(snapshot_of(()), nodes=nodes, pending=waiting), Memo())[1]
    gc.collect()
    gc.disable()
    try:
        plan, memo = decide(replace(snapshot_of((), weight=2), nodes=nodes, pending=waiting), memo)
        assert len(plan.reasons) == len(waiting)
        assert gc.collect() < len(waiting)
    finally:
        gc.enable()
