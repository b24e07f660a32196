"""Nodes that refused a gang are left out for a while, and then are as good as any."""

from dataclasses import replace

from admission.facts.changes import Change, FactKind
from admission.facts.pods import PodFact
from admission.workloads.pod_sets import elsewhere
from admission.workloads.rollback import refusing_nodes
from admission.workloads.seats import seat_maps_of
from admission.world.learned.avoided_nodes import AvoidedNodes
from admission.world.world import World
from queues.admissions import AdmissionState
from queues.plan import Setback
from queues.quota.queue import QueuePolicy
from queues.workload import EVERYWHERE, NodeFilter, NodeName, PodSet, Requirement
from tests.builders.facts import (
    GRACE,
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    admission,
    gpus,
    node,
    queue,
    released,
    seen,
    state_of,
    volcano_job,
    world,
)
from tests.builders.node_agents.node_devices import node_devices

ZONE = Requirement(key="zone", operator="In", values=("a",))
OFF_N1 = Requirement(key="metadata.name", operator="NotIn", values=("n1",), field=True)

N1, N2 = NodeName("n1"), NodeName("n2")


def healthy(node: NodeName) -> bool:
    return False


def kept_off(nodes: NodeFilter) -> NodeFilter:
    [pods] = elsewhere([PodSet(name="worker", count=1, takes=gpus(), nodes=nodes)], frozenset({N1}))
    return pods.nodes


def test_every_term_of_a_pods_own_is_narrowed() -> None:
    assert kept_off(EVERYWHERE).affinity == ((OFF_N1,),)
    assert kept_off(NodeFilter(affinity=((ZONE,), (ZONE, ZONE)))).affinity == (
        (ZONE, OFF_N1),
        (ZONE, ZONE, OFF_N1),
    )
    assert kept_off(NodeFilter(affinity=((), (ZONE,)))).affinity == ((), (ZONE, OFF_N1))


def test_only_nodes_that_refuse_are_left_out_and_only_for_a_while() -> None:
    taken = admission(VOLCANO, "n1 n2 n3")
    pods = [
        released("a", "worker/0", refused=(0, "no")),
        released("b", "worker/1"),
        released("c", "worker/2", "n3"),
    ]
    refusals = AvoidedNodes(healthy, healthy)
    refusals.note(VOLCANO, refusing_nodes(seat_maps_of([taken], pods)), 100)
    assert refusals.nodes(VOLCANO) == {N1}
    assert refusals.nodes(JOB) == set()
    assert refusals.expire(99) == set()
    assert refusals.expire(100) == {VOLCANO}
    assert refusals.nodes(VOLCANO) == set()


def test_who_takes_anothers_place_is_not_sent_where_that_one_was_refused() -> None:
    refusals = AvoidedNodes(healthy, healthy)
    stuck_pod = [released("a", "worker/0", refused=(0, "no"))]
    refusals.note(VOLCANO, refusing_nodes(seat_maps_of([admission(VOLCANO, "n1")], stuck_pod)), 100)
    refusals.pass_on(VOLCANO, JOB)
    assert refusals.nodes(JOB) == {N1}
    assert not refusals.nodes(VOLCANO)


def test_pods_without_a_seat_of_their_own_are_refused_by_the_nodes_of_the_vacant_seats() -> None:
    taken = admission(JOB, "n1 n2")
    pods = [released("a", None, "n2"), released("b", None, refused=(0, "no"))]
    refusals = AvoidedNodes(healthy, healthy)
    refusals.note(JOB, refusing_nodes(seat_maps_of([taken], pods)), 100)
    assert refusals.nodes(JOB) == {N1}


def wants(known: World) -> NodeFilter:
    [pods] = known.states[VOLCANO].workload.pod_sets
    return pods.nodes


def stuck(name: str, seat: str) -> PodFact:
    return released(name, seat, refused=(NOW - GRACE, "no free ports"), owner=VOLCANO)


def test_a_gang_that_goes_back_is_not_seated_where_it_was_refused() -> None:
    taken = admission(VOLCANO, "n1")
    known = world([node("n1"), node("n2"), volcano_job(1), stuck("a", "worker/0")], [taken])
    assert wants(known) == EVERYWHERE
    known.put_setback(VOLCANO, Setback(NOW + 10), NOW)
    known.put_admissions([replace(taken, state=AdmissionState.CLOSED)])
    known.refresh(NOW)
    assert wants(known).affinity == ((OFF_N1,),)
    known.refresh(NOW + 10 + known.timeouts.detour)
    assert wants(known) == EVERYWHERE


