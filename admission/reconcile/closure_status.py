"""Statuses of Reservations and NodeDrains: their phase, their nodes, and what they lack. Pure."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from admission.engine.closures.closing import drained
from admission.engine.nodes.table import NodeTable
from admission.reconcile.status import BEYOND_BOUNDS, StatusWanted, unread_words, without_blanks
from admission.world.node_closures import ClosureState
from admission.world.world import World
from queues.api.api_resources import NODE_DRAINS, RESERVATIONS, ObjectRef
from queues.api.types.node_closures import MOST_NODES
from queues.node_closures import ClosureKind, ClosurePhase, NodeClosure
from queues.quota.queue import path_upwards
from queues.reason_codes import ReasonCode
from queues.resources import show
from queues.text_format import counted, rfc3339
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
    for state in closures.states(now, world.queue_facts.deserved_over_time()):
        resource = RESERVATIONS if state.fact.kind is ClosureKind.RESERVATION else NODE_DRAINS
        nodes = closure_nodes(state, table)
        reason, message = _said(state, nodes, world, table, now)
        if state.fact.unread:
            reason = reason or BEYOND_BOUNDS
            message = "; ".join(filter(None, (unread_words(state.fact.unread), message)))
        yield StatusWanted(
            ref=ObjectRef(resource=resource, name=state.fact.name, uid=state.fact.uid),
            fields=without_blanks(
                {
                    "phase": state.phase.value,
                    "reason": reason,
                    "message": message,
                    "nodes": list(nodes) or None,
                    "closesFrom": _closes_from(state),
                }
            ),
            seen=state.fact.shown,
        )


def _closes_from(state: ClosureState) -> str | None:
    """The second from which on its nodes are closed. None if it closes none."""
    closure = state.fact.closure
    is_over = state.phase in (ClosurePhase.ENDED, ClosurePhase.REFUSED)
    return None if closure is None or is_over or state.spent else rfc3339(closure.lead_from)


def closure_nodes(state: ClosureState, table: NodeTable) -> tuple[NodeName, ...]:
    """The nodes of a Reservation or NodeDrain that has not ended. ``table``: all nodes."""
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
    if state.spent is not None:
        return (
            ReasonCode.BUDGET_SPENT,
            f"it keeps no nodes: the budget of its queue is used up until {state.spent.ends_on}",
        )
    if closure.kind is ClosureKind.DRAIN:
        return _said_of_drain(closure, nodes, world, now)
    if short := _short(closure, nodes, table) if closure.closes_nodes(now) else "":
        within = (
            f" within what {closure.queue} deserves beside its work on others" if closure.of_tenant else ""
        )
        return TOO_FEW_NODES, f"too few usable nodes{within}: {short}"
    return _said_of_foreign_work(closure, nodes, world, now)


def _said_of_foreign_work(
    closure: NodeClosure, nodes: tuple[NodeName, ...], world: World, now: int
) -> tuple[str, str]:
    """Of a tenant's reservation in its window: work that it may not have evicted."""
    busy = (
        sum(_has_foreign_work(closure, name, world) for name in nodes)
        if closure.of_tenant and now >= closure.start
        else 0
    )
    if not busy:
        return "", ""
    return NOT_EMPTY, (
        f"work of other queues is still on {busy} of {counted(len(nodes), 'node')}: it ends, it rests after an "
        f"eviction, or {closure.queue} has, with its work on other nodes, what it deserves"
    )


def _has_foreign_work(closure: NodeClosure, node: NodeName, world: World) -> bool:
    index = world.admission_index
    queues = {each.queue for key in index.seated_on(node) for each in index.of(key)}
    paths = (
        [queue, *(each.name for each in path_upwards(queue, world.queue_facts.queue_of))] for queue in queues
    )
    return any(closure.queue not in path for path in paths)


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
