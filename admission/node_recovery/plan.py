"""What follows for all nodes now."""

from collections.abc import Mapping

from admission.node_recovery.circuit_breaker import fleet_of
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
) -> Mapping[NodeName, RecoveryTurn]:
    """What follows for each node that has or had a fault, by name; nodes without anything to look at are left out.

    ``nodes``: all nodes with devices, since the circuit breaker counts them; ``templates``: CronJobs that exist
    (``namespace/name``). Never more nodes are taken out of service than the policy allows, persons' orders apart.
    """
    fleet = fleet_of(nodes, policy, now, templates=templates)
    return {name: step(nodes[name], fleet, policy, now) for name in sorted(nodes) if not nodes[name].is_quiet}
