"""Gangs with a pod on an unhealthy device."""

from typing import Any

import pytest

from admission.workloads.state import WorkloadState
from queues.admissions import Setbacks
from queues.quota.queue import QueuePolicy
from queues.reason_codes import ReasonCode
from queues.workload import NodeName
from tests.builders.facts import NOW, VOLCANO, admission, released, state_of, volcano_job
from tests.builders.node_agents.node_devices import fault

RUNNING = (released("a", "worker/0", "n1"), released("b", "worker/1", "n2"))
GANG = admission(VOLCANO, "n1 n2", started=True)


def gang(on_fault: str, *faulty: str, **more: Any) -> WorkloadState:
    policy = QueuePolicy(on_fault=on_fault)
    faults = {uid: fault(3) for uid in faulty}
    return state_of(volcano_job(2), RUNNING, [GANG], policy=policy, device_faults=faults, **more)


@pytest.mark.parametrize("on_fault", ["evict", "recover"])
def test_the_gang_is_taken_back_whole_and_says_which_device_of_which_node(on_fault: str) -> None:
    [rollback] = gang(on_fault, "b").evictable.values()
    assert rollback.code is ReasonCode.GPU_UNHEALTHY
    assert rollback.message == "GPU 3 of node n2, under pod b, is unhealthy: XidFault (XID 79)"
    assert rollback.not_before == NOW


def test_it_stays_where_its_queue_only_reports_faults() -> None:
    assert gang("report", "b").evictable == {}


@pytest.mark.parametrize("on_fault", ["report", "evict"])
def test_a_gang_leaves_a_node_that_is_being_recovered_whatever_its_queue_says(on_fault: str) -> None:
    leaves = {NodeName("n1"): "GPU 3: XidFault, on node n1"}
    [rollback] = gang(on_fault, recovery=leaves).evictable.values()
    assert (rollback.code, rollback.message) == (ReasonCode.GPU_UNHEALTHY, "GPU 3: XidFault, on node n1")


def test_a_gang_that_has_moved_stays_though_its_old_node_is_still_being_recovered() -> None:
    assert gang("evict", recovery={NodeName("n3"): "GPU 3: XidFault, on node n3"}).evictable == {}


def test_a_gang_that_is_hit_again_before_it_was_ready_pauses() -> None:
    [rollback] = gang("evict", "b", setbacks=Setbacks(rollbacks=2)).evictable.values()
    assert rollback.not_before > NOW
    [first] = gang("evict", "b", setbacks=Setbacks(rollbacks=0)).evictable.values()
    assert first.not_before == NOW


def test_a_gang_on_healthy_devices_stays() -> None:
    assert gang("evict").evictable == {}


def test_members_that_joined_go_with_their_gang() -> None:
    joined = admission(VOLCANO, "n3", number=2, first=2, started=True)
    pods = (*RUNNING, released("c", "worker/2", "n3", by=2))
    policy = QueuePolicy(on_fault="evict")
    found = state_of(
        volcano_job(3, minimum=2), pods, [GANG, joined], policy=policy, device_faults={"a": fault(0)}
    )
    assert set(found.evictable) == {GANG.id, joined.id}


def test_another_policy_of_the_queue_is_looked_at_while_a_device_is_unhealthy() -> None:
    assert gang("report", "a").follows_policy
    assert not gang("report").follows_policy


def test_a_gang_that_lost_its_device_comes_first_in_its_queue() -> None:
    waiting = state_of(volcano_job(2), last_eviction=ReasonCode.GPU_UNHEALTHY)
    assert waiting.workload.comes_first
    for code in (ReasonCode.NODES_RESERVED, ReasonCode.MAINTENANCE):
        assert state_of(volcano_job(2), last_eviction=code).workload.comes_first
    assert not state_of(volcano_job(2), last_eviction=ReasonCode.PREEMPTED).workload.comes_first
