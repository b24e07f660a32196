"""Who may reserve nodes for which queue: the administrators of a tenant for its queues, up to what these deserve. Pure.

A user who is named in ``access.admins`` of a queue reserves for that queue and for all below it. Platform
administrators reserve for every queue: this is not about them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from queues.api.types.node_closures import Reservation
from queues.api.types.queue import QueueDocument
from queues.api.validation.tenant_rules import Requester, TenantTree
from queues.closures.node_closures import NodeClosure
from queues.errors import InvalidDocument, InvalidQuantity
from queues.resources import show

Document = Mapping[str, Any]

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


def reservation_refusals(
    change: ReservationChange,
    by: Requester,
    queues: Mapping[str, Document],
    others: Mapping[str, Document],
) -> list[str]:
    """Why a user who is no platform administrator may not write a Reservation; empty: they may.

    ``queues``, ``others``: all Queues and Reservations as they are stored, by name.
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
    if change.after is None:
        return []
    if change.before is not None and change.before.get("spec") == change.after.get("spec"):
        return []  # of labels and other metadata
    closure = _closure(change.after)
    if closure is None or closure.queue is None:
        return [
            f"reservation {change.name}: found a spec that cannot be read, expected queue, resources, from and for"
        ]
    path = tree.path(closure.queue)
    return list(_beyond_quota(closure, path, tree, others))


def _beyond_quota(
    closure: NodeClosure, path: list[str], tree: TenantTree, others: Mapping[str, Document]
) -> Iterator[str]:
    """Where reservations at the same time are together more than a queue of the tenant deserves."""
    deserved = {name: _deserved(tree.queues[name]) for name in path}
    at_that_time = [
        other
        for name, document in others.items()
        if name != closure.name and (other := _closure(document)) is not None and closure.overlaps(other)
    ]
    for resource in sorted(closure.amounts):
        stated = [name for name in path if resource in deserved[name]]
        if not stated:
            yield (
                f"reservation {closure.name}: found {resource}, of which neither queue {closure.queue} nor one above "
                "it states what it deserves. Ask a platform administrator to reserve it"
            )
        for name in stated:
            limit, asked = deserved[name][resource], Counter({resource: closure.amounts[resource]})
            for other in at_that_time:
                if other.queue is not None and name in tree.path(other.queue):
                    asked[resource] += other.amounts.get(resource)
            if asked[resource] > limit:
                yield (
                    f"reservation {closure.name}: found {show(resource, asked[resource])} {resource} reserved for "
                    f"queue {name} at the same time, expected at most {show(resource, limit)}, what it deserves"
                )


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
