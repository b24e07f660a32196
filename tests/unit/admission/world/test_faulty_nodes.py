"""From how many nodes gangs are evicted at one time because of unhealthy devices."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.changes import Change, FactKind
from admission.facts.cluster import NodeRecoveryFact, QueueFact
from admission.facts.devices import FaultCondition, NodeDevicesFact
from admission.world.world import World
from queues import kind_names
from queues.quota.queue import NodeRecoveryRules, QueuePolicy
from queues.workload import NodeName, Taint, WorkloadKey
from tests.builders.facts import NOW, TEAM, admission, node, queue, released, seen, volcano_job, world
from tests.builders.node_agents.node_devices import node_devices

GANGS = 4


def key(number: int) -> WorkloadKey:
    return WorkloadKey(kind_names.VOLCANO_JOB, f"6b4de2f6-0d0a-4d8f-9d0a-3f1f6a6f1f1{number}")


def root_queue(rules: NodeRecoveryRules) -> QueueFact:
    return queue("root", parent=None, policy=QueuePolicy(on_fault="evict"), node_recovery=rules)


def gang_on_each_node(rules: NodeRecoveryRules) -> World:
    """So many nodes with a gang each, in a queue that evicts."""
    numbers = range(GANGS)
    jobs = [replace(volcano_job(1), key=key(number), name=f"train-{number}") for number in numbers]
    pods = [
        released(f"p{n}", "worker/0", f"n{n}", by=n + 1, owner=key(n), owner_name=f"train-{n}")
        for n in numbers
    ]
    held = [admission(key(number), f"n{number}", number=number + 1, started=True) for number in numbers]
    nodes = [node(f"n{number}") for number in numbers]
    return world([root_queue(rules), queue(TEAM), *nodes, *jobs, *pods], held)


def fails(number: int, since: int) -> Change:
    """A device of a gang's pod on this node, since then."""
    reported = node_devices(f"n{number}", faulty=(3,), holders={f"p{number}": frozenset((3,))})
    return told(with_faults(reported, since=since))


def with_faults(fact: NodeDevicesFact, **about: Any) -> NodeDevicesFact:
    """The same with other faults of the devices that have one."""
    devices = (
        each if each.fault is None else replace(each, fault=each.fault._replace(**about))
        for each in fact.devices
    )
    return replace(fact, devices=tuple(devices))


def told(fact: NodeDevicesFact) -> Change:
    return Change(FactKind.NODE_DEVICES, fact.node, fact)


def evicted(of: World) -> list[int]:
    of.refresh(NOW)
    return [number for number in range(GANGS) if of.states[key(number)].evictable]


def test_a_single_fault_is_acted_on_in_the_smallest_cluster() -> None:
    found = gang_on_each_node(NodeRecoveryRules())
    found.observe([fails(2, NOW)])
    assert evicted(found) == [2]


def test_a_false_alarm_of_all_agents_evicts_from_no_more_nodes_than_are_allowed() -> None:
    found = gang_on_each_node(NodeRecoveryRules(max_nodes_out=2))
    found.observe([fails(number, NOW - number) for number in range(GANGS)])
    assert evicted(found) == [2, 3], "those that failed first"


def test_when_a_node_is_well_again_the_next_one_has_its_turn() -> None:
    found = gang_on_each_node(NodeRecoveryRules(max_nodes_out=1))
    found.observe([fails(0, NOW - 9), fails(1, NOW - 5)])
    assert evicted(found) == [0]
    found.observe([told(node_devices("n0"))])
    assert evicted(found) == [1]


def test_a_gpu_that_failed_long_ago_and_that_no_pod_has_keeps_no_gang_elsewhere_on_its_own() -> None:
    found = gang_on_each_node(NodeRecoveryRules(max_nodes_out=1))
    old = replace(fails(0, NOW - 1801).fact, holders={})
    found.observe([told(old), fails(1, NOW)])
    assert evicted(found) == [1]


def test_nodes_that_fail_together_count_though_their_gangs_have_gone() -> None:
    found = gang_on_each_node(NodeRecoveryRules(max_nodes_out=1))
    found.observe([fails(number, NOW - number) for number in range(GANGS)])
    assert evicted(found) == [3]
    found.observe([told(replace(fails(3, NOW - 3).fact, holders={}))])
    assert evicted(found) == []
    assert found.node_inventory.faulty.held_back() == {"n0", "n1", "n2"}


def test_nodes_that_are_out_of_service_count() -> None:
    found = gang_on_each_node(NodeRecoveryRules(max_nodes_out=1))
    taint = Taint(key="muster.dev/gpu-fault", value="muster", effect="NoSchedule")
    found.observe([seen(replace(node("n0"), taints=(taint,))), fails(1, NOW)])
    assert evicted(found) == []
    found.observe([fails(0, NOW)])
    assert evicted(found) == [0], "it is out already"


