"""Nodes that may give a gang its unhealthy device again are left out until they cannot."""

from dataclasses import replace

from admission.facts.changes import Change, FactKind
from admission.world.learned.refused_nodes import AvoidedNodes
from admission.world.world import World
from queues.admissions import AdmissionState
from queues.plan import Setback
from queues.quota.queue import QueuePolicy
from queues.workload import EVERYWHERE, NodeFilter, NodeName, Requirement
from tests.builders.facts import (
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    admission,
    gpus,
    node,
    queue,
    released,
    see,
    seen,
    state_of,
    volcano_job,
    world,
)
from tests.builders.node_agents.node_devices import node_devices

OFF_N1 = Requirement(key="metadata.name", operator="NotIn", values=("n1",), field=True)

N1, N2 = NodeName("n1"), NodeName("n2")


def healthy(node: NodeName) -> bool:
    return False


def wants(known: World) -> NodeFilter:
    [pods] = known.states[VOLCANO].workload.pod_sets
    return pods.nodes


def test_a_gang_is_kept_off_a_node_that_may_give_it_the_faulty_device_again() -> None:
    """The device plugin calls the device healthy, and the plugin chooses what a pod gets."""
    taken, pod = admission(VOLCANO, "n1", started=True), released("a", "worker/0", "n1", owner=VOLCANO)
    policy = QueuePolicy(on_fault="evict")
    known = world([queue(TEAM, policy=policy), node("n1"), node("n2"), volcano_job(1), pod], [taken])
    faulty = node_devices("n1", faulty=(3,), holders={"a": frozenset((3,))})
    see(known, Change(FactKind.NODE_DEVICES, "n1", faulty))
    known.put_setback(VOLCANO, Setback(NOW), NOW)
    known.observe(
        [replace(seen(pod), fact=None), Change(FactKind.NODE_DEVICES, "n1", replace(faulty, holders={}))]
    )
    known.put_admissions([replace(taken, state=AdmissionState.CLOSED)])
    known.refresh(NOW + 1000)
    assert wants(known).affinity == ((OFF_N1,),)
    held_back = replace(node("n1"), withheld=gpus(1), allocatable=gpus(7))
    see(known, held_back, now=NOW + 1001)
    assert wants(known) == EVERYWHERE, "the plugin gives the device to nobody"


def test_a_gang_may_come_back_to_a_node_whose_devices_are_healthy_again() -> None:
    faulty = {N1, N2}
    avoided = AvoidedNodes(faulty.__contains__, faulty.__contains__)
    avoided.note_setback(VOLCANO, replace(state_of(volcano_job(1)), faulty_nodes=frozenset(faulty)))
    assert (avoided.expire(NOW), avoided.nodes(VOLCANO)) == (set(), {N1, N2})
    avoided.pass_on(VOLCANO, JOB)
    faulty.discard(N1)
    assert (avoided.expire(NOW), avoided.nodes(JOB)) == ({JOB}, {N2})
    avoided.forget(JOB)
    assert not avoided.nodes(JOB)


def test_a_gang_is_kept_off_again_when_the_plugin_offers_the_faulty_device_again() -> None:
    """A plugin that starts again offers nothing for a while."""
    faulty, offering = {N1}, {N1}
    avoided = AvoidedNodes(faulty.__contains__, offering.__contains__)
    avoided.note_setback(VOLCANO, replace(state_of(volcano_job(1)), faulty_nodes=frozenset(faulty)))
    offering.clear()
    assert (avoided.expire(NOW), avoided.nodes(VOLCANO)) == ({VOLCANO}, frozenset())
    assert avoided.expire(NOW) == set()
    offering.add(N1)
    assert (avoided.expire(NOW), avoided.nodes(VOLCANO)) == ({VOLCANO}, {N1})
    faulty.clear()
    offering.clear()
    assert (avoided.expire(NOW), avoided.nodes(VOLCANO)) == ({VOLCANO}, frozenset())
    offering.add(N1)
    assert avoided.expire(NOW) == set(), "what was healthy is forgotten"


def test_a_gang_that_was_on_a_faulty_device_twice_is_kept_off_whatever_the_plugin_seems_to_hold_back() -> (
    None
):
    """The plugin may hold another device back, which nothing tells where the kubelet's list is not reported."""
    faulty: set[NodeName] = {N1}
    avoided = AvoidedNodes(faulty.__contains__, healthy)
    taken = replace(state_of(volcano_job(1)), faulty_nodes=frozenset(faulty))
    avoided.note_setback(VOLCANO, taken)
    assert avoided.nodes(VOLCANO) == frozenset()
    avoided.note_setback(VOLCANO, taken)
    assert (avoided.expire(NOW), avoided.nodes(VOLCANO)) == (set(), {N1})
    faulty.clear()
    assert (avoided.expire(NOW), avoided.nodes(VOLCANO)) == ({VOLCANO}, frozenset())