def test_a_gang_is_kept_off_a_node_that_may_give_it_the_faulty_device_again() -> None:
    """The device plugin calls the device healthy, and the plugin chooses what a pod gets."""
    taken, pod = admission(VOLCANO, "n1", started=True), released("a", "worker/0", "n1", owner=VOLCANO)
    policy = QueuePolicy(on_fault="evict")
    known = world([queue(TEAM, policy=policy), node("n1"), node("n2"), volcano_job(1), pod], [taken])
    faulty = node_devices("n1", faulty=(3,), holders={"a": frozenset((3,))})
    known.observe([Change(FactKind.NODE_DEVICES, "n1", faulty)])
    known.refresh(NOW)
    known.put_setback(VOLCANO, Setback(NOW), NOW)
    known.observe(
        [replace(seen(pod), fact=None), Change(FactKind.NODE_DEVICES, "n1", replace(faulty, holders={}))]
    )
    known.put_admissions([replace(taken, state=AdmissionState.CLOSED)])
    known.refresh(NOW + 1000)
    assert wants(known).affinity == ((OFF_N1,),)
    held_back = replace(node("n1"), withheld=gpus(1), allocatable=gpus(7))
    known.observe([seen(held_back)])
    known.refresh(NOW + 1001)
    assert wants(known) == EVERYWHERE, "the plugin gives the device to nobody"


def test_a_gang_may_come_back_to_a_node_whose_devices_are_healthy_again() -> None:
    faulty = {N1, N2}
    refusals = AvoidedNodes(faulty.__contains__, faulty.__contains__)
    refusals.note_setback(VOLCANO, replace(state_of(volcano_job(1)), faulty_nodes=frozenset(faulty)), NOW)
    assert (refusals.expire(NOW + 9999), refusals.nodes(VOLCANO)) == (set(), {N1, N2})
    refusals.pass_on(VOLCANO, JOB)
    faulty.discard(N1)
    assert (refusals.expire(NOW), refusals.nodes(JOB)) == ({JOB}, {N2})
    refusals.forget(JOB)
    assert not refusals.nodes(JOB)


def test_a_gang_is_kept_off_again_when_the_plugin_offers_the_faulty_device_again() -> None:
    """A plugin that starts again offers nothing for a while."""
    faulty, offering = {N1}, {N1}
    refusals = AvoidedNodes(faulty.__contains__, offering.__contains__)
    refusals.note_setback(VOLCANO, replace(state_of(volcano_job(1)), faulty_nodes=frozenset(faulty)), NOW)
    offering.clear()
    assert (refusals.expire(NOW), refusals.nodes(VOLCANO)) == ({VOLCANO}, frozenset())
    assert refusals.expire(NOW) == set()
    offering.add(N1)
    assert (refusals.expire(NOW), refusals.nodes(VOLCANO)) == ({VOLCANO}, {N1})
    faulty.clear()
    offering.clear()
    assert (refusals.expire(NOW), refusals.nodes(VOLCANO)) == ({VOLCANO}, frozenset())
    offering.add(N1)
    assert refusals.expire(NOW) == set(), "what was healthy is forgotten"


def test_a_gang_that_was_on_a_faulty_device_twice_is_kept_off_whatever_the_plugin_seems_to_hold_back() -> (
    None
):
    """The plugin may hold another device back, which nothing tells where the kubelet's list is not reported."""
    faulty: set[NodeName] = {N1}
    refusals = AvoidedNodes(faulty.__contains__, healthy)
    taken = replace(state_of(volcano_job(1)), faulty_nodes=frozenset(faulty))
    refusals.note_setback(VOLCANO, taken, NOW)
    assert refusals.nodes(VOLCANO) == frozenset()
    refusals.note_setback(VOLCANO, taken, NOW)
    assert (refusals.expire(NOW), refusals.nodes(VOLCANO)) == (set(), {N1})
    faulty.clear()
    assert (refusals.expire(NOW), refusals.nodes(VOLCANO)) == ({VOLCANO}, frozenset())


def test_a_member_that_is_refused_after_the_start_gets_another_seat() -> None:
    taken = admission(VOLCANO, "n1 n2", started=True)
    lost, other = stuck("a", "worker/0"), released("b", "worker/1", "n2", owner=VOLCANO)
    known = world([node("n1"), node("n2"), volcano_job(2), lost, other], [taken])
    assert [pod.name for pod in known.states[VOLCANO].unschedulable] == ["a"]
    known.observe([replace(seen(lost), fact=None)])
    known.refresh(NOW + 1)
    found = known.states[VOLCANO]
    assert found.ended == {taken.id: frozenset({0})}, "the seat is given back, not taken again"
    assert wants(known).affinity == ((OFF_N1,),)
