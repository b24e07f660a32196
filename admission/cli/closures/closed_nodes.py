"""Which nodes Reservations and NodeDrains close, as far as the user may list them.

A node is closed from the lead time on: it takes only work that is known to end in time, and in the window only work of
the reservation's queue, or none.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from admission.cli.access.objects import ClusterRoute
from admission.cli.closures.objects import begins, listed, spec_of, status_of
from admission.cli.rendering.table import stated_seconds
from queues.api.api_resources import NODE_DRAINS, RESERVATIONS, Document
from queues.text_format import span

#: What a closure of a node says of it: kind, name, queue, from, for, phase, and whether it closes the node now.
Closure = Mapping[str, Any]

_KINDS: Final = (RESERVATIONS, NODE_DRAINS)
_OVER: Final = ("Ended", "Refused")
#: Seconds before its window from which on a closure closes nodes, if it does not say it.
_LEAD: Final = 3600.0
_PART: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(h|ms|m|s)")
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


@dataclass(frozen=True, slots=True, kw_only=True)
class Closures:
    """What is known of reserved and drained nodes."""

    #: Closures that have not ended, by node.
    by_node: Mapping[str, list[Closure]] = field(default_factory=dict)
    #: Kinds that the user may not list, in the plural. Empty: all is known.
    unread: tuple[str, ...] = ()


def read_closures(route: ClusterRoute, now: float) -> Closures:
    """The closures of nodes. ``now``: seconds since the epoch. Raises CommandFailed: the API server does not answer."""
    by_node: dict[str, list[Closure]] = {}
    unread = []
    for resource in _KINDS:
        found = listed(route, resource)
        if found is None:
            unread.append(resource.plural)
        for node, closures in closures_of(found or (), resource.kind, now).items():
            by_node.setdefault(node, []).extend(closures)
    return Closures(by_node=by_node, unread=tuple(unread))


def closures_of(documents: Iterable[Document], kind: str, now: float) -> dict[str, list[Closure]]:
    """Closures of one kind that have not ended, by node. ``now``: seconds since the epoch."""
    found: dict[str, list[Closure]] = {}
    for each in documents:
        spec, status = spec_of(each), status_of(each)
        phase = status.get("phase") or "Planned"
        if phase in _OVER:
            continue
        closure = {
            "kind": kind,
            "name": str(each["metadata"]["name"]),
            "queue": spec.get("queue"),
            "from": begins(each),
            "for": spec.get("for"),
            "phase": phase,
            "closed": phase == "Active" or _has_begun_to_close(spec, begins(each), now),
        }
        for node in status.get("nodes") or ():
            found.setdefault(str(node), []).append(closure)
    return found


def _has_begun_to_close(spec: Mapping[str, Any], start: str, now: float) -> bool:
    """Whether the lead time has begun. A drain names its nodes long before."""
    try:
        begins_at = datetime.fromisoformat(start).timestamp()
    except ValueError:
        return False
    return now >= begins_at - _seconds(spec.get("leadTime"))


def _seconds(text: Any) -> float:
    parts = _PART.findall(text) if isinstance(text, str) else []
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != text:
        return _LEAD
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def closed_state(closures: Iterable[Closure]) -> str:
    """``drained``, ``reserved``, or ``drain planned`` in the lead time of a drain; "": the node is not closed."""
    closing = [each for each in closures if each["closed"]]
    drains = [each for each in closing if each["kind"] == NODE_DRAINS.kind]
    if any(each["phase"] == "Active" for each in drains):
        return "drained"
    return "drain planned" if drains else "reserved" if closing else ""


def closure_sentence(closure: Closure) -> str:
    """``kept for reservation night from 2026-11-27T14:00:00Z for 4h``."""
    is_drain = closure["kind"] == NODE_DRAINS.kind
    what = "drained by nodedrain" if is_drain else "kept for reservation"
    seconds = stated_seconds(closure["for"]) if closure["for"] else None
    lasts = f" for {closure['for'] if seconds is None else span(seconds)}" if closure["for"] else ""
    return f"{what} {closure['name']} from {closure['from']}{lasts}"
