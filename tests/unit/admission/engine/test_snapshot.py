"""The snapshot of the next turn is what a plan makes of the one it was decided on."""

from dataclasses import replace

from admission.engine.decide import decide
from admission.engine.memo import Memo
from queues.quota.queue import Queue
from queues.workload import (
    AdmissionId,
    HostPort,
    Workload,
)
from tests.builders.decided_work import a_snapshot, a_workload, gpu_node, gpu_pods, plan_of

PORT = HostPort(port=80)


def asks_for_the_port(name: str) -> Workload:
    return a_workload(name, gpu_pods(ports=(PORT,)), created=0)


def test_a_host_port_is_taken_by_whoever_was_admitted_and_free_when_the_seat_is() -> None:
    first, second = asks_for_the_port("first"), asks_for_the_port("second")
    queue = Queue(name=first.queue)
    snapshot = a_snapshot(first, second, queues=[queue], now=1_000_000, nodes=[gpu_node("n")])
    plan, _ = decide(snapshot, Memo(), 1)
    assert [admit.workload for admit in plan.admits] == [first.key]

    later = snapshot.after(plan)
    assert later.nodes.ports == {"n": (PORT,)}
    assert plan_of(later).admits == ()

    (number,) = later.admissions
    freed, _ = decide(replace(later, ended={AdmissionId(number): frozenset({0})}), Memo(), 1)
    assert later.after(freed).nodes.ports == {}
