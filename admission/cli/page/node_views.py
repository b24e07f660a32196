"""The views of nodes: a map of racks with who sits where, what is free and what is ill. Pure: lines in, HTML out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple

from markupsafe import Markup

from admission.cli.page.charts import STYLES
from admission.cli.page.layout import render
from admission.cli.page.problems import unknown
from admission.cli.rendering.nodes import closed_state, closure_sentence, ill_gpus
from admission.cli.rendering.racks import is_in
from queues.read_api.nodes import NodeBody, SeatedBody
from queues.text_format import counted

#: In place of a name in the path of the view of nodes that are in no rack.
NO_RACK: Final = "-"
#: Devices that are drawn one by one; a node that has more shows its numbers only.
_DRAWN: Final = 16
#: Of the owners that a legend names; colours come again after some of them.
_LETTERS: Final = "ABCDEFGHIJKL"
#: Words of nodes that are closed, and what is said of several.
_CLOSED: Final = {"reserved": "reserved", "drained": "drained", "drain planned": "to be drained"}
#: Rows of one rack's table: a cluster without racks is one rack.
_ROWS: Final = 500


class _Owner(NamedTuple):
    """Whose workloads have GPUs."""

    queue: str
    user: str


class _Entry(NamedTuple):
    """How the GPUs of an owner are drawn, and how many they are in all racks."""

    kind: str
    letter: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gpus:
    """The GPUs of one node."""

    total: int
    ill: int
    #: Healthy, and no pod has any part of it.
    free: int
    #: Workloads with GPUs there that the user may see, and how many each has; a shared one counts whole.
    holders: tuple[tuple[SeatedBody, int], ...]
    #: Whether the node takes new pods of any queue.
    is_usable: bool

    @property
    def held(self) -> int:
        """GPUs that pods have."""
        return self.total - self.ill - self.free

    def squares(self, legend: Mapping[_Owner, _Entry], free: str) -> list[tuple[str, str, int]]:
        """Squares that are alike, in their order: their kind, the letter of who holds them, and how many they are.
        ``free``: the kind of those that are free."""
        owned = Counter[_Owner]()
        for one, count in self.holders:
            owned[_Owner(one.queue, one.user)] += count
        runs, left = [], self.held
        for owner, entry in legend.items():
            count = min(owned[owner], left)
            left -= count
            runs.append((entry.kind, entry.letter, count))
        runs += [("held", "", left), (free, "", self.free), ("ill", "", self.ill)]
        return [run for run in runs if run[2] > 0]

    @property
    def available(self) -> int:
        """GPUs that new pods of any queue may have."""
        return self.free if self.is_usable else 0


def node_racks(lines: Sequence[NodeBody]) -> Markup:
    """The nodes with GPUs, by rack, what is free, and a list of faults."""
    racks: dict[str, list[NodeBody]] = {}
    for line in lines:
        racks.setdefault(line.rack, []).append(line)
    known = {line.name: _gpus(line) for line in lines}
    owners = _owners(known.values())
    legend = [
        ("held", "held by others" if owners else "held"),
        ("free", "free"),
        ("ill", "unhealthy"),
        ("out", "free, but the node takes no pods"),
        ("closed", "free, but reserved or drained"),
    ]
    return render(
        "rack_map.html",
        lines=lines,
        racks=[(name, _summary(nodes), sorted(nodes, key=_name_of)) for name, nodes in sorted(racks.items())],
        summary=_told_holes(racks) if racks else "",
        owners=owners,
        legend=legend,
        known=known,
        most_drawn=_DRAWN,
        no_rack=NO_RACK,
    )


def _owners(known: Iterable[_Gpus | None]) -> dict[_Owner, _Entry]:
    """Those who hold most GPUs, by queue and user, with their letters: the same in all racks."""
    held = Counter[_Owner]()
    for gpus in known:
        for one, count in () if gpus is None else gpus.holders:
            held[_Owner(one.queue, one.user)] += count
    most = sorted(sorted(held, key=lambda owner: (-held[owner], owner))[: len(_LETTERS)])
    return {
        owner: _Entry(f"series-{index % STYLES}", letter, held[owner])
        for index, (letter, owner) in enumerate(zip(_LETTERS, most, strict=False))
    }


def one_rack(lines: Sequence[NodeBody], name: str) -> Markup:
    """The nodes of one rack, or the one node of that name, with the workloads on each. Raises NoSuchView: neither."""
    here = [line for line in lines if (line.rack or NO_RACK) == name or is_in(line.rack, name)]
    is_node = not here
    here = here or [line for line in lines if line.name == name]
    if not here:
        racks = {line.rack or NO_RACK for line in lines}
        raise unknown("rack or node with GPUs", name, {*racks, *(line.name for line in lines)}, "nodes")
    here = sorted(here, key=_name_of)[:_ROWS]
    return render(
        "one_rack.html",
        title=f"Node {name}" if is_node else "Nodes in no rack" if name == NO_RACK else f"Rack {name}",
        is_node=is_node,
        rack=here[0].rack,
        no_rack=NO_RACK,
        lines=[(line, _gpus(line)) for line in here],
        closures=_closures(here),
    )


def _told_holes(racks: Mapping[str, Sequence[NodeBody]]) -> str:
    """What is free: of GPUs, of whole nodes, and the rack with most whole nodes."""
    free, total, whole = 0, 0, dict.fromkeys(racks, 0)
    all_lines = [line for lines in racks.values() for line in lines]
    for name, lines in racks.items():
        for line in lines:
            gpus = _gpus(line)
            if gpus is not None:
                total += gpus.total
                free += gpus.available
                whole[name] += _is_empty(line, gpus)
    best = max(whole, key=lambda name: whole[name])
    nodes = sum(whole.values())
    holes = {0: "no node is", 1: "one node is"}.get(nodes, f"{nodes:,} nodes are")
    told = f"{free:,} of {total:,} GPUs are free, and {holes} empty"
    if len(racks) > 1 and nodes:
        told += f", {whole[best]} of them in rack {best or 'none'}"
    words = {word: sum(closed_state(line.closures) == word for line in all_lines) for word in _CLOSED}
    told += "".join(f"; {counted(count, 'node')} {_CLOSED[word]}" for word, count in words.items() if count)
    return f"{told}."


def _is_empty(line: NodeBody, gpus: _Gpus) -> bool:
    return bool(line.usable and gpus.total > 0 and gpus.free == gpus.total)


def _closures(lines: Sequence[NodeBody]) -> list[str]:
    """A sentence for each reservation and drain of these nodes."""
    numbers = Counter(closure_sentence(each) for line in lines for each in line.closures)
    return [f"{counted(count, 'node')} {sentence}" for sentence, count in numbers.items()]


def _name_of(line: NodeBody) -> str:
    return line.name


def _summary(nodes: Sequence[NodeBody]) -> str:
    """What is free in a rack, and how many of its nodes are closed."""
    known = [(line, gpus) for line in nodes if (gpus := _gpus(line)) is not None]
    free = sum(gpus.available for _, gpus in known)
    empty = sum(_is_empty(line, gpus) for line, gpus in known)
    summary = f"{free} free" + (f", {counted(empty, 'empty node')}" if empty else "")
    for word in _CLOSED:
        if count := sum(closed_state(line.closures) == word for line in nodes):
            summary += f", {count} {word}"
    return summary


def _gpus(node: NodeBody) -> _Gpus | None:
    """The GPUs of a node. None if it is not known how many there are."""
    total = node.gpus
    if total is None:
        return None
    ill = ill_gpus(node) or 0
    whole = sum(node.free_devices.get(each.resource, 0) for each in node.accelerators)
    # What no flavor counts no workload of Muster has.
    free = whole if node.free is not None else total
    seated = () if node.workloads is None else node.workloads.items
    return _Gpus(
        total=total,
        ill=ill,
        free=min(free, total - ill),
        holders=tuple((one, ceil(one.gpus)) for one in seated if one.gpus),
        is_usable=node.usable,
    )
