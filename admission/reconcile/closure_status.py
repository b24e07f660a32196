"""Statuses of Reservations and NodeDrains: their phase, their nodes, and what they lack. Pure."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from admission.engine.closures.closing import drained
from admission.engine.nodes.table import NodeTable
from admission.reconcile.status import StatusWanted, without_blanks
from admission.world.closures.node_closures import ClosureState
from admission.world.world import World
from queues.api.api_resources import NODE_DRAINS, RESERVATIONS, ObjectRef
from queues.api.types.node_closures import MOST_NODES
from queues.closures.node_closures import ClosureKind, ClosurePhase, NodeClosure
from queues.resources import show
from queues.text_format import counted
from queues.workload import NodeName

#: Reasons in a status.
TOO_FEW_NODES: Final = "TooFewNodes"
NO_NODES: Final = "NoNodes"
NOT_EMPTY: Final = "NotEmpty"
INVALID: Final = "Invalid"
BEYOND_DESERVED: Final = "BeyondDeserved"


def closure_statuses(world: World, now: int) -> Iterator[StatusWanted]:
    """The status of every Reservation and NodeDrain."""
    closures = world.node_inventory.closures
    if not closures.facts:
        return
    table = world.node_inventory.table()
    for state in closures.states(now, world.queues):
        resource = RESERVATIONS if state.fact.kind is ClosureKind.RESERVATION else NODE_DRAINS
        nodes = _nodes(state, table)
        reason, message = _said(state, nodes, world, table, now)
        yield StatusWanted(
            ref=ObjectRef(resource=resource, name=state.fact.name, uid=state.fact.uid),
            fields=without_blanks(
                {
                    "phase": state.phase.value,
                    "reason": reason,
                    "message": message,
                    "nodes": list(nodes) or None,
                }
            ),
            seen=state.fact.shown,
        )


def _nodes(state: ClosureState, table: NodeTable) -> tuple[NodeName, ...]:
    closure = state.fact.closure
    if closure is None or state.phase in (ClosurePhase.ENDED, ClosurePhase.REFUSED):
        return ()
    if closure.kind is ClosureKind.RESERVATION:
        return state.nodes
    names = [table.layout.names[column] for column in np.flatnonzero(drained(closure, table)).tolist()]
    return tuple(names[:MOST_NODES])


def _said(
    state: ClosureState, nodes: tuple[NodeName, ...], world: World, table: NodeTable, now: int
) -> tuple[str, str]:
    """Reason and message; "": there is nothing to say."""
    closure = state.fact.closure
    if state.phase is ClosurePhase.REFUSED or closure is None:
        return BEYOND_DESERVED if state.is_beyond_right else INVALID, state.problem
    if state.phase is ClosurePhase.ENDED:
        return "", ""
    if closure.kind is ClosureKind.DRAIN:
        return _said_of_drain(closure, nodes, world, now)
    short = _short(closure, nodes, table) if closure.closes_nodes(now) else ""
    return (TOO_FEW_NODES, f"too few usable nodes: {short}") if short else ("", "")


def _said_of_drain(
    closure: NodeClosure, nodes: tuple[NodeName, ...], world: World, now: int
) -> tuple[str, str]:
    if not nodes:
        return NO_NODES, "no node of the cluster is named, or has the labels"
    busy = (
        sum(bool(world.admission_index.seated_on(name)) for name in nodes) if now >= closure.clear_at else 0
    )
    message = f"work of queues is still on {busy} of {counted(len(nodes), 'node')}"
    return (NOT_EMPTY, message) if busy else ("", "")


def _short(closure: NodeClosure, nodes: tuple[NodeName, ...], table: NodeTable) -> str:
    """What the nodes lack of what is reserved; "": nothing."""
    short = []
    for name, units in sorted(closure.amounts.items()):
        found = sum(table[node][0].get(name) for node in nodes if node in table)
        if found < units:
            short.append(f"{show(name, found)} of {show(name, units)} {name}")
    return ", ".join(short)
