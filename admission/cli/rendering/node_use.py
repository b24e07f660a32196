"""Nodes with what is free on them and who has seats there, as ``kubectl muster nodes`` shows them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from admission.cli.output import Output
from admission.cli.plugin.reservations import Closure, closed_state
from admission.cli.rendering.nodes import Accelerator, NodeLine, is_whole_gpu
from admission.cli.rendering.racks import Racks
from admission.cli.rendering.terminal import TableColumn, item_table, printable, short_resource
from admission.wire import Quantity, WireNode
from queues.read_api.bodies import NodeBody, NodeWorkloadsBody, SeatedBody

#: Workloads of a node that its line names; -o wide has all that the read API names.
_NAMED: Final = 3
#: Characters of one cell.
_LONGEST: Final = 300
_STATES: Final = {"Ready,SchedulingDisabled": "cordoned", "NotReady,SchedulingDisabled": "NotReady,cordoned"}
#: Taints that a column of its own shows, or the state does.
_TOLD: Final = ("node.kubernetes.io/",)


def with_use(
    lines: Iterable[NodeLine],
    nodes: Iterable[WireNode],
    racks: Racks,
    use: Mapping[str, NodeBody] | None,
    closures: Mapping[str, Sequence[Closure]],
) -> list[NodeLine]:
    """The lines of nodes, with rack, taints, what is free of each accelerator, and whose seats are there.

    ``use``: what the read API says of each node, None if it is not known. ``closures``: by node.
    """
    by_name = {node.metadata.name: node for node in nodes}
    closed = [replace(line, closures=tuple(closures.get(line.name, ()))) for line in lines]
    return [_with_use(line, by_name[line.name], racks, use) for line in closed]


def _with_use(line: NodeLine, node: WireNode, racks: Racks, use: Mapping[str, NodeBody] | None) -> NodeLine:
    booked = None if use is None else use.get(line.name)
    shut = "" if booked is None else printable(booked.closed)
    usable = takes_pods(line) and not shut and (booked is None or booked.usable)
    accelerators = _accelerators(line, node, booked, usable)
    free = [accelerator.free for accelerator in accelerators if accelerator.free is not None]
    return replace(
        line,
        rack=printable(racks.of(node)),
        usable=usable,
        closed=shut,
        accelerators=accelerators,
        free=sum(free) if free else None,
        taints=_taints(node),
        workloads=None if booked is None else booked.workloads,
    )


def takes_pods(line: NodeLine) -> bool:
    """Whether the node takes new pods with GPUs: it is ready, and neither out of service nor closed."""
    is_out = line.recovery.phase or line.recovery.by_person or closed_state(line.closures)
    return line.state == "Ready" and not is_out


def _accelerators(
    line: NodeLine, node: WireNode, booked: NodeBody | None, usable: bool
) -> tuple[Accelerator, ...]:
    """Each kind of whole device of the node: how many there are, and how many new pods may have.

    What Muster counts is missing of a node that it does not know, and ``free`` is null then.
    """
    capacity = node.status.capacity or {}
    free: Mapping[str, int] = {} if booked is None else booked.free_devices
    resources = sorted(
        filter(is_whole_gpu, {*capacity, *free}), key=lambda resource: (resource not in free, resource)
    )
    resources = [resource for resource in resources if _count(capacity.get(resource)) or free.get(resource)]
    of_several = len(resources) > 1
    return tuple(
        Accelerator(
            name=short_resource(resource) if of_several else line.model or short_resource(resource),
            resource=resource,
            total=_count(capacity.get(resource)) if of_several else line.gpus or 0,
            free=None if booked is None else free.get(resource, 0) if usable else 0,
        )
        for resource in resources
    ) or (Accelerator(name=line.model or "gpu", resource="", total=line.gpus or 0, free=None),)


def _count(amount: Quantity | None) -> int:
    text = str(amount)
    return int(text) if text.isdecimal() else 0


def _taints(node: WireNode) -> tuple[str, ...]:
    """``key=value:effect``, without those that the state of the node says."""
    return tuple(
        printable(f"{taint.key}{'=' if taint.value else ''}{taint.value or ''}:{taint.effect}")
        for taint in node.spec.taints or ()
        if not taint.key.startswith(_TOLD)
    )


def use_table(lines: Sequence[NodeLine], output: Output) -> str:
    """One line for each node."""
    return item_table(_COLUMNS, lines, output)


def state_of(line: NodeLine) -> str:
    """``Ready``, ``cordoned``, ``drained``, ``reserved``, or how far its recovery is."""
    parts = (
        _STATES.get(line.state, line.state),
        closed_state(line.closures),
        line.recovery.phase or ("closed" if line.closed else ""),
        "no GPU work" if line.recovery.by_person else "",
    )
    told = [each for each in parts if each]
    return ",".join(told[1:] if told[0] == "Ready" and told[1:] else told)


def _workloads(there: NodeWorkloadsBody | None, most: int | None) -> str | None:
    """``ml/bert(8), lab/yolo(2), +4, 1 hidden``: those with most GPUs first, with the GPUs that each holds here."""
    if there is None:
        return None
    items = sorted(there.items, key=lambda one: -_gpus(one.held))
    named = items if most is None else items[:most]
    more = there.total - len(named)
    parts = [
        *(_workload(one) for one in named),
        *([f"+{more}"] if more > 0 else []),
        *([f"{there.hidden} hidden"] if there.hidden else []),
    ]
    return ", ".join(parts) or None


def _workload(one: SeatedBody) -> str:
    gpus = _gpus(one.held)
    told = [f"{gpus:g}"] if gpus else []
    told += ["evicting"] if one.evicting else []
    return f"{one.namespace}/{one.name}" + (f"({', '.join(told)})" if told else "")


def _gpus(held: Mapping[str, str]) -> float:
    """GPUs, parts of them too."""
    from queues.resources import amount, scale

    named = [name for name in held if is_whole_gpu(name)]
    return sum(amount(name, held[name]) / scale(name) for name in named)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_COLUMNS: Final[Sequence[TableColumn[NodeLine]]] = (
    TableColumn("NODE", lambda line: line.name, least=14),
    TableColumn("RACK", lambda line: line.rack or None, least=8, goes=1),
    TableColumn("STATE", state_of, least=12),
    TableColumn("MODEL", lambda line: line.model or None, wide=True),
    TableColumn("GPUS", lambda line: line.gpus, right=True),
    TableColumn("FREE", lambda line: line.free, right=True),
    TableColumn(
        "ILL", lambda line: None if line.healthy is None else (line.gpus or 0) - line.healthy, right=True
    ),
    TableColumn("TAINTS", lambda line: _cut(",".join(line.taints)) or None, wide=True),
    TableColumn("WORKLOADS", lambda line: _workloads(line.workloads, _NAMED), least_rest=16, wide=False),
    TableColumn("WORKLOADS", lambda line: _workloads(line.workloads, None), wide=True),
)
