"""The loans in a Queue's document (``spec.loans``) as they are written.

Works on plain JSON data, whatever is in it, as ``quota_document`` does, and loads as little.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from queues.json_values import list_at
from queues.text_format import second_at

#: Entries of ``spec.loans``; further ones are not read, and the API server refuses them.
MOST_LOANS: Final = 32

Entry = dict[str, Any]


def entries(spec: Mapping[str, Any]) -> list[Entry]:
    """The entries of ``spec.loans``, as they are written."""
    return [dict(entry) for entry in list_at(spec, "loans")[:MOST_LOANS] if isinstance(entry, Mapping)]


def lasting(spec: Mapping[str, Any], now: float) -> list[Entry]:
    """The entries that have not ended, and those whose end cannot be read."""
    return [entry for entry in entries(spec) if (end := end_of(entry)) is None or end > now]


def without(loans: Sequence[Entry], to: str, resource: str | None, flavor: str) -> list[Entry]:
    """These entries without loans to a queue. ``resource``: only those of it; None for all. ``flavor``: "": of any."""
    left: list[Entry] = []
    for entry in loans:
        if entry.get("to") != to or (flavor and entry.get("flavor") != flavor):
            left.append(entry)
            continue
        resources = entry.get("resources")
        if resource is None or not isinstance(resources, Mapping):
            continue
        if kept := {name: amount for name, amount in resources.items() if name != resource}:
            left.append({**entry, "resources": kept})
    return left


def end_of(entry: Mapping[str, Any]) -> int | None:
    """When a loan ends, in seconds since the epoch; None if it cannot be read."""
    until = entry.get("until")
    return second_at(until) if isinstance(until, str) else None
