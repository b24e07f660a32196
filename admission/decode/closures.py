"""Reservations and NodeDrains → facts. Pure; what cannot be used says why."""

import msgspec

from admission.decode.admin_documents import unread
from admission.decode.fields import seconds
from admission.facts.cluster import ClosureFact
from admission.wire import Bare
from queues.api.bounds import within_bounds
from queues.api.reading.user_values import LONGEST_MESSAGE, shortened
from queues.api.types.node_closures import NodeDrain, Reservation
from queues.errors import InvalidDocument, InvalidQuantity
from queues.node_closures import ClosureKind


def closure_fact(raw: bytes, kind: ClosureKind) -> ClosureFact:
    """A Reservation or NodeDrain."""
    meta = msgspec.json.decode(raw, type=Bare).metadata
    model = Reservation if kind is ClosureKind.RESERVATION else NodeDrain
    try:
        document, beyond = within_bounds(msgspec.json.decode(raw), model)
        read = model.read(document)
        closure = read.to_closure()
    except (InvalidDocument, InvalidQuantity) as error:
        why = shortened(str(error), LONGEST_MESSAGE)
        return ClosureFact(kind=kind, name=meta.name, uid=meta.uid, problem=why)
    return ClosureFact(
        kind=kind,
        name=meta.name,
        uid=meta.uid,
        closure=closure,
        shown=read.status.phase,
        unread=unread(beyond),
        created=seconds(meta.creation_timestamp),
    )
