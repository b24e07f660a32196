"""Racks of nodes: which node is in which, what is free there, and the largest gangs that fit. Pure.

A rack is a domain of one topology level, as the engine has it: nodes with the same labels from the outermost level down
to that one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from admission.cli.rendering.table import Cell
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table

Document = Mapping[str, Any]
Line = Mapping[str, Any]

HOST: Final = "kubernetes.io/hostname"
#: Labels of racks where no Topology names any; the first that some node has.
USUAL_LABELS: Final = (
    "topology.muster.dev/rack",
    "topology.kubernetes.io/rack",
    "muster.dev/rack",
    "topology.kubernetes.io/zone",
)
_NUMBERS: Final = "NODES OUT GPUS FREE EMPTY SPLIT ILL"
_NARROW: Final = Narrowing(names={"RACK": 12, "ACCELERATOR": 11}, left_out=("ILL", "OUT"))


@dataclass(frozen=True, slots=True)
class Racks:
    """How nodes are put into racks."""

    #: Node labels, from the outermost level to that of the racks. Empty: there are no racks.
    labels: tuple[str, ...] = ()

    @classmethod
    def known(cls, topologies: Iterable[Document], nodes: Iterable[Document], level: str | None) -> "Racks":
        """By a Topology, the first by name: its innermost level above the host, or ``level``.

        Without a Topology that has it: by ``level`` alone, or by the first of the usual labels that a node has.
        """
        found = [
            [each.get("nodeLabel") or "" for each in (topology.get("spec") or {}).get("levels") or ()]
            for topology in sorted(topologies, key=lambda each: str(each["metadata"]["name"]))
        ]
        for keys in found:
            above = [key for key in keys if key != HOST]
            if level in keys:
                return cls(tuple(keys[: keys.index(level) + 1]))
            if level is None and above:
                return cls(tuple(above))
        there = {key for node in nodes for key in node["metadata"].get("labels") or ()}
        usual = next((key for key in USUAL_LABELS if key in there), None)
        chosen = level or usual
        return cls() if chosen is None else cls((chosen,))

    def of(self, node: Document) -> str:
        """The name of a node's rack: values of the labels, joined by "/"; "": it is in none."""
        labels = node["metadata"].get("labels") or {}
        values = [str(labels.get(key) or "") for key in self.labels]
        return "/".join(values) if values and all(values) else ""


def is_in(rack: str, wanted: str) -> bool:
    """Whether a rack is the one that a user means: by its whole name, or by its last part."""
    return bool(rack) and (rack == wanted or rack.rpartition("/")[2] == wanted)


def rack_lines(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """What is shown of each rack and kind of accelerator, by name; nodes without a rack last. As ``-o json``."""
    found: dict[tuple[bool, str, str], list[tuple[Line, Mapping[str, Any]]]] = {}
    for line in lines:
        for each in line["accelerators"]:
            key = (not line["rack"], line["rack"], each["name"])
            found.setdefault(key, []).append((line, each))
    return [
        _rack(rack, name, nodes) for (_, rack, name), nodes in sorted(found.items(), key=lambda kv: kv[0])
    ]


def _rack(rack: str, accelerator: str, nodes: Sequence[tuple[Line, Mapping[str, Any]]]) -> dict[str, Any]:
    known = [each for _, each in nodes if each["free"] is not None]
    free = sum(each["free"] for each in known) if known else None
    empty = [each for each in known if each["free"] and each["free"] == each["total"]]
    whole = sum(each["free"] for each in empty)
    return {
        "rack": rack,
        "accelerator": accelerator,
        "nodes": len(nodes),
        "outOfService": sum(not line["usable"] for line, _ in nodes),
        "gpus": sum(each["total"] for _, each in nodes),
        "free": free,
        "emptyNodes": len(empty) if known else None,
        "split": round(1 - whole / free, 4) if free else None,
        "unhealthy": sum(max(0, (line["gpus"] or 0) - (line["healthy"] or 0)) for line, _ in nodes),
    }


def rack_table(racks: Iterable[Line], *, headers: bool, width: int | None = None) -> str:
    """One line for each rack and kind of accelerator."""
    columns = ["RACK", "ACCELERATOR", "NODES", "OUT", "GPUS", "FREE", "EMPTY", "SPLIT", "ILL"]
    rows: list[list[Cell]] = [
        [
            each["rack"] or None,
            each["accelerator"],
            each["nodes"],
            each["outOfService"],
            each["gpus"],
            each["free"],
            each["emptyNodes"],
            None if each["split"] is None else f"{each['split']:.0%}",
            each["unhealthy"],
        ]
        for each in racks
    ]
    return fitted_table(columns, rows, _NARROW, width=width, headers=headers, right=_NUMBERS)


def largest_gangs(racks: Sequence[Line]) -> list[str]:
    """For each kind of accelerator the largest gangs that fit on all of these nodes, and in one rack.

    Exact for gangs whose pods ask for one GPU each, or for all GPUs of a node, as far as GPUs decide: CPU, memory,
    taints of nodes and limits of queues may allow less.
    """
    told = []
    for name in dict.fromkeys(each["accelerator"] for each in racks):
        known = [each for each in racks if each["accelerator"] == name and each["free"] is not None]
        if known:
            told.append(f"Largest gang on {name}, of pods with one GPU: {_best(known, 'free')}.")
            told.append(f"Largest gang on {name}, of pods with a whole node: {_best(known, 'emptyNodes')}.")
    return told


def _best(racks: Sequence[Line], what: str) -> str:
    """``212; in one rack 64 (r7)``: over all racks, and in the best one."""
    total = sum(each[what] for each in racks)
    named = [each for each in racks if each["rack"]]
    best = max(named, key=lambda each: each[what], default=None)
    return f"{total}" if best is None else f"{total}; in one rack {best[what]} ({best['rack']})"
