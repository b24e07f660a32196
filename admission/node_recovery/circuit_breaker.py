"""How many nodes may be out of service at one time, and which go next."""

from collections.abc import Mapping

from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.step_input import StepInput, known_state
from admission.node_recovery.view import NodeView, RecoveryContext, RecoveryStep, TaintOwner
from queues.workload import NodeName

#: Steps that a person may ask for and that take a node out of service.
_TAKES_OUT = frozenset({RecoveryStep.CORDON, RecoveryStep.DRAIN, RecoveryStep.RECOVER, RecoveryStep.VERIFY})


def most_out(policy: FaultPolicy, nodes: int) -> int | None:
    """The most nodes of so many that Muster may take out of service. None if there is no bound."""
    bounds = [] if policy.max_nodes_out is None else [policy.max_nodes_out]
    if policy.max_percent_out is not None:
        bounds.append(max(1, nodes * policy.max_percent_out // 100) if policy.max_percent_out else 0)
    return min(bounds, default=None)


def recovery_context(
    nodes: Mapping[NodeName, NodeView], policy: FaultPolicy, now: int, *, templates: frozenset[str]
) -> RecoveryContext:
    """What the step of each node has to know of all of them.

    ``nodes``: all nodes with devices. Places that are free go to the nodes with the oldest faults, then by name. Nodes
    that a person took out of service take places too, but need none; so do nodes that are cordoned or not ready. One of
    these with a fault needs no second place.
    """
    out = {name for name, view in nodes.items() if _is_out(view)}
    taken = out | {name for name, view in nodes.items() if _is_unavailable(view)}
    most, granted, absent = most_out(policy, len(nodes)), set(out), len(taken)
    faulty = sorted(
        (since, name)
        for name, view in nodes.items()
        if (since := _faulty_since(view, policy, now)) is not None
    )
    for _, name in faulty:
        if most is None or len(taken) + (name not in taken) <= most:
            granted.add(name)
            taken.add(name)
    return RecoveryContext(granted=frozenset(granted), out=absent, most_out=most, templates=templates)


def _is_out(view: NodeView) -> bool:
    """Whether the node is out of service or goes out with this plan because a person wants it."""
    if view.order in _TAKES_OUT or view.taint is not TaintOwner.ABSENT:
        return True
    return bool(view.annotation) and known_state(view, 0).phase.is_out


def _is_unavailable(view: NodeView) -> bool:
    """Whether the node gets no new work for a reason that is not Muster's."""
    return view.cordoned or not view.ready


def _faulty_since(view: NodeView, policy: FaultPolicy, now: int) -> int | None:
    """Since when a node has a fault that asks for something. None if it has none."""
    if view.hold or not (view.faults or view.black_hole):
        return None
    here = StepInput(
        view=view, context=RecoveryContext(), policy=policy, now=now, state=known_state(view, now)
    )
    return here.fault_since if here.is_faulty else None
