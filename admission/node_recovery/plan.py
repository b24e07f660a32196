"""What follows for all nodes now."""

from collections.abc import Callable, Mapping

from admission.node_recovery.circuit_breaker import recovery_context
from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.step import RecoveryTurn, step
from admission.node_recovery.view import NodeView
from queues.workload import NodeName


def plan(
    nodes: Mapping[NodeName, NodeView],
    policy: FaultPolicy,
    now: int,
    *,
    templates: frozenset[str] = frozenset(),
    failed: Callable[[NodeName, Exception], None] | None = None,
) -> Mapping[NodeName, RecoveryTurn]:
    """What follows for each node that has or had a fault, by name; nodes without anything to look at are left out.

    ``nodes``: all nodes with devices, since the circuit breaker counts them; ``templates``: CronJobs that exist
    (``namespace/name``). Never more nodes are taken out of service than the policy allows, persons' orders apart.
    ``failed``: called with nodes whose step failed, which are left out too. If None, the error is raised.
    """
    context = recovery_context(nodes, policy, now, templates=templates)
    turns: dict[NodeName, RecoveryTurn] = {}
    for name in sorted(name for name, view in nodes.items() if not view.is_quiet):
        try:
            turns[name] = step(nodes[name], context, policy, now)
        except Exception as error:
            if failed is None:
                raise
            failed(name, error)
    return turns
