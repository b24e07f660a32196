"""A turn's input and output as JSON, to hand in with a question or to decide again elsewhere.

The form is that of the values themselves (``admission.replay.json_form``); nodes are written one by one. Two saves of
the same turn are equal byte for byte. ``docs/reference/snapshots.md`` tells the form.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
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
from queues.quota.decayed_usage import PastUse
from queues.resources import MOST_ON_NODE

#: Grows when the form changes in a way that older files cannot be read.
SCHEMA: Final = "muster.dev/turn/v2"

#: What ``nodes`` says together, and no field of its own has to.
_SAID_BY_NODES: Final = frozenset(
    (
        *("layout", "resources", "allocatable", "used"),
        *("names", "position", "flavors", "chains", "labels", "taints", "usable", "why_not"),
    )
)

#: What is written of a table beside its fields.
_TABLE: Final = frozenset(("levels", "nodes", "layout"))


class NotASnapshot(MusterError):
    """This is no saved turn: found {found}, expected schema {expected}. Save one with `muster snapshot`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A turn as it was saved."""

    snapshot: Snapshot
    #: The plan in its JSON form.
    plan: Mapping[str, Any]
    #: Hash of the configuration that decided it; "" if it was not told.
    configuration: str = ""


def save(snapshot: Snapshot, plan: Plan, configuration: str = "") -> bytes:
    """One turn as JSON."""
    document = {
        "schema": SCHEMA,
        "configuration": configuration,
        "snapshot": json_form.plain(snapshot, _WRITTEN),
        "plan": json_form.plain(plan),
    }
    return msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=1)


def load(text: bytes) -> Saved:
    """A turn that was saved. Raises NotASnapshot or InvalidDocument."""
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
    snapshot: Snapshot = json_form.value(Snapshot, document["snapshot"], "snapshot", _READ)
    return Saved(
        snapshot=snapshot,
        plan=document["plan"],
        configuration=str(document.get("configuration", "")),
    )


def decided_again(saved: Saved) -> Mapping[str, Any]:
    """The plan for the saved snapshot, decided now, in its JSON form."""
    plan, _ = decide(saved.snapshot, Memo())
    form: Mapping[str, Any] = msgspec.json.decode(msgspec.json.encode(json_form.plain(plan)))
    return form


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Where two plans in their JSON form differ, a line each.

    Entries of lists are told apart by what they are about. Transitions of jobs are no part of ``decide``.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            if where == "" and name == "jobs":
                continue
            place = f"{where}.{name}" if where else name
            if name not in after:
                yield f"{place}: was {_short(before[name])}, is not there now"
            elif name not in before:
                yield f"{place}: was not there, is {_short(after[name])}"
            else:
                yield from differences(before[name], after[name], place)
    elif isinstance(before, list) and isinstance(after, list) and before != after:
        named = _by_subject(before), _by_subject(after)
        if named[0] is not None and named[1] is not None and list(named[0]) != list(named[1]):
            yield from differences(named[0], named[1], where)
            if sorted(named[0]) == sorted(named[1]):
                yield f"{where}: the same in another order"
        else:
            first, second = (
                {str(number): one for number, one in enumerate(each)} for each in (before, after)
            )
            yield from differences(first, second, where)
    elif before != after:
        yield f"{where}: was {_short(before)}, is {_short(after)}"


def _by_subject(entries: list[Any]) -> dict[str, Any] | None:
    """Entries by the workload or admission that they are about; None: they are about nothing of the kind."""
    named: dict[str, Any] = {}
    for entry in entries:
        subject = entry.get("workload", entry.get("admission")) if isinstance(entry, dict) else None
        if subject is None or str(subject) in named:
            return None
        named[str(subject)] = entry
    return named


def _short(form: Any) -> str:
    text = form if isinstance(form, str) else msgspec.json.encode(form).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"


# ── nodes ───────────────────────────────────────────────────────────────────────────────────────────────────


def nodes_of(table: NodeTable) -> Iterator[Node]:
    """The nodes that a table was built from, with what is used now."""
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
        )


def _levels(layout: Layout) -> list[list[str]]:
    return [_keys(layout, chain) for chain in layout.chains]


def _keys(layout: Layout, chain: tuple[TopologyLevel, ...]) -> list[str]:
    """The label keys of a topology; the host where it matters: nodes without that label are in no domain then."""
    keys = [level.key for level in chain[:-1]]
    for column in range(len(layout.names)) if keys else ():
        labels = layout.labels.of(column)
        if HOST not in labels and chain[0].key in labels and chain[0].of[column] < 0:
            return [*keys, HOST]
    return keys


def _table(table: NodeTable) -> Any:
    layout = table.layout
    return {
        "levels": _levels(layout),
        "nodes": [json_form.plain(node) for node in nodes_of(table)],
        "layout": {name: json_form.plain(getattr(layout, name)) for name in _more(layout)},
        **{name: json_form.plain(getattr(table, name)) for name in _more(table)},
    }


def _more(part: Layout | NodeTable) -> list[str]:
    """Public fields that the nodes do not say."""
    names = [field.name for field in fields(part)]
    return [name for name in names if not name.startswith("_") and name not in _SAID_BY_NODES]


def _table_from(form: Any) -> NodeTable:
    where = "snapshot.nodes"
    for part, kind in (("nodes", list), ("levels", list), ("layout", dict)):
        if not isinstance(form, dict) or not isinstance(form.get(part), kind):
            raise InvalidDocument(where=where, found=repr(form)[:80], expected="nodes, levels and layout")
    nodes: tuple[Node, ...] = json_form.value(tuple[Node, ...], form["nodes"], f"{where}.nodes")
    for number, node in enumerate(nodes):
        for name, units in node.allocatable.items():
            if abs(units) > MOST_ON_NODE:
                place = f"{where}.nodes[{number}].allocatable.{name}"
                raise InvalidDocument(where=place, found=str(units), expected=f"at most {MOST_ON_NODE}")
    levels: tuple[tuple[str, ...], ...] = json_form.value(
        tuple[tuple[str, ...], ...], form["levels"], f"{where}.levels"
    )
    if len({node.name for node in nodes}) < len(nodes):
        raise InvalidDocument(where=f"{where}.nodes", found="a node twice", expected="each once")
    table = NodeTable.build(nodes, levels)
    if table.layout.names != tuple(node.name for node in nodes):  # they were sorted by their host labels, too
        table = NodeTable.build(nodes, [(*levels[0], HOST), *levels[1:]])
    return replace(
        table,
        layout=replace(table.layout, **_read(Layout, form["layout"], f"{where}.layout")),
        **_read(NodeTable, {name: each for name, each in form.items() if name not in _TABLE}, where),
    )


#: How what has a form of its own is written, and read.
_WRITTEN: Final[json_form.Special] = {NodeTable: _table, PastUse: PastUse.lines}

_READ: Final[json_form.Special] = {NodeTable: _table_from, PastUse: PastUse.from_lines}


def _read(kind: type, form: Mapping[str, Any], where: str) -> dict[str, Any]:
    hints = get_type_hints(kind)
    unknown = sorted(form.keys() - (hints.keys() - _SAID_BY_NODES))
    if unknown:
        raise InvalidDocument(where=where, found=", ".join(unknown), expected="known fields only")
    return {name: json_form.value(hints[name], each, f"{where}.{name}") for name, each in form.items()}
