"""Who may reserve nodes for which queue: the administrators of a tenant for its queues, up to what these deserve. Pure.

A user who is named in ``access.admins`` of a queue reserves for that queue and for all below it. Platform
administrators reserve for every queue: this is not about them. A queue deserves here the least that it deserves at any
second from the lead time to the end, with the loans that last then.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from queues.api.resource_names import is_extended
from queues.api.types.node_closures import Reservation
from queues.api.types.queue import queues_of
from queues.api.validation.closures.whole_nodes import NodeShape, kept_devices
from queues.api.validation.loan_rules import lends_now
from queues.api.validation.tenant_rules import ObjectWrite, Requester, TenantTree
from queues.errors import InvalidDocument, InvalidQuantity
from queues.json_values import text_at
from queues.node_closures import NodeClosure
from queues.quota.loans import DeservedOverTime
from queues.resources import show
from queues.text_format import listed
from queues.workload import QueueName

Document = Mapping[str, Any]
#: Reservations for the queues of one tenant, ended ones included. Only platform administrators make more.
MOST_OF_TENANT: Final = 20

_EVERYBODY_ELSE: Final = "expected one of Muster only"


def reservation_refusals(
    change: ObjectWrite,
    by: Requester,
    queues: Mapping[str, Document],
    others: Mapping[str, Document],
    shapes: Collection[NodeShape] | None,
    now: float,
) -> list[str]:
    """Why a user who is no platform administrator may not write a Reservation; empty: they may.

    ``queues``, ``others``: all Queues and Reservations as they are stored, by name. ``shapes``: the devices of nodes,
    each combination once (``node_shapes``); None if not known yet. ``now``: seconds since the epoch.
    """
    if change.is_status:
        return [f"reservation {change.name}: found a status written by {by.name}, {_EVERYBODY_ELSE}"]
    tree = TenantTree(queues)
    for document in (change.before, change.after):
        queue = text_at(document, "spec", "queue")
        if document is not None and tree.administered(queue, by) is None:
            return [
                f"reservation {change.name}: {by.name} may not reserve for queue {queue or '(none)'}, being neither a "
                "platform administrator (role muster-queue-admin) nor named in access.admins of it or of a queue above"
            ]
    if change.after is None or (
        change.before is not None and change.before.get("spec") == change.after.get("spec")
    ):
        return []  # it is deleted, or has other labels and the like
    return list(_content_refusals(change.name, change.after, tree, others, shapes, now))


def _content_refusals(
    name: str,
    after: Document,
    tree: TenantTree,
    others: Mapping[str, Document],
    shapes: Collection[NodeShape] | None,
    now: float,
) -> Iterator[str]:
    closure = _closure(after)
    if closure is None or closure.queue is None:
        yield f"reservation {name}: found a spec that cannot be read, expected queue, resources, from and for"
    elif shapes is None:
        yield f"reservation {name}: the nodes of the cluster are not known yet. Try again in a moment"
    elif plain := [each for each in closure.amounts if not is_extended(each)]:
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
        yield from _beyond_quota(closure, tree, others, shapes, now)


def _of_same_tenant(closure: NodeClosure, tree: TenantTree, others: Mapping[str, Document]) -> int:
    """Other reservations for queues of the same tenant. Ended ones count, or there could be any number of objects.

    0 if this one is stored: it may be changed however many there are.
    """
    tenant = tree.path(closure.queue or "")[-1:]
    same = [
        name
        for name, document in others.items()
        if tree.path(text_at(document, "spec", "queue"))[-1:] == tenant
    ]
    return 0 if closure.name in same else len(same)


def _beyond_quota(
    closure: NodeClosure,
    tree: TenantTree,
    others: Mapping[str, Document],
    shapes: Collection[NodeShape],
    now: float,
) -> Iterator[str]:
    """Where reservations at the same time are together more than a queue of the tenant deserves."""

    def counted(reservation: NodeClosure) -> CountedReservation:
        path = [QueueName(name) for name in tree.path(reservation.queue or "")]
        return CountedReservation(reservation, path, kept_devices(reservation.amounts, shapes))

    this = counted(closure)
    if not this.kept:
        yield (
            f"reservation {closure.name}: found {', '.join(sorted(closure.amounts))}, expected devices of which one "
            "node has all"
        )
        return
    stored = (
        counted(other)
        for name, document in others.items()
        if name != closure.name and (other := _closure(document)) is not None
    )
    # All queues are read only if one of them lends something.
    names = tree.queues if lends_now(tree.queues, now) else this.queues
    deserved = DeservedOverTime(queues_of({name: tree.queues[name] for name in names}))
    for excess in excesses(this, stored, deserved, int(now)):
        yield f"reservation {closure.name}: {excess}"


class CountedReservation(NamedTuple):
    """A reservation, and what counts of it against what its queues deserve."""

    closure: NodeClosure
    #: Its queue and those above it.
    queues: Sequence[QueueName]
    #: What its whole nodes have.
    kept: Mapping[str, int]


def excesses(
    this: CountedReservation, earlier: Iterable[CountedReservation], deserved: DeservedOverTime, now: int
) -> Iterator[str]:
    """Where a reservation is more than its queue, or one above it, deserves, together with earlier ones of its time."""
    closure = this.closure
    beside = [each for each in earlier if closure.closes_beside(each.closure)]
    start = max(now, closure.lead_from)
    limits = {name: deserved.least(name, start, closure.end) for name in this.queues}
    unstated = [
        each
        for each in sorted(this.kept)
        if is_extended(each) and not any(each in limits[name] for name in this.queues)
    ]
    if unstated and this.queues:
        yield (
            f"found whole nodes with {', '.join(unstated)}, of which neither queue {closure.queue} nor one above it "
            "states what it deserves. Ask a platform administrator to reserve them"
        )
        return
    for name in this.queues:
        same = [each for each in beside if name in each.queues]
        for resource, units in sorted(this.kept.items()):
            limit = limits[name].get(resource)
            asked = units + sum(each.kept.get(resource, 0) for each in same)
            if limit is not None and asked > limit:
                others = f" ({listed([each.closure.name for each in same])} came first)" if same else ""
                yield (
                    f"found {show(resource, asked)} {resource} on whole nodes reserved for queue {name} at the same "
                    f"time{others}, expected at most {show(resource, limit)}, "
                    f"{_what_limits(resource, limit, deserved, name)}. Delete one of them, ask for less, or ask a "
                    "platform administrator"
                )


def _what_limits(resource: str, limit: int, deserved: DeservedOverTime, queue: QueueName) -> str:
    """What of a queue is this limit of its reservations, in words."""
    if deserved.queues[queue].limits.deserved.get(resource) == limit:
        return "what it deserves"
    return "the least that it deserves in that time with its loans"


def _closure(document: Document) -> NodeClosure | None:
    try:
        return Reservation.read(document).to_closure()
    except (InvalidDocument, InvalidQuantity):
        return None