def test_nobody_is_evicted_for_a_fault_that_a_person_has_accepted() -> None:
    found = gang_on_each_node(NodeRecoveryRules())
    found.observe([seen(replace(node("n2"), accepted=("GPU-3/XidFault",))), fails(2, NOW)])
    assert evicted(found) == []


def test_an_agent_says_nothing_of_pods_on_other_nodes() -> None:
    found = gang_on_each_node(NodeRecoveryRules())
    lie = replace(fails(0, NOW).fact, holders={"p1": frozenset((3,))})
    found.observe([told(lie)])
    assert evicted(found) == []


def test_a_node_out_of_service_takes_no_gangs_whatever_they_tolerate() -> None:
    found = gang_on_each_node(NodeRecoveryRules())
    own = Taint(key="muster.dev/gpu-fault", value="fans", effect="NoSchedule")
    for taint, usable in ((replace(own, value="muster"), False), (own, True)):
        found.observe([seen(replace(node("n1"), taints=(taint,)))])
        assert found.node_inventory.table().layout.usable[1] == usable


FANS = Taint(key="muster.dev/gpu-fault", value="fans", effect="NoSchedule")


@pytest.mark.parametrize("away", [{"taints": (FANS,)}, {"unschedulable": True}, {"ready": False}])
def test_a_node_that_takes_no_work_for_another_reason_counts(away: dict[str, Any]) -> None:
    found = gang_on_each_node(NodeRecoveryRules(max_nodes_out=1))
    found.observe([seen(node("n0", **away)), fails(1, NOW)])
    assert evicted(found) == []
    found.observe([fails(0, NOW), seen(node("n1"))])
    assert evicted(found) == [0], "it needs no second place"


def test_a_tenth_of_the_nodes_and_one_at_least_may_be_out_unless_a_number_is_said() -> None:
    for most, expected in ((None, 2), (0, 0), (3, 3)):
        found = world(
            [queue("root", parent=None, node_recovery=NodeRecoveryRules(max_nodes_out=most))]
            + [node(f"n{number}") for number in range(20)]
        )
        found.observe([fails(number, NOW) for number in range(20)])
        found.refresh(NOW)
        assert len(found.node_inventory.faulty.granted) == expected


def test_nodes_that_kill_pods_come_first_and_where_nodes_are_recovered_old_faults_count_too() -> None:
    rules = NodeRecoveryRules(recovers=True, max_nodes_out=2)
    found = world([queue("root", parent=None, node_recovery=rules), *map(node, ("n0", "n1", "n2"))])
    kills = NodeRecoveryFact(node=NodeName("n2"), kills_pods="pods fail", since=NOW)
    found.observe([fails(0, NOW), fails(1, NOW - 86_400), Change(FactKind.NODE_RECOVERY, "n2", kills)])
    found.refresh(NOW)
    assert found.node_inventory.faulty.granted == {"n1", "n2"}
    assert found.node_inventory.faulty.closed(NodeName("n2")) == "closed to gangs: pods fail"


def test_an_administrator_may_allow_more() -> None:
    found = gang_on_each_node(NodeRecoveryRules(max_nodes_out=1))
    found.observe([fails(number, NOW - number) for number in range(GANGS)])
    assert evicted(found) == [3]
    found.observe([Change(FactKind.QUEUE, "root", root_queue(NodeRecoveryRules(max_nodes_out=4)))])
    assert evicted(found) == [0, 1, 2, 3]


def test_a_lighter_fault_of_a_device_evicts_though_the_worst_one_is_accepted() -> None:
    found = gang_on_each_node(NodeRecoveryRules())
    conditions = (FaultCondition("Lost", "FallenOffTheBus"), FaultCondition("XidFault", "Xid48"))
    change = told(with_faults(fails(2, NOW).fact, conditions=conditions))
    names = ("GPU-3/Lost/FallenOffTheBus", "GPU-3/XidFault/Xid48")
    for accepted, expected in ((names, []), (names[:1], [2])):
        node_2 = replace(node("n2"), accepted=accepted)
        found.observe([seen(node_2), change])
        assert evicted(found) == expected


def test_a_node_with_a_clock_that_runs_ahead_has_no_more_gangs_evicted_elsewhere() -> None:
    found = gang_on_each_node(NodeRecoveryRules(max_nodes_out=1))
    found.observe([fails(0, NOW - 9), fails(1, NOW - 5)])
    assert evicted(found) == [0]
    gone = [replace(fails(number, NOW - 9 + 4 * number).fact, holders={}) for number in (0, 1)]
    found.observe([told(gone[0]), fails(3, NOW + 3600)])
    assert evicted(found) == [], "the first node still counts as of the same time"
