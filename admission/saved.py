"""A turn's input and output as JSON, to hand in with a question or to decide again elsewhere.

The form is that of the values themselves: dataclasses as objects, tuples and sets as lists, workload keys as
``kind/uid``, amounts in the units of ``queues.resources``. Two saves of the same turn are equal byte for byte.
"""

from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

import msgspec

from admission.engine.plan import Plan
from admission.engine.snapshot import Snapshot
from admission.engine.topology import NodeTable

#: Grows when the form changes.
SCHEMA: Final = "muster.dev/turn/v1"


def save(snapshot: Snapshot, plan: Plan) -> bytes:
    """One turn as JSON."""
    document = {"schema": SCHEMA, "snapshot": _plain(snapshot), "plan": _plain(plan)}
    return msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=1)


def _plain(value: Any) -> Any:
    match value:
        case NodeTable():
            plain: Any = _nodes(value)
        case Enum():
            plain = value.value
        case Mapping():
            plain = {_key(key): _plain(each) for key, each in value.items()}
        case Set():
            plain = sorted(_plain(each) for each in value)
        case tuple():
            plain = _key(value) if hasattr(value, "_fields") else [_plain(each) for each in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            plain = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        case _:
            plain = value
    return plain


def _key(key: Any) -> str:
    return "/".join(key) if hasattr(key, "_fields") else str(key)


def _nodes(table: NodeTable) -> Any:
    layout = table.layout
    columns = enumerate(zip(layout.names, layout.flavors, layout.why_not, strict=True))
    return {
        "levels": [[level.key for level in chain] for chain in layout.chains],
        "nodes": [
            {
                "name": name,
                "allocatable": dict(zip(table.resources, table.allocatable[:, column].tolist(), strict=True)),
                "used": dict(zip(table.resources, table.used[:, column].tolist(), strict=True)),
                "labels": dict(layout.labels.of(column)),
                "taints": [_plain(taint) for taint in layout.taints.of(column)],
                "whyNot": why_not,
                "flavor": flavor,
            }
            for column, (name, flavor, why_not) in columns
        ],
    }
