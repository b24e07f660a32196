"""The views of nodes: a map of racks with who sits where, what is free and what is ill. Pure: lines in, HTML out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from admission.cli.closures.closed_nodes import closed_state, closure_sentence
from admission.cli.page.charts.owners import Holders, OwnerMark, letters_drawn, marks_of, owners_told
from admission.cli.page.layout import Cell, heading, link, sentences, state, table
from admission.cli.page.problems import unknown
from admission.cli.page.waiting_views import workload_link
from admission.cli.rendering.node_use import state_of
from admission.cli.rendering.nodes import is_whole_gpu, whole_gpus
from admission.cli.rendering.racks import is_in
from queues.text_format import counted

#: In place of a name in the path of the view of nodes that are in no rack.
NO_RACK: Final = "-"
#: Devices that are drawn one by one; a node that has more shows its numbers only.
_DRAWN: Final = 16
#: Words of nodes that are closed, and what is said of several.
_CLOSED: Final = {"reserved": "reserved", "drained": "drained", "drain planned": "to be drained"}
_NOT_KNOWN: Final = "What is free is not known: Muster does not answer."
#: Rows of one rack's table: a cluster without racks is one rack.
_ROWS: Final = 500

#: What ``kubectl muster nodes -o json`` has of a node, and in ``use`` what the ledger says of it (None if not known).
Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gpus:
    """The GPUs of one node."""

    total: int
    ill: int
    held: int
    #: Workloads with whole GPUs there that the user may see, and how many each has.
    holders: tuple[tuple[Mapping[str, Any], int], ...]
    #: False: Muster did not answer, so what workloads hold is not known, and ``held`` is 0.
    is_known: bool = True

    @property
    def free(self) -> int:
        return self.total - self.ill - self.held


def node_racks(lines: Sequence[Line]) -> Markup:
    """The nodes with GPUs, by rack, what is free, and a list of faults."""
    if not lines:
        return heading("Nodes", 1) + Markup("<p>No node has GPUs.</p>")
    racks: dict[str, list[Line]] = {}
    for line in lines:
        racks.setdefault(line["rack"], []).append(line)
    legend = Markup("").join(
        Markup(
            '<li><svg class="devices" width="14" height="14" viewBox="0 0 12 12" aria-hidden="true">{}</svg> {}</li>'
        ).format(_squares(0, 1, kind), text)
        for kind, text in (
            ("held", "held: a letter is a workload, named below its rack"),
            ("free", "free"),
            ("ill", "unhealthy"),
            ("out", "free, but the node takes no pods"),
            ("closed", "free, but reserved or drained"),
            *((("unknown", "not known whether free"),) if any(line["use"] is None for line in lines) else ()),
        )
    )
    maps = Markup("").join(_rack(name, nodes) for name, nodes in sorted(racks.items()))
    return (
        heading("Nodes with GPUs", 1)
        + Markup('<p class="lead">{}</p><ul class="legend">{}</ul><div class="racks">{}</div>').format(
            _told_holes(racks), legend, maps
        )
        + _faults(lines)
    )


def one_rack(lines: Sequence[Line], name: str) -> Markup:
    """The nodes of one rack, or the one node of that name, with the workloads on each. Raises NoSuchView: neither."""
    here = [line for line in lines if (line["rack"] or NO_RACK) == name or is_in(line["rack"], name)]
    is_node = not here
    here = here or [line for line in lines if line["name"] == name]
    if not here:
        racks = {line["rack"] or NO_RACK for line in lines}
        raise unknown("rack or node with GPUs", name, {*racks, *(line["name"] for line in lines)}, "nodes")
    here.sort(key=lambda line: str(line["name"]))
    rows: list[list[Cell]] = []
    for line in here[:_ROWS]:
        gpus = _gpus(line)
        there = (line["use"] or {}).get("workloads") or {}
        shown = Markup(", ").join(
            Markup("{} <span class='faint'>{}</span>").format(workload_link(one), one["namespace"])
            for one in there.get("items", ())
        )
        more = there.get("total", 0) - len(there.get("items", ()))
        others = [f"{more} more"] if more > 0 else []
        others += [f"{there['hidden']} that you may not list"] if there.get("hidden") else []
        told = Markup(", ").join([*([shown] if shown else []), *others])
        rows.append(
            [
                line["name"],
                _state(line),
                *([None] * 3 if gpus is None else [gpus.total, _told_free(line, gpus), gpus.ill]),
                told,
            ]
        )
    columns = ["Node", "State", "GPUs", "Free", "Unhealthy", "Workloads"]
    title = f"Node {name}" if is_node else "Nodes in no rack" if name == NO_RACK else f"Rack {name}"
    ways = link("All racks", "nodes")
    if is_node:
        rack = here[0]["rack"]
        ways += Markup(" · ") + link(f"Rack {rack}" if rack else "Nodes in no rack", "nodes", rack or NO_RACK)
    return (
        heading(title, 1)
        + Markup("<p>{}</p>").format(ways)
        + table(title, columns, rows, numbers="GPUs Free Unhealthy")
        + _closures(here)
        + _faults(here)
    )


def _told_holes(racks: Mapping[str, Sequence[Line]]) -> str:
    """What is free: of GPUs, of whole nodes, and the rack with most whole nodes."""
    free, total, whole = 0, 0, dict.fromkeys(racks, 0)
    all_lines = [line for lines in racks.values() for line in lines]
    for name, lines in racks.items():
        for line in lines:
            gpus = _gpus(line)
            if gpus is not None:
                total += gpus.total
                free += _available(line, gpus)
                whole[name] += _is_empty(line, gpus)
    if any(line["use"] is None for line in all_lines):
        return f"{counted(total, 'GPU')} on {counted(len(all_lines), 'node')}. {_NOT_KNOWN}"
    best = max(whole, key=lambda name: whole[name])
    nodes = sum(whole.values())
    holes = {0: "no node is", 1: "one node is"}.get(nodes, f"{nodes:,} nodes are")
    told = f"{free:,} of {total:,} GPUs are free, and {holes} empty"
    if len(racks) > 1 and nodes:
        told += f", {whole[best]} of them in rack {best or 'none'}"
    words = {word: sum(closed_state(line["closures"]) == word for line in all_lines) for word in _CLOSED}
    told += "".join(f"; {counted(count, 'node')} {_CLOSED[word]}" for word, count in words.items() if count)
    return f"{told}."


def _available(line: Line, gpus: _Gpus) -> int:
    """GPUs that new pods of any queue may have."""
    return gpus.free if line["usable"] else 0


def _told_free(line: Line, gpus: _Gpus) -> int | None:
    return _available(line, gpus) if gpus.is_known else None


def _is_empty(line: Line, gpus: _Gpus) -> bool:
    return bool(line["usable"] and gpus.total > 0 and gpus.free == gpus.total)


def _state(line: Line) -> Markup:
    """The words of ``kubectl muster nodes``, with the reservation or drain for who points at them."""
    about = "; ".join(
        [*(closure_sentence(each) for each in line["closures"]), *filter(None, [line["closed"]])]
    )
    shown = state(state_of(line))
    return Markup('<span title="{}">{}</span>').format(about, shown) if about else shown


def _closures(lines: Sequence[Line]) -> Markup:
    """A sentence for each reservation and drain of these nodes."""
    told: dict[str, int] = {}
    for line in lines:
        for each in line["closures"]:
            sentence = closure_sentence(each)
            told[sentence] = told.get(sentence, 0) + 1
    if not told:
        return Markup("")
    said = (f"{counted(count, 'node')} {sentence}" for sentence, count in told.items())
    return heading("Reservations and drains") + sentences(said)


def _rack(name: str, nodes: Sequence[Line]) -> Markup:
    ordered = sorted(nodes, key=lambda line: str(line["name"]))
    holders = [
        found if _is_drawn(line) else () for line, found in zip(ordered, _holders(ordered), strict=True)
    ]
    marks = marks_of(holders)
    rows = Markup("").join(
        Markup('<div class="node"><span title="{0}">{0}</span>{1}</div>').format(
            line["name"], _devices(line, marks)
        )
        for line in ordered
    )
    known = [(line, gpus) for line in nodes if (gpus := _gpus(line)) is not None]
    free = sum(_available(line, gpus) for line, gpus in known)
    empty = sum(_is_empty(line, gpus) for line, gpus in known)
    told = f"{free} free" + (f", {counted(empty, 'empty node')}" if empty else "")
    if not all(gpus.is_known for _, gpus in known):
        told = counted(sum(gpus.total for _, gpus in known), "GPU")
    for word in _CLOSED:
        if count := sum(closed_state(line["closures"]) == word for line in nodes):
            told += f", {count} {word}"
    title = link(name or "no rack", "nodes", name or NO_RACK)
    return Markup('<section class="rack"><h2>{} <span class="faint">{}</span></h2>{}{}</section>').format(
        title, told, rows, owners_told(holders, marks)
    )


def _holders(nodes: Sequence[Line]) -> list[Holders]:
    """The workloads on each node, in the order of the nodes."""
    return [() if (gpus := _gpus(line)) is None else gpus.holders for line in nodes]


def _gpus(line: Line) -> _Gpus | None:
    """The GPUs of a node. None if it is not known how many there are."""
    total, healthy, use = line["gpus"], line["healthy"], line["use"] or {}
    if total is None:
        return None
    ill = max(0, total - (total if healthy is None else healthy))
    if line["use"] is None:
        return _Gpus(total=total, ill=ill, held=0, holders=(), is_known=False)
    # Pods that Muster has not admitted are seen by what is not free.
    free = use.get("freeDevices") or {}
    taken = total - ill - sum(free.values()) if any(map(is_whole_gpu, free)) else 0
    held = min(max(line["held"] or 0, whole_gpus(use.get("used", {})), taken), total - ill)
    there = (use.get("workloads") or {}).get("items", ())
    holders = tuple((one, count) for one in there if (count := whole_gpus(one["held"])))
    return _Gpus(total=total, ill=ill, held=held, holders=holders)


def _is_drawn(line: Line) -> bool:
    """Whether each of its devices is drawn."""
    return line["gpus"] is not None and line["gpus"] <= _DRAWN


def _devices(line: Line, marks: Mapping[str, OwnerMark]) -> Markup:
    gpus = _gpus(line)
    if gpus is None:
        return Markup('<span class="faint">{}</span>').format(line["state"])
    told = (
        f"{line['name']}: {gpus.total} GPUs, {gpus.held} held, {_available(line, gpus)} free, "
        f"{gpus.ill} unhealthy, {state_of(line)}"
    )
    if not gpus.is_known:
        told = f"{line['name']}: {gpus.total} GPUs, {gpus.ill} unhealthy, {state_of(line)}. {_NOT_KNOWN}"
    if gpus.holders:
        told += "; " + ", ".join(f"{one['namespace']}/{one['name']} {count}" for one, count in gpus.holders)
    if gpus.total > _DRAWN:
        return Markup('<span title="{}">{} of {} free</span>').format(
            told, "?" if not gpus.is_known else _available(line, gpus), gpus.total
        )
    drawn, at, left = Markup(""), 0, gpus.held
    for one, count in gpus.holders:
        shown = min(count, left)
        mark = marks[str(one["uid"])]
        drawn += _squares(at, shown, f"held w{mark.colour}") + letters_drawn(at, shown, mark)
        at, left = at + shown, left - shown
    free = (
        "unknown"
        if not gpus.is_known
        else "free"
        if line["usable"]
        else "closed"
        if closed_state(line["closures"]) or line["closed"]
        else "out"
    )
    drawn += _squares(at, left, "held") + _squares(at + left, gpus.free, free)
    drawn += _squares(gpus.total - gpus.ill, gpus.ill, "ill")
    return Markup(
        '<svg class="devices" width="{}" height="14" viewBox="0 0 {} 12" role="img" aria-label="{}"><title>{}</title>'
        "{}</svg>"
    ).format(14 * gpus.total, 12 * max(gpus.total, 1), told, told, drawn)


def _squares(first: int, count: int, kind: str) -> Markup:
    """Devices that are alike, as one shape: a large cluster has very many."""
    if count <= 0:
        return Markup("")
    squares = "".join(f"M{12 * (first + index) + 1} 1h10v10h-10z" for index in range(count))
    return Markup('<path class="{}" d="{}"/>').format(kind, squares)


def _faults(lines: Sequence[Line]) -> Markup:
    rows = [
        (line["name"], _state(line), fault["number"], fault["reason"], fault["message"])
        for line in lines
        for fault in line["faults"]
    ]
    if not rows:
        return Markup("")
    return heading("Unhealthy GPUs") + table(
        "Unhealthy GPUs", ["Node", "State", "GPU", "Reason", "What"], rows, numbers="GPU"
    )
