"""Who may reserve nodes for which queue: the administrators of a tenant for its queues, up to what these deserve. Pure.

A user who is named in ``access.admins`` of a queue reserves for that queue and for all below it. Platform
administrators reserve for every queue: this is not about them. Whole nodes are kept, so all devices of these nodes
count, also those that are not asked for: who reserves the network card of a node has its GPUs as well.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from queues.api.reading.device_shares import PARTS_OF_VGPU
from queues.api.reading.user_values import is_device_resource
from queues.api.types.node_closures import Reservation
from queues.api.types.queue import QueueDocument
from queues.api.validation.tenant_rules import Requester, TenantTree
from queues.closures.node_closures import NodeClosure
from queues.errors import InvalidDocument, InvalidQuantity
from queues.resources import show

Document = Mapping[str, Any]
#: How many of each device a node has.
NodeShape = Mapping[str, int]

#: Reservations for the queues of one tenant, ended ones included. Only platform administrators make more.
MOST_OF_TENANT: Final = 20

_EVERYBODY_ELSE: Final = "expected one of Muster only"


class ReservationChange(NamedTuple):
    """A write of one Reservation."""

    name: str
    #: As it was; None: it is created.
    before: Document | None
    #: As it is to be; None: it is deleted.
    after: Document | None
    #: Of its status.
    is_status: bool = False


def node_shapes(nodes: Iterable[Mapping[str, int]]) -> list[NodeShape]:
    """The devices of nodes, each combination once. ``nodes``: what each has."""
    found = {
        frozenset(
            (name, units)
            for name, units in node.items()
            if units > 0 and is_device_resource(name) and name not in PARTS_OF_VGPU
        )
        for node in nodes
    }
    return [dict(shape) for shape in sorted(found, key=sorted)]


def reservation_refusals(
    change: ReservationChange,
    by: Requester,
    queues: Mapping[str, Document],
    others: Mapping[str, Document],
    shapes: Collection[NodeShape] | None,
) -> list[str]:
    """Why a user who is no platform administrator may not write a Reservation; empty: they may.

    ``queues``, ``others``: all Queues and Reservations as they are stored, by name. ``shapes``: the devices of
    nodes, each combination once (``node_shapes``); None: not known yet.
    """
    if change.is_status:
        return [f"reservation {change.name}: found a status written by {by.name}, {_EVERYBODY_ELSE}"]
    tree = TenantTree(queues)
    for document in (change.before, change.after):
        queue = "" if document is None else _queue_of(document)
        if document is not None and tree.administered(queue, by) is None:
            return [
                f"reservation {change.name}: {by.name} may not reserve for queue {queue or '(none)'}, being neither a "
                "platform administrator (role muster-queue-admin) nor named in access.admins of it or of a queue above"
            ]
    if change.after is None or (
        change.before is not None and change.before.get("spec") == change.after.get("spec")
    ):
        return []  # it is deleted, or has other labels and the like
    return list(_content_refusals(change.name, change.after, tree, others, shapes))


def _content_refusals(
    name: str,
    after: Document,
    tree: TenantTree,
    others: Mapping[str, Document],
    shapes: Collection[NodeShape] | None,
) -> Iterator[str]:
    closure = _closure(after)
    if closure is None or closure.queue is None:
        yield f"reservation {name}: found a spec that cannot be read, expected queue, resources, from and for"
    elif shapes is None:
        yield f"reservation {name}: the nodes of the cluster are not known yet. Try again in a moment"
    elif plain := [each for each in closure.amounts if not is_device_resource(each)]:
        yield (
            f"reservation {name}: found {', '.join(sorted(plain))}, expected devices only, such as nvidia.com/gpu. "
            "Ask a platform administrator to reserve other nodes"
        )
    elif (count := _of_same_tenant(closure, tree, others)) >= MOST_OF_TENANT:
        yield (
            f"reservation {name}: found {count} others for queues of the tenant {tree.path(closure.queue)[-1]}, "
            f"expected fewer than {MOST_OF_TENANT}: delete those that have ended"
        )
    else:
        yield from _beyond_quota(closure, tree, others, shapes)


def _of_same_tenant(closure: NodeClosure, tree: TenantTree, others: Mapping[str, Document]) -> int:
    """Other reservations for queues of the same tenant. Ended ones count, or there could be any number of objects.

    0 if this one is stored: it may be changed however many there are.
    """
    tenant = tree.path(closure.queue or "")[-1:]
    same = [name for name, document in others.items() if tree.path(_queue_of(document))[-1:] == tenant]
    return 0 if closure.name in same else len(same)


def _beyond_quota(
    closure: NodeClosure, tree: TenantTree, others: Mapping[str, Document], shapes: Collection[NodeShape]
) -> Iterator[str]:
    """Where reservations at the same time are together more than a queue of the tenant deserves."""
    path = tree.path(closure.queue or "")
    kept = _kept(closure, shapes)
    if not kept:
        yield (
            f"reservation {closure.name}: found {', '.join(sorted(closure.amounts))}, expected devices of which one "
            "node has all"
        )
        return
    deserved = {name: _deserved(tree.queues[name]) for name in path}
    if unstated := [each for each in sorted(kept) if not any(each in deserved[name] for name in path)]:
        yield (
            f"reservation {closure.name}: found whole nodes with {', '.join(unstated)}, of which neither queue "
            f"{closure.queue} nor one above it states what it deserves. Ask a platform administrator to reserve them"
        )
        return
    at_that_time = [
        (tree.path(other.queue or ""), _kept(other, shapes))
        for name, document in others.items()
        if name != closure.name and (other := _closure(document)) is not None and closure.closes_beside(other)
    ]
    for resource in sorted(kept):
        for name in [each for each in path if resource in deserved[each]]:
            beside = sum(nodes.get(resource, 0) for queues, nodes in at_that_time if name in queues)
            limit, asked = deserved[name][resource], kept[resource] + beside
            if asked > limit:
                yield (
                    f"reservation {closure.name}: found {show(resource, asked)} {resource} on whole nodes reserved for "
                    f"queue {name} at the same time, expected at most {show(resource, limit)}, what it deserves"
                )


def _kept(closure: NodeClosure, shapes: Collection[NodeShape]) -> dict[str, int]:
    """The devices of the whole nodes that a reservation can take, also those that it does not ask for.

    Of each device that of the nodes that have most of it together. Empty: no node has all that is asked.
    """
    asked = {name: units for name, units in closure.amounts.items() if units > 0 and is_device_resource(name)}
    kept: dict[str, int] = {}
    for shape in shapes:
        if asked and all(shape.get(name, 0) > 0 for name in asked):
            nodes = max(-(-units // shape[name]) for name, units in asked.items())
            for name, units in shape.items():
                kept[name] = max(kept.get(name, 0), nodes * units)
    return kept


def _deserved(document: Document) -> Mapping[str, int]:
    try:
        return QueueDocument.read(document).to_domain().limits.deserved
    except InvalidDocument:
        return {}


def _queue_of(document: Document) -> str:
    spec = document.get("spec")
    queue = spec.get("queue") if isinstance(spec, Mapping) else None
    return queue if isinstance(queue, str) else ""


def _closure(document: Document) -> NodeClosure | None:
    try:
        return Reservation.read(document).to_closure()
    except (InvalidDocument, InvalidQuantity):
        return None
