"""Racks of nodes: which node is in which, what is free there, and the largest gangs that fit. Pure.

A rack is a domain of one topology level, as the engine has it: nodes with the same labels from the outermost level down
to that one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from admission.cli.access.object_forms import HOST, TopologyObject, levels_of
from admission.cli.output import Output
from admission.cli.rendering.nodes import Accelerator, NodeLine
from admission.cli.rendering.terminal import TableColumn, item_table
from admission.wire import WireNode
from queues.read_api.bodies import Body

#: Labels of racks where no Topology names any; the first that some node has.
USUAL_LABELS: Final = (
    "topology.muster.dev/rack",
    "topology.kubernetes.io/rack",
    "muster.dev/rack",
    "topology.kubernetes.io/zone",
)


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


@dataclass(frozen=True, slots=True)
class Racks:
    """How nodes are put into racks."""

    #: Node labels, from the outermost level to that of the racks. Empty: there are no racks.
    labels: tuple[str, ...] = ()

    @classmethod
    def known(
        cls, topologies: Iterable[TopologyObject], nodes: Iterable[WireNode], level: str | None
    ) -> "Racks":
        """By a Topology, the first by name: its innermost level above the host, or ``level``.

        Without a Topology that has it: by ``level`` alone, or by the first of the usual labels that a node has.
        """
        for keys in levels_of(topologies):
            above = [key for key in keys if key != HOST]
            if level in keys:
                return cls(tuple(keys[: keys.index(level) + 1]))
            if level is None and above:
                return cls(tuple(above))
        labels = {key for node in nodes for key in node.metadata.labels or ()}
        usual = next((key for key in USUAL_LABELS if key in labels), None)
        chosen = level or usual
        return cls() if chosen is None else cls((chosen,))

    def of(self, node: WireNode) -> str:
        """The name of a node's rack: values of the labels, joined by "/"; "": it is in none."""
        labels = node.metadata.labels or {}
        values = [labels.get(key, "") for key in self.labels]
        return "/".join(values) if values and all(values) else ""


def is_in(rack: str, wanted: str) -> bool:
    """Whether a rack is the one that a user means: by its whole name, or by its last part."""
    return bool(rack) and (rack == wanted or rack.rpartition("/")[2] == wanted)


def rack_lines(lines: Sequence[NodeLine]) -> list[RackLine]:
    """What is shown of each rack and kind of accelerator, by name; nodes without a rack last."""
    nodes: dict[tuple[bool, str, str], list[tuple[NodeLine, Accelerator]]] = {}
    for line in lines:
        for accelerator in line.accelerators:
            key = (not line.rack, line.rack, accelerator.name)
            nodes.setdefault(key, []).append((line, accelerator))
    return [_rack(rack, name, nodes[outside, rack, name]) for outside, rack, name in sorted(nodes)]


def _rack(rack: str, name: str, nodes: Sequence[tuple[NodeLine, Accelerator]]) -> RackLine:
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
        unhealthy=sum(max(0, (line.gpus or 0) - (line.healthy or 0)) for line, _ in nodes),
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
    TableColumn("ILL", lambda rack: rack.unhealthy, right=True, goes=1),
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
