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
from tests.tables import named_rows

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


@pytest.mark.parametrize("on_fault", ["report", "evict"])
def test_a_gang_leaves_a_node_that_is_being_recovered_whatever_its_queue_says(on_fault: str) -> None:
    leaves = {NodeName("n1"): "GPU 3: XidFault, on node n1"}
    [rollback] = gang(on_fault, recovery=leaves).evictable.values()
    assert (rollback.code, rollback.message) == (ReasonCode.GPU_UNHEALTHY, "GPU 3: XidFault, on node n1")


def test_a_gang_that_is_hit_again_before_it_was_ready_pauses() -> None:
    [rollback] = gang("evict", "b", setbacks=Setbacks(rollbacks=2)).evictable.values()
    assert rollback.not_before > NOW
    [first] = gang("evict", "b", setbacks=Setbacks(rollbacks=0)).evictable.values()
    assert first.not_before == NOW


@named_rows(
    ("on_fault", "faulty", "recovery"),
    {
        "its queue only reports faults": ("report", ("b",), {}),
        "its devices are healthy": ("evict", (), {}),
        "it has moved, and its old node is still being recovered": (
            "evict",
            (),
            {NodeName("n3"): "GPU 3: XidFault"},
        ),
    },
)
def test_a_gang_stays(on_fault: str, faulty: tuple[str, ...], recovery: dict[NodeName, str]) -> None:
    assert gang(on_fault, *faulty, recovery=recovery).evictable == {}


def test_members_that_joined_go_with_their_gang() -> None:
    joined = admission(VOLCANO, "n3", number=2, first=2, started=True)
    pods = (*RUNNING, released("c", "worker/2", "n3", by=2))
    given = {"policy": QueuePolicy(on_fault="evict"), "device_faults": {"a": fault(0)}}
    found = state_of(volcano_job(3, minimum=2), pods, [GANG, joined], **given)
    assert set(found.evictable) == {GANG.id, joined.id}


def test_another_policy_of_the_queue_is_looked_at_while_a_device_is_unhealthy() -> None:
    assert gang("report", "a").follows_policy
    assert not gang("report").follows_policy


def test_a_gang_that_lost_its_device_comes_first_in_its_queue() -> None:
    for code in (ReasonCode.GPU_UNHEALTHY, ReasonCode.NODES_RESERVED, ReasonCode.MAINTENANCE):
        assert state_of(volcano_job(2), last_eviction=code).workload.comes_first
    assert not state_of(volcano_job(2), last_eviction=ReasonCode.PREEMPTED).workload.comes_first
