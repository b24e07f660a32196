"""The view of nodes: racks with the GPUs of each node, and what is wrong with some. Pure: lines in, HTML out."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from admission.cli.page.layout import heading, table
from admission.cli.rendering.nodes import whole_gpus

#: Labels by which nodes are put together where no topology says more, the first that a node has.
RACK_LABELS: Final = ("topology.kubernetes.io/rack", "muster.dev/rack", "topology.kubernetes.io/zone")
#: Devices that are drawn one by one; a node that has more shows its numbers only.
_DRAWN: Final = 16

#: What ``kubectl muster nodes -o json`` has of a node, with its ``rack``, and in ``use`` what the ledger says of it.
Line = Mapping[str, Any]


def node_racks(lines: Sequence[Line]) -> Markup:
    """The nodes with GPUs, by rack, and a list of faults."""
    if not lines:
        return heading("Nodes", 1) + Markup("<p>No node has GPUs.</p>")
    racks: dict[str, list[Line]] = {}
    for line in lines:
        racks.setdefault(line["rack"], []).append(line)
    legend = Markup("").join(
        Markup(
            '<li><svg class="devices" width="14" viewBox="0 0 12 12" aria-hidden="true">{}</svg> {}</li>'
        ).format(_device(0, kind), text)
        for kind, text in (("held", "held by a pod"), ("free", "free"), ("ill", "unhealthy"))
    )
    maps = Markup("").join(_rack(name, nodes) for name, nodes in sorted(racks.items()))
    return (
        heading("Nodes with GPUs", 1)
        + Markup('<ul class="legend">{}</ul><div class="racks">{}</div>').format(legend, maps)
        + _faults(lines)
    )


def _rack(name: str, nodes: Sequence[Line]) -> Markup:
    rows = Markup("").join(
        Markup('<div class="node"><span title="{0}">{0}</span><span>{1}</span></div>').format(
            line["name"], _devices(line)
        )
        for line in sorted(nodes, key=lambda line: str(line["name"]))
    )
    return Markup('<section class="rack"><h3>{}</h3>{}</section>').format(name or "no rack", rows)


def _devices(line: Line) -> Markup:
    total, healthy = line["gpus"], line["healthy"]
    if total is None:
        return Markup('<span class="faint">{}</span>').format(line["state"])
    ill = max(0, total - (total if healthy is None else healthy))
    held = min(max(line["held"] or 0, whole_gpus((line["use"] or {}).get("used", {}))), total - ill)
    told = f"{line['name']}: {total} GPUs, {held} held, {total - ill - held} free, {ill} unhealthy, {line['state']}"
    if total > _DRAWN:
        return Markup('<span title="{}">{} of {} free</span>').format(told, total - ill - held, total)
    kinds = ["held"] * held + ["free"] * (total - ill - held) + ["ill"] * ill
    drawn = Markup("").join(_device(index, kind) for index, kind in enumerate(kinds))
    return Markup(
        '<svg class="devices" width="{}" viewBox="0 0 {} 12" role="img" aria-label="{}">{}</svg>'
    ).format(14 * total, 12 * max(total, 1), told, drawn)


def _device(index: int, kind: str) -> Markup:
    return Markup('<rect class="{}" x="{}" y="1" width="10" height="10" rx="1.5"/>').format(
        kind, 12 * index + 1
    )


def _faults(lines: Sequence[Line]) -> Markup:
    rows = [
        (line["name"], line["state"], fault["number"], fault["reason"], fault["message"])
        for line in lines
        for fault in line["faults"]
    ]
    if not rows:
        return Markup("")
    return heading("Unhealthy GPUs") + table(
        "Unhealthy GPUs", ["Node", "State", "GPU", "Reason", "What"], rows, numbers="GPU"
    )
