"""What the administrator of the cluster wants to happen to nodes with faults: from the Queue root."""

from admission.node_recovery.policy import BlackHoleRule, FaultPolicy, OnFault
from queues.quota.queue import DEFAULT_POLICY, NodeRecoveryRules, Queue


def fault_policy(root: Queue | None) -> FaultPolicy:
    """The policy for all nodes; None: there is no queue root.

    Gangs on faulty devices are evicted by the policies of their own queues, so that this one only recovers, or reports.
    """
    on_fault = DEFAULT_POLICY.on_fault if root is None else root.policy.on_fault or DEFAULT_POLICY.on_fault
    rules = NodeRecoveryRules() if root is None else root.node_recovery
    given = {
        "recovery_job": rules.job,
        "verify_job": rules.verify_job,
        "max_nodes_out": rules.max_nodes_out,
        "max_percent_out": rules.max_percent_out,
        "drain_timeout": rules.drain_timeout,
        "job_timeout": rules.job_timeout,
        "attempts": rules.attempts,
    }
    return FaultPolicy(
        on_fault=OnFault.RECOVER if on_fault == OnFault.RECOVER else OnFault.REPORT,
        black_hole=_black_hole(rules.black_hole_gangs),
        **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
    )


def _black_hole(gangs: int | None) -> BlackHoleRule | None:
    if gangs == 0:
        return None
    return BlackHoleRule() if gangs is None else BlackHoleRule(gangs=gangs)
