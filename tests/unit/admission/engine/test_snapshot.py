"""The snapshot of the next turn is what a plan makes of the one it was decided on."""

from dataclasses import replace

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from queues.quota.queue import Queue
from queues.resources import Resources
from queues.workload import (
    AdmissionId,
    HostPort,
    NodeName,
    PodSet,
    QueueName,
    Workload,
)
from tests.builders.decided_work import a_snapshot, a_workload

QUEUE = QueueName("q")
TAKES = Resources({"pods": 1})
PORT = HostPort(port=80)


def asks_for_the_port(name: str) -> Workload:
    return a_workload(
        name,
        PodSet(name="worker", count=1, takes=TAKES, ports=(PORT,)),
        namespace="ml",
        queue=QUEUE,
        created=0,
    )


def test_a_host_port_is_taken_by_whoever_was_admitted_and_free_when_the_seat_is() -> None:
    node = Node(name=NodeName("n"), allocatable=TAKES * 9, labels={HOST: "n"}, used=Resources({}))
    first, second = asks_for_the_port("first"), asks_for_the_port("second")
    snapshot = a_snapshot(
        *(first, second), queues=[Queue(name=QUEUE)], now=1_000_000, nodes=NodeTable.build([node])
    )
    plan, _ = decide(snapshot, Memo(), 1)
    assert [admit.workload for admit in plan.admits] == [first.key]

    later = snapshot.after(plan)
    assert later.nodes.ports == {"n": (PORT,)}
    refused, _ = decide(later, Memo())
    assert refused.admits == ()

    (number,) = later.admissions
    freed, _ = decide(replace(later, ended={AdmissionId(number): frozenset({0})}), Memo(), 1)
    assert later.after(freed).nodes.ports == {}
