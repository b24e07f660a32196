"""A turn's input and output as JSON, to hand in with a question or to decide again elsewhere.

The form is that of the values themselves (``admission.replay.json_form``); nodes are written one by one. Two saves of
the same turn are equal byte for byte. ``docs/reference/snapshots.md`` documents the form.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from difflib import unified_diff
from typing import Any, Final, get_type_hints

import msgspec

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST, TopologyLevel
from admission.engine.nodes.table import Layout, Node, NodeTable
from admission.engine.snapshot import Snapshot
from admission.replay import json_form
from queues.errors import InvalidDocument, MusterError
from queues.plan import Plan
from queues.plugins.registry import plugins
from queues.quota.decayed_usage import PastUse
from queues.quota.queue import Queue
from queues.resources import MOST_ON_NODE, NOTHING
from queues.workload import NO_LOAD, QueueName

#: Grows when the form changes in a way that older files cannot be read.
SCHEMA: Final = "muster.dev/turn/v3"

#: Fields of a table and its layout that follow from the nodes and their levels.
_STATED_BY_NODES: Final = frozenset(
    (
        *("layout", "resources", "allocatable", "used", "unhealthy"),
        *("names", "position", "flavors", "chains", "levels", "labels", "taints", "usable", "why_not"),
        *("devices", "links", "loads", "closed"),
    )
)


class NotASnapshot(MusterError):
    """This is no saved turn: found {found}, expected schema {expected}. Save one with `muster snapshot`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A turn as it was saved."""

    snapshot: Snapshot
    #: The plan in its JSON form.
    plan: Mapping[str, Any]
    #: Hash of the configuration that decided the turn; "" if unknown.
    configuration: str = ""


def save(snapshot: Snapshot, plan: Plan, configuration: str = "") -> bytes:
    """One turn as JSON."""
    writers: dict[str, Callable[[Any], Any]] = {
        "nodes": _written_table,
        "past_use": PastUse.lines,
        "queues": _written_queues,
        "tree": lambda tree: None,  # it follows from the queues
    }
    document = {
        "configuration": configuration,
        "plan": json_form.written(plan),
        "plugins": [
            {"name": each.name, "version": each.version, "digest": each.digest} for each in plugins()
        ],
        "schema": SCHEMA,
        "snapshot": json_form.written_fields(snapshot, writers),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1)


def load(text: bytes) -> Saved:
    """Read a saved turn. Raises NotASnapshot or InvalidDocument."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotASnapshot(found=str(error), expected=SCHEMA) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise NotASnapshot(found="no schema" if schema is None else f"schema {schema}", expected=SCHEMA)
    for part in ("snapshot", "plan"):
        if not isinstance(document.get(part), dict):
            raise InvalidDocument(where=part, found=repr(document.get(part))[:80], expected="an object")
    readers = {"nodes": _read_table, "past_use": _read_past_use}
    return Saved(
        snapshot=Snapshot(**json_form.read_fields(Snapshot, document["snapshot"], "snapshot", readers)),
        plan=document["plan"],
        configuration=str(document.get("configuration", "")),
    )


def replayed_plan(saved: Saved) -> Mapping[str, Any]:
    """The plan that this engine decides for the saved snapshot, in its JSON form."""
    plan, _ = decide(saved.snapshot, Memo())
    form: Mapping[str, Any] = json_form.written(plan)
    return form


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """The lines that differ between two plans in their JSON form, with those around them, as ``diff -u`` writes them.

    Transitions of jobs are left out: ``decide`` does not make them.
    """
    return unified_diff(_lines_of(before), _lines_of(after), "saved plan", "plan of now", lineterm="")


def _lines_of(plan: Mapping[str, Any]) -> list[str]:
    decided = {name: each for name, each in plan.items() if name != "jobs"}
    return msgspec.json.format(msgspec.json.encode(decided, order="sorted"), indent=1).decode().splitlines()


# ── nodes ───────────────────────────────────────────────────────────────────────────────────────────────────


