"""Host ports: whoever has to go leaves them, and what is promised is kept, as with every other resource."""

from dataclasses import replace

import numpy as np

from admission.engine.nodes.host_ports import NodePorts
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.plan import Plan
from queues.quota.queue import Queue
from queues.quota.usage import Usage
from queues.resources import Resources
from queues.workload import (
    ANTI_AFFINITY,
    ATTACHED,
    COUNTED,
    HostPort,
    NodeName,
    PodSet,
    QueueName,
    Workload,
)
from tests.builders.decided_work import a_node, a_snapshot, a_workload, plan_of
from tests.builders.running_work import tree_of
from tests.laws.worlds.plan_effects import apply, drained

QUEUE = QueueName("q")
HTTP = HostPort(80)


def service(number: int, *, priority: int = 0, pods: int = 1, port: HostPort | None = HTTP) -> Workload:
    """Pods of one CPU of which each wants the port of its node for itself."""
    takes = Resources({"cpu": 1000, "pods": 1})
    wants = PodSet(name="main", count=pods, takes=takes, ports=() if port is None else (port,))
    return a_workload(str(number), wants, priority=priority, arrival=number, created=number)


def cluster(nodes: int = 2) -> Snapshot:
    rows = [a_node(f"n{number}", {"cpu": 8000, "pods": 10}) for number in range(nodes)]
    return a_snapshot(queues=[Queue(name=QUEUE)], nodes=rows, now=100)


def told(snapshot: Snapshot) -> Snapshot:
    """The same with the ports of all seats taken, as the world tells it."""
    taken: dict[NodeName, tuple[HostPort, ...]] = {}
    for admission in snapshot.admissions.values():
        for seat in admission.holding():
            pods = snapshot.holders[admission.workload].pod_set(seat.pod_set)
            taken[seat.node] = taken.get(seat.node, ()) + pods.occupies
    return replace(snapshot, nodes=snapshot.nodes.with_ports(taken))


def turn(snapshot: Snapshot, *arriving: Workload) -> tuple[Plan, Snapshot]:
    """One turn with these waiting as well."""
    waiting = {**snapshot.pending, **{workload.key: workload for workload in arriving}}
    snapshot = told(replace(snapshot, pending=waiting, now=snapshot.now + 10))
    plan = plan_of(snapshot)
    return plan, apply(snapshot, plan)


def running(snapshot: Snapshot, *workloads: Workload) -> Snapshot:
    plan, after = turn(snapshot, *workloads)
    assert {admit.workload for admit in plan.admits} == {workload.key for workload in workloads}
    return replace(after, holders={workload.key: workload for workload in workloads})


def test_who_stands_in_the_way_of_a_port_goes_and_nobody_else() -> None:
    plain = service(1, port=None)
    before = running(cluster(), plain, service(2), service(3))
    urgent = service(9, priority=10)

    plan, after = turn(before, urgent)

    (evict,) = plan.evicts
    assert before.admissions[evict.admission].workload in {service(2).key, service(3).key}
    plan, _ = turn(drained(after))
    (admit,) = plan.admits
    place = before.admissions[evict.admission].seats[0].node
    assert (admit.workload, admit.seats[0].node) == (urgent.key, place)


def test_a_gang_gets_the_port_of_as_many_nodes_as_it_needs() -> None:
    before = running(cluster(3), service(1), service(2), service(3, port=None))
    urgent = service(9, priority=10, pods=2)

    plan, after = turn(before, urgent)

    assert len(plan.evicts) == 1  # one node has nobody on that port
    plan, _ = turn(drained(after))
    assert [admit.workload for admit in plan.admits] == [urgent.key]


def test_another_port_or_address_stands_in_nobodys_way() -> None:
    before = running(cluster(1), service(1, port=HostPort(81)), service(2, port=HostPort(80, ip="10.0.0.1")))

    plan, _ = turn(before, service(9, priority=10, port=HostPort(80, ip="10.0.0.2")))

    assert (len(plan.admits), plan.evicts) == (1, ())


