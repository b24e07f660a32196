"""Nodes on their way out of service and back, in a line each."""

from typing import Any

from admission.facts.devices import DeviceFault, FaultCondition
from admission.node_recovery.jobs import JobName, RecoveryJob, job_of
from admission.node_recovery.state import RecoveryPhase, RecoveryState, moment
from admission.node_recovery.step import GangOnNode, NodeTurn, NodeView, step
from queues import kind_names
from queues.quota.queue import NodeRecoveryRules
from queues.workload import NodeName, WorkloadKey

NODE = NodeName("gpu-7")
#: When the phase of a node began, and now.
SINCE, NOW = 1_800_000_000, 1_800_000_100
RULES = NodeRecoveryRules(recovers=True, job="ops/recover-gpu", verify_job="ops/test-gpu")
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


def gang(name: str, *devices: int) -> GangOnNode:
    """A gang with these devices; without any: it is not known which it has."""
    return GangOnNode(WorkloadKey(kind_names.JOB, name), frozenset(devices) or None)


def state(phase: RecoveryPhase, **more: Any) -> RecoveryState:
    """What is remembered of a node in a phase; after its first repair."""
    known: dict[str, Any] = {"devices": ("GPU-3",), "attempts": 1}
    if phase is RecoveryPhase.NONE:
        known = {}
    return RecoveryState(phase=phase, **({"since": moment(SINCE)} | known | more))


def view(known: RecoveryState, **more: Any) -> NodeView:
    """The node in this state, with its taint; its devices are reported."""
    shown: dict[str, Any] = {
        "taint": "muster" if known.phase.is_out else None,
        "annotation": known.annotation(),
        "reported": frozenset({"GPU-3", "GPU-4"}),
    }
    return NodeView(name=NODE, **(shown | more))


def with_job(known: RecoveryState, succeeded: bool | None) -> dict[JobName, RecoveryJob]:
    """The Job of a phase that has one. ``succeeded``: None: it runs."""
    wanted = job_of(NODE, known, RULES)
    return {wanted.job: RecoveryJob(SINCE + 1, succeeded)} if wanted else {}


def turn(seen: NodeView, rules: NodeRecoveryRules = RULES, now: int = NOW) -> NodeTurn:
    """What follows for the node."""
    return step(seen, rules, now)


def is_idle(found: NodeTurn) -> bool:
    """Whether nothing is to be done."""
    return not (found.evicted or found.writes or found.event or found.creates or found.deletes)
