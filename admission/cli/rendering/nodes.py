"""Nodes with GPUs as ``kubectl muster nodes`` shows them: with what is free and whose work is there, or with what their
agents say. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from admission.cli.output import Output
from admission.cli.rendering.terminal import NONE, Cell, TableColumn, age, item_table
from queues.api.api_resources import NODE_DRAINS
from queues.read_api.nodes import (
    ClosureBody,
    DeviceFaultBody,
    NodeBody,
    NodeWorkloadsBody,
    RecoveryBody,
    SeatedBody,
)


class NodeLine(NodeBody, frozen=True, kw_only=True):
    """A node with its agent, which the API server knows."""

    #: When the agent was last heard of; "": never. Null: that may not be read.
    agent: str | None = None


#: Workloads of a node that its line names; -o wide has all that the read API names.
_NAMED: Final = 3
#: Lines of faults of one node, and characters of one cell.
_MOST_FAULTS: Final = 16
_LONGEST: Final = 300
_STATES: Final = {"Ready,SchedulingDisabled": "cordoned", "NotReady,SchedulingDisabled": "NotReady,cordoned"}


def ill_gpus(node: NodeBody) -> int | None:
    """GPUs with a fault, or held back. None if there are no GPUs, or it is not known."""
    return None if node.gpus is None or node.healthy is None else max(0, node.gpus - node.healthy)


def is_faulty(node: NodeBody) -> bool:
    """Whether a node has an unhealthy device, or is out of service for GPU work, or waits for being so."""
    recovery = node.recovery
    return bool(node.faults or ill_gpus(node) or recovery.phase or recovery.waits or recovery.by_person)


def closed_state(closures: Iterable[ClosureBody]) -> str:
    """``drained``, ``reserved``, or ``drain planned`` in the lead time of a drain; "": the node is not closed."""
    closing = [closure for closure in closures if closure.closed]
    drains = [closure for closure in closing if closure.kind == NODE_DRAINS.kind]
    if any(closure.phase == "Active" for closure in drains):
        return "drained"
    return "drain planned" if drains else "reserved" if closing else ""


def closure_sentence(closure: ClosureBody) -> str:
    """``kept for reservation night from 2026-11-27T14:00:00Z for 4h``."""
    what = "drained by nodedrain" if closure.kind == NODE_DRAINS.kind else "kept for reservation"
    lasts = f" for {closure.for_}" if closure.for_ else ""
    return f"{what} {closure.name} from {closure.from_}{lasts}"


def state_of(line: NodeBody) -> str:
    """``Ready``, ``cordoned``, ``drained``, ``reserved``, or how far its recovery is."""
    parts = (
        _STATES.get(line.state, line.state),
        closed_state(line.closures),
        line.recovery.phase or ("closed" if line.closed else ""),
        "no GPU work" if line.recovery.by_person else "",
    )
    told = [each for each in parts if each]
    return ",".join(told[1:] if told[0] == "Ready" and told[1:] else told)


# -- what is free, and whose work is there ---------------------------------------------------------------------


def use_table(nodes: Sequence[NodeBody], output: Output) -> str:
    """One line for each node."""
    return item_table(_COLUMNS, nodes, output)


def _workloads(there: NodeWorkloadsBody | None, most: int | None) -> str | None:
    """``ml/bert(8), lab/yolo(2), +4, 1 hidden``: those with most GPUs first, with the GPUs that each holds here."""
    if there is None:
        return None
    items = sorted(there.items, key=lambda one: -one.gpus)
    named = items if most is None else items[:most]
    more = there.total - len(named)
    parts = [
        *(_workload(one) for one in named),
        *([f"+{more}"] if more > 0 else []),
        *([f"{there.hidden} hidden"] if there.hidden else []),
    ]
    return ", ".join(parts) or None


def _workload(one: SeatedBody) -> str:
    told = [f"{one.gpus:g}"] if one.gpus else []
    told += ["evicting"] if one.evicting else []
    return f"{one.namespace}/{one.name}" + (f"({', '.join(told)})" if told else "")


_COLUMNS: Final[Sequence[TableColumn[NodeBody]]] = (
    TableColumn("NODE", lambda line: line.name, least=14),
    TableColumn("RACK", lambda line: line.rack or None, least=8, goes=1),
    TableColumn("STATE", state_of, least=12),
    TableColumn("MODEL", lambda line: line.model or None, wide=True),
    TableColumn("GPUS", lambda line: line.gpus, right=True),
    TableColumn("FREE", lambda line: line.free, right=True),
    TableColumn("UNHEALTHY", ill_gpus, right=True),
    TableColumn("TAINTS", lambda line: _cut(",".join(line.taints)) or None, wide=True),
    TableColumn("WORKLOADS", lambda line: _workloads(line.workloads, _NAMED), least_rest=16, wide=False),
    TableColumn("WORKLOADS", lambda line: _workloads(line.workloads, None), wide=True),
)


# -- what agents say -------------------------------------------------------------------------------------------


def node_table(lines: Iterable[NodeLine], now: str, output: Output) -> str:
    """One line for each node, and one more for each further fault, up to a bound."""

    def first(cell: Callable[[NodeLine], Cell]) -> Callable[[tuple[NodeLine, str, bool]], Cell]:
        return lambda row: _cut(cell(row[0])) if row[2] else ""

    columns: list[TableColumn[tuple[NodeLine, str, bool]]] = [
        TableColumn("NODE", first(lambda line: line.name), least=14),
        TableColumn("STATE", first(lambda line: line.state), least=10),
        TableColumn("RECOVERY", first(lambda line: _recovery_text(line.recovery)), least=10),
        TableColumn("AGENT", first(lambda line: _agent_text(line.agent, now)), goes=2),
        TableColumn("MODEL", first(lambda line: line.model or None), wide=True),
        TableColumn("DRIVER", first(lambda line: line.driver or None), wide=True),
        TableColumn("ISLANDS", first(lambda line: line.islands), right=True, wide=True),
        TableColumn("GPUS", first(lambda line: line.gpus), right=True),
        TableColumn("HEALTHY", first(lambda line: line.healthy), right=True),
        TableColumn("HELD", first(lambda line: line.held), right=True, goes=1),
        TableColumn("FAULTS", lambda row: _cut(row[1]), least_rest=18),
    ]
    rows = [
        (line, fault, index == 0)
        for line in lines
        for index, fault in enumerate(_faults(line, now, wide=output.is_wide) or [NONE])
    ]
    return item_table(columns, rows, output)


def _cut(cell: Cell) -> Cell:
    """The cell, cut where it is so long that it would widen all lines beyond use."""
    too_long = isinstance(cell, str) and len(cell) > _LONGEST
    return f"{str(cell)[: _LONGEST - 1]}…" if too_long else cell


def _recovery_text(recovery: RecoveryBody) -> str:
    """``draining, waits for foreign-pods``."""
    parts = (
        recovery.phase,
        "no GPU work" if recovery.by_person else "",
        f"waits for {recovery.waits}" if recovery.waits else "",
    )
    return ", ".join(filter(None, parts)) or NONE


def _agent_text(heard: str | None, now: str) -> str:
    """How long ago the agent was heard of. ``-``: the node has none, ``?``: that may not be read."""
    return NONE if heard == "" else _age(heard, now) or "?"


def _faults(line: NodeLine, now: str, *, wide: bool) -> list[str]:
    """The first faults that the agent reports, and devices that only the device plugin or the driver holds back."""
    faults = line.faults
    told = [_fault_text(fault, now, wide=wide) for fault in faults[:_MOST_FAULTS]]
    if len(faults) > _MOST_FAULTS:
        told.append(f"and {len(faults) - _MOST_FAULTS} more")
    more = line.not_offered - len(faults)
    return [*told, f"{more} not offered by the device plugin or driver"] if more > 0 else told


def _fault_text(fault: DeviceFaultBody, now: str, *, wide: bool) -> str:
    """``GPU 3 Xid79 (5m)``, and in the wide form the message."""
    since = f" ({told})" if (told := _age(fault.since, now)) else ""
    text = f"GPU {fault.number} {fault.reason}{since}"
    return f"{text}: {fault.message}" if wide and fault.message else text


def _age(since: str | None, now: str) -> str:
    """The age of a fault; "": it is not reported, or is no time."""
    try:
        return age(since, now) if since else ""
    except (ValueError, TypeError, OverflowError):
        return ""
