"""What the administrator of the cluster wants to happen to nodes with faults: from the Queue root."""

from admission.node_recovery.policy import BlackHoleRule, FaultPolicy
from queues.quota.queue import RECOVER, NodeRecoveryRules, Queue


def fault_policy(root: Queue | None) -> FaultPolicy:
    """The policy for all nodes. ``root``: None if there is no queue root."""
    rules = NodeRecoveryRules() if root is None else root.node_recovery
    given = {
        "recovery_job": rules.job,
        "verify_job": rules.verify_job,
        "max_nodes_out": rules.max_nodes_out,
        "max_percent_out": rules.max_percent_out,
        "drain_timeout": rules.drain_timeout,
        "job_timeout": rules.job_timeout,
        "verify_timeout": rules.verify_timeout,
        "attempts": rules.attempts,
        "attempts_within": rules.attempts_within,
    }
    return FaultPolicy(
        recovers=root is not None and root.policy.on_fault == RECOVER,
        black_hole=_black_hole(rules.black_hole_gangs),
        **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
    )


def _black_hole(gangs: int | None) -> BlackHoleRule | None:
    if gangs == 0:
        return None
    return BlackHoleRule() if gangs is None else BlackHoleRule(gangs=gangs)
