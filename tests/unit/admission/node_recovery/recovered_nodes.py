"""Nodes on their way out of service and back, in a line each."""

from typing import Any

from admission.facts.devices import DeviceFault, FaultCondition
from admission.node_recovery.jobs import job_name
from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.state import RecoveryPhase, RecoveryState
from admission.node_recovery.step import CircuitBreaker, NodeTurn, step
from admission.node_recovery.view import (
    GangOnNode,
    JobProgress,
    NodeView,
    RecoveryJob,
    TaintOwner,
)
from queues.workload import NodeName, WorkloadKey, WorkloadKind

NODE = NodeName("gpu-7")
#: When the phase of a node began, and now.
SINCE, NOW = 1_800_000_000, 1_800_000_100
RECOVER, VERIFY = "ops/recover-gpu", "ops/test-gpu"
POLICY = FaultPolicy(recovers=True, job=RECOVER, verify_job=VERIFY)
BREAKER = CircuitBreaker(granted=frozenset({NODE}), most_out=1)
XID = DeviceFault(device="GPU-3", number=3, reason="Xid79", message="fallen off the bus", since=SINCE - 60)
LOST = FaultCondition("Lost", "FallenOffTheBus", "does not answer", SINCE - 60)
MARKED = FaultCondition("MarkedUnhealthy", "MarkedByPerson", "fans", SINCE - 30, needs_person=True)


def fault_of(*conditions: FaultCondition, number: int = 3) -> DeviceFault:
    """The fault of a device with these conditions, the worst first."""
    _, reason, message, since, _ = conditions[0]
    return DeviceFault(
        device=f"GPU-{number}",
        number=number,
        reason=reason,
        message=message,
        since=since,
        conditions=conditions,
    )


def gang(name: str, *devices: int, leaving: bool = False) -> GangOnNode:
    """A gang with these devices; without any: it is not known which it has."""
    key = WorkloadKey(WorkloadKind.JOB, name)
    return GangOnNode(key=key, devices=frozenset(devices) or None, leaving=leaving)


def state(phase: RecoveryPhase, **more: Any) -> RecoveryState:
    """What is remembered of a node in a phase; in its first attempt."""
    known: dict[str, Any] = {
        "since": SINCE,
        "fault": "GPU 3: Xid79 (fallen off the bus)",
        "devices": ("GPU-3",),
        "attempts": 1,
    }
    if phase is RecoveryPhase.NONE:
        known = {"since": SINCE}
    return RecoveryState(phase=phase, **(known | more))


def view(known: RecoveryState, **more: Any) -> NodeView:
    """The node in this state, with its taint, and devices that were read just now."""
    taint = TaintOwner.MUSTER if known.phase.is_out else TaintOwner.ABSENT
    shown: dict[str, Any] = {"taint": taint, "annotation": known.annotation()}
    return NodeView(name=NODE, **(shown | more))


def job_of(known: RecoveryState, progress: JobProgress, **more: Any) -> dict[str, RecoveryJob]:
    """The Job of a phase that has one."""
    name = job_name(NODE, known)
    fields: dict[str, Any] = {"progress": progress, "created": SINCE + 1}
    return {name: RecoveryJob(namespace="ops", name=name, **(fields | more))} if name else {}


def turn(
    seen: NodeView,
    policy: FaultPolicy = POLICY,
    now: int = NOW,
    *,
    breaker: CircuitBreaker = BREAKER,
) -> NodeTurn:
    """What follows for the node."""
    return step(seen, breaker, policy, now)