def nodes_of(table: NodeTable) -> Iterator[Node]:
    """The nodes that a table was built from, with the amounts used now."""
    layout = table.layout
    for column, name in enumerate(layout.names):
        allocatable, used = table[name]
        yield Node(
            name=name,
            allocatable=allocatable,
            used=used,
            labels=layout.labels.of(column),
            taints=layout.taints.of(column),
            usable=bool(layout.usable[column]),
            why_not=layout.why_not[column],
            flavor=layout.flavors[column],
            devices=layout.devices.get(name, ()),
            load=layout.loads.get(name, NO_LOAD),
            unhealthy=table.unhealthy.get(name, NOTHING),
        )


def _level_keys(layout: Layout, chain: tuple[TopologyLevel, ...]) -> list[str]:
    """Label keys of a topology's levels. The host level is left out, unless nodes without a host label exist.

    Such nodes are in no domain of a topology that names the host.
    """
    keys = [level.key for level in chain[:-1]]
    for column in range(len(layout.names)) if keys else ():
        labels = layout.labels.of(column)
        if HOST not in labels and chain[0].key in labels and chain[0].of[column] < 0:
            return [*keys, HOST]
    return keys


def _written_table(table: NodeTable) -> dict[str, Any]:
    layout = table.layout
    return {
        "layout": {name: json_form.written(getattr(layout, name)) for name in sorted(_more(Layout))},
        "levels": [_level_keys(layout, chain) for chain in layout.chains],
        "nodes": [json_form.written(node) for node in nodes_of(table)],
        **{name: json_form.written(getattr(table, name)) for name in sorted(_more(NodeTable))},
    }


def _written_queues(queues: Mapping[QueueName, Queue]) -> dict[str, Any]:
    """Queues by name. The order of a queue's flavors is the order in which they are tried."""
    return {
        str(name): json_form.written_fields(queue, {"flavors": json_form.in_order})
        for name, queue in sorted(queues.items())
    }


def _read_table(form: Any) -> NodeTable:
    where = "snapshot.nodes"
    for part, kind in (("nodes", list), ("levels", list), ("layout", dict)):
        if not isinstance(form, dict) or not isinstance(form.get(part), kind):
            raise InvalidDocument(where=where, found=repr(form)[:80], expected="nodes, levels and layout")
    nodes: tuple[Node, ...] = json_form.read(tuple[Node, ...], form["nodes"], f"{where}.nodes")
    for number, node in enumerate(nodes):
        for name, units in node.allocatable.items():
            if abs(units) > MOST_ON_NODE:
                place = f"{where}.nodes[{number}].allocatable.{name}"
                raise InvalidDocument(where=place, found=str(units), expected=f"at most {MOST_ON_NODE}")
    if len({node.name for node in nodes}) < len(nodes):
        raise InvalidDocument(where=f"{where}.nodes", found="a node twice", expected="each once")
    levels: list[tuple[str, ...]] = list(
        json_form.read(tuple[tuple[str, ...], ...], form["levels"], f"{where}.levels")
    )
    table = NodeTable.build(nodes, levels)
    if table.layout.names != tuple(node.name for node in nodes):  # sorted by their host labels, too
        table = NodeTable.build(nodes, [(*levels[0], HOST), *levels[1:]])
    more = {name: each for name, each in form.items() if name not in ("levels", "nodes", "layout")}
    return replace(
        table,
        layout=replace(table.layout, **_read_more(Layout, form["layout"], f"{where}.layout")),
        **_read_more(NodeTable, more, where),
    )


def _more(kind: type[Layout | NodeTable]) -> list[str]:
    """Public fields that the nodes do not state."""
    names = [field.name for field in fields(kind)]
    return [name for name in names if not name.startswith("_") and name not in _STATED_BY_NODES]


def _read_more(kind: type[Layout | NodeTable], form: Mapping[str, Any], where: str) -> dict[str, Any]:
    unknown = sorted(form.keys() - set(_more(kind)))
    if unknown:
        raise InvalidDocument(where=where, found=", ".join(unknown), expected="known fields only")
    hints = get_type_hints(kind)
    return {name: json_form.read(hints[name], each, f"{where}.{name}") for name, each in form.items()}


# ── past use ────────────────────────────────────────────────────────────────────────────────────────────────


def _read_past_use(form: Any) -> PastUse:
    try:
        return PastUse.from_lines(form)
    except (ValueError, TypeError) as error:
        raise InvalidDocument(
            where="snapshot.past_use", found=str(error), expected="rows of seven values"
        ) from error
