"""Which nodes Reservations and NodeDrains close, as far as the user may list them.

A node is closed from the lead time on: it takes only work that is known to end in time, and in the window only work of
the reservation's queue, or none.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from admission.cli.access.object_forms import ClosureObject
from admission.cli.access.objects import ClusterRoute, listed
from admission.cli.rendering.sentences import warn
from admission.cli.rendering.table import stated_seconds
from admission.read_api.bodies import Body
from queues.api.api_resources import NODE_DRAINS, RESERVATIONS
from queues.text_format import span

_KINDS: Final = (RESERVATIONS, NODE_DRAINS)
_OVER: Final = ("Ended", "Refused")


class Closure(Body, frozen=True, kw_only=True):
    """A Reservation or NodeDrain that concerns a node, as ``-o json`` has it."""

    kind: str
    name: str
    #: Whose work is placed there in the window. Null: nobody's.
    queue: str | None = None
    from_: str = msgspec.field(default="", name="from")
    for_: str | None = msgspec.field(default=None, name="for")
    phase: str
    #: Whether it closes the node now.
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Closures:
    """What is known of reserved and drained nodes."""

    #: Closures that have not ended, by node.
    by_node: Mapping[str, list[Closure]] = field(default_factory=dict)
    #: Kinds that the user may not list, in the plural. Empty: all is known.
    unread: tuple[str, ...] = ()


def read_closures(route: ClusterRoute, now: float, left_out: Callable[[str], None] = warn) -> Closures:
    """The closures of nodes. ``now``: seconds since the epoch. ``left_out`` gets a sentence for each that is left out.

    Raises CommandFailed: the API server does not answer.
    """
    by_node: dict[str, list[Closure]] = {}
    unread = []
    for resource in _KINDS:
        found = listed(route, resource, ClosureObject, left_out=left_out)
        if found is None:
            unread.append(resource.plural)
        for node, closures in closures_of(found or (), resource.kind, now).items():
            by_node.setdefault(node, []).extend(closures)
    return Closures(by_node=by_node, unread=tuple(unread))


def closures_of(objects: Iterable[ClosureObject], kind: str, now: float) -> dict[str, list[Closure]]:
    """Closures of one kind that have not ended, by node. ``now``: seconds since the epoch."""
    found: dict[str, list[Closure]] = {}
    for document in objects:
        status = document.status
        phase = status.phase or "Planned"
        if phase in _OVER:
            continue
        closure = Closure(
            kind=kind,
            name=document.metadata.name,
            queue=document.spec.queue,
            from_=document.begins,
            for_=document.spec.for_,
            phase=phase,
            # A drain names its nodes long before it closes them.
            closed=phase == "Active" or _has_come(status.closes_from, now),
        )
        for node in status.nodes or ():
            found.setdefault(node, []).append(closure)
    return found


def _has_come(time: str | None, now: float) -> bool:
    return time is not None and datetime.fromisoformat(time).timestamp() <= now


def closed_state(closures: Iterable[Closure]) -> str:
    """``drained``, ``reserved``, or ``drain planned`` in the lead time of a drain; "": the node is not closed."""
    closing = [closure for closure in closures if closure.closed]
    drains = [closure for closure in closing if closure.kind == NODE_DRAINS.kind]
    if any(closure.phase == "Active" for closure in drains):
        return "drained"
    return "drain planned" if drains else "reserved" if closing else ""


def closure_sentence(closure: Closure) -> str:
    """``kept for reservation night from 2026-11-27T14:00:00Z for 4h``."""
    what = "drained by nodedrain" if closure.kind == NODE_DRAINS.kind else "kept for reservation"
    seconds = stated_seconds(closure.for_)
    lasts = f" for {closure.for_ if seconds is None else span(seconds)}" if closure.for_ else ""
    return f"{what} {closure.name} from {closure.from_}{lasts}"
