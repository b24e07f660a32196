"""What the engine keeps from turn to turn follows the snapshot."""

from collections.abc import Iterable
from dataclasses import replace

from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues.admissions import Admission, Seat
from queues.quota.queue import Queue
from queues.resources import GPU, Resources
from queues.workload import AdmissionId, NodeName, QueueName, WorkloadKey, WorkloadKind

TAKES = Resources({GPU: 1000, "pods": 1})
QUEUE = QueueName("q")
NODE = Node(
    name=NodeName("n"),
    allocatable=Resources({GPU: 8000, "pods": 110}),
    labels={HOST: "n"},
    used=Resources({}),
)


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
