"""Racks of nodes: what is free there, and the largest gangs that fit. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from admission.cli.output import Output
from admission.cli.rendering.nodes import ill_gpus
from admission.cli.rendering.terminal import TableColumn, item_table
from queues.read_api.bodies import Body
from queues.read_api.nodes import AcceleratorBody, NodeBody


class RackLine(Body, frozen=True, kw_only=True):
    """What is shown of one kind of accelerator in a rack, as ``-o json`` has it. Null: not known."""

    #: "": of nodes in no rack.
    rack: str
    accelerator: str
    nodes: int
    #: Nodes that take no pods.
    out_of_service: int
    gpus: int
    free: int | None
    empty_nodes: int | None
    #: The part of the free GPUs that is on nodes with others in use.
    split: float | None
    unhealthy: int


def is_in(rack: str, wanted: str) -> bool:
    """Whether a rack is the one that a user means: by its whole name, or by its last part."""
    return bool(rack) and (rack == wanted or rack.rpartition("/")[2] == wanted)


def rack_lines(lines: Sequence[NodeBody]) -> list[RackLine]:
    """What is shown of each rack and kind of accelerator, by name; nodes without a rack last."""
    nodes: dict[tuple[bool, str, str], list[tuple[NodeBody, AcceleratorBody]]] = {}
    for line in lines:
        for accelerator in line.accelerators:
            key = (not line.rack, line.rack, accelerator.name)
            nodes.setdefault(key, []).append((line, accelerator))
    return [_rack(rack, name, nodes[outside, rack, name]) for outside, rack, name in sorted(nodes)]


def _rack(rack: str, name: str, nodes: Sequence[tuple[NodeBody, AcceleratorBody]]) -> RackLine:
    known = [(held.free, held.total) for _, held in nodes if held.free is not None]
    free = sum(free for free, _ in known) if known else None
    empty = [total for free, total in known if free and free == total]
    return RackLine(
        rack=rack,
        accelerator=name,
        nodes=len(nodes),
        out_of_service=sum(not line.usable for line, _ in nodes),
        gpus=sum(held.total for _, held in nodes),
        free=free,
        empty_nodes=len(empty) if known else None,
        split=round(1 - sum(empty) / free, 4) if free else None,
        unhealthy=sum(ill_gpus(line) or 0 for line, _ in nodes),
    )


_COLUMNS: Final[Sequence[TableColumn[RackLine]]] = (
    TableColumn("RACK", lambda rack: rack.rack or None, least=12),
    TableColumn("ACCELERATOR", lambda rack: rack.accelerator, least=11),
    TableColumn("NODES", lambda rack: rack.nodes, right=True),
    TableColumn("OUT", lambda rack: rack.out_of_service, right=True, goes=2),
    TableColumn("GPUS", lambda rack: rack.gpus, right=True),
    TableColumn("FREE", lambda rack: rack.free, right=True),
    TableColumn("EMPTY", lambda rack: rack.empty_nodes, right=True),
    TableColumn("SPLIT", lambda rack: None if rack.split is None else f"{rack.split:.0%}", right=True),
    TableColumn("UNHEALTHY", lambda rack: rack.unhealthy, right=True, goes=1),
)


def rack_table(racks: Iterable[RackLine], output: Output) -> str:
    """One line for each rack and kind of accelerator."""
    return item_table(_COLUMNS, racks, output)


def largest_gangs(racks: Sequence[RackLine]) -> list[str]:
    """For each kind of accelerator the largest gangs that fit on all of these nodes, and in one rack.

    Exact for gangs whose pods ask for one GPU each, or for all GPUs of a node, as far as GPUs decide: CPU, memory,
    taints of nodes and limits of queues may allow less.
    """
    sentences = []
    for name in dict.fromkeys(rack.accelerator for rack in racks):
        known = [rack for rack in racks if rack.accelerator == name and rack.free is not None]
        if known:
            free = _best([(rack.rack, rack.free or 0) for rack in known])
            empty = _best([(rack.rack, rack.empty_nodes or 0) for rack in known])
            sentences.append(f"Largest gang on {name}, of pods with one GPU: {free}.")
            sentences.append(f"Largest gang on {name}, of pods with a whole node: {empty}.")
    return sentences


def _best(amounts: Sequence[tuple[str, int]]) -> str:
    """``212; in one rack 64 (r7)``: over all racks, and in the best one. ``amounts``: by rack."""
    total = sum(amount for _, amount in amounts)
    named = [(rack, amount) for rack, amount in amounts if rack]
    best = max(named, key=lambda rack: rack[1], default=None)
    return f"{total}" if best is None else f"{total}; in one rack {best[1]} ({best[0]})"