def test_a_port_that_is_promised_is_taken_by_nobody_else() -> None:
    before = running(cluster(1), service(1), service(2, port=None))
    plan, after = turn(before, service(8, priority=10))
    assert len(plan.evicts) == 1

    plan, after = turn(after, service(9, priority=20))
    assert (plan.admits, plan.evicts) == ((), ())

    # The port is free now, and the place goes to the most urgent of the queue that it was made for.
    plan, _ = turn(drained(after), service(10, priority=30))
    assert [admit.workload for admit in plan.admits] == [service(10).key]


def test_two_do_not_get_the_same_port_promised() -> None:
    before = running(cluster(1), service(1))

    plan, _ = turn(before, service(8, priority=10), service(9, priority=10))

    assert (len(plan.evicts), len(plan.claims)) == (1, 1)


def test_pods_that_keep_their_like_off_their_nodes_get_a_node_each_or_are_told_why() -> None:
    apart = HostPort(0, ANTI_AFFINITY, "of-these")
    plan, _ = turn(cluster(3), service(1, pods=3, port=apart))
    assert len({seat.node for seat in plan.admits[0].seats}) == 3
    plan, _ = turn(cluster(2), service(1, pods=3, port=apart))
    assert not plan.admits
    plan, _ = turn(running(cluster(2), service(1, port=apart)), service(2, pods=2, port=apart))
    (reason,) = plan.reasons.values()
    assert "(1 with a pod that anti-affinity keeps apart)" in reason.message


def with_volumes(number: int, *attached: HostPort, priority: int = 0, pods: int = 1) -> Workload:
    """Pods with these volumes."""
    work = service(number, priority=priority, pods=pods, port=None)
    return replace(work, pod_sets=tuple(replace(each, attached=attached) for each in work.pod_sets))


OWN, SHARED = HostPort(1, ATTACHED, "disk"), HostPort(0, ATTACHED, "disk/a")


def attaching(limit: int, nodes: int = 1) -> Snapshot:
    """Nodes that attach so many volumes."""
    before = cluster(nodes)
    limits = {name: {"disk": limit} for name in before.nodes.layout.names}
    return replace(before, nodes=before.nodes.with_attach_limits(limits))


def test_who_has_the_volumes_goes_and_nobody_else() -> None:
    two = HostPort(2, ATTACHED, "disk")
    plain, small, large = service(1, port=None), with_volumes(2, OWN), with_volumes(3, two)
    before = running(attaching(3), plain, small, large)

    plan, after = turn(before, with_volumes(9, two, priority=10))

    (evict,) = plan.evicts
    assert before.admissions[evict.admission].workload == large.key
    plan, _ = turn(drained(after))
    assert len(plan.admits) == 1


def test_volumes_of_several_seats_on_one_node_are_all_freed() -> None:
    before = running(attaching(2), with_volumes(1, OWN, pods=2))
    plan, after = turn(before, with_volumes(9, OWN, priority=10, pods=2))
    assert len(plan.evicts) == 1
    plan, _ = turn(drained(after))
    assert len(plan.admits) == 1


def test_a_volume_of_several_pods_is_attached_until_the_last_of_them_is_gone() -> None:
    trial = Trial.open(attaching(1).nodes, Usage(tree_of({QUEUE: Queue(name=QUEUE)}, gpus=0)))
    place, other = NodePorts(NodeName("n0"), (SHARED,)), (HostPort(0, ATTACHED, "disk/b"),)
    trial.ports.occupy([place, place])
    assert trial.ports.attachable(other)[0] == 0
    assert trial.ports.attachable((SHARED,))[0] > 0
    trial.ports.vacate([place])
    assert trial.ports.attachable(other)[0] == 0
    trial.ports.vacate([place])
    assert trial.ports.attachable(other)[0] > 0
    assert trial.ports.attachable((SHARED, *other))[0] == 0


def test_each_pod_that_is_placed_on_a_node_counts_for_rules_of_others() -> None:
    trial = Trial.open(cluster(1).nodes, Usage(tree_of({QUEUE: Queue(name=QUEUE)}, gpus=0)))
    takes, chosen = Resources({"cpu": 1000}), (HostPort(0, COUNTED, "web"),)
    trial.take(np.array([0]), np.array([3]), takes, QUEUE, {}, chosen)
    assert dict(trial.ports.counted("web")) == {0: 3}
    trial.undo()
    assert dict(trial.ports.counted("web")) == {0: 0}
