"""Lines of workloads and users, as the read API shows them."""

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from admission.read_api import bodies
from admission.web.quantities import facts_with_quantities, quantities
from admission.web.tree import names_alike
from queues.admissions import LastEviction
from queues.reason_codes import NEVER, ReasonCode
from queues.resources import amount, is_device, show
from queues.sql.read import views
from queues.sql.read.listed import ListPlace
from queues.sql.read.rows import ListedLine, UserLine
from queues.text_format import rfc3339

Item = TypeVar("Item", bound=bodies.WaitingBody)
#: Nodes of one workload, or of one admission, that are named.
MOST_NODES: Final = 20
#: Past use of users is that of a week.
PAST_SECONDS: Final = 7 * 86400
#: Amounts that devices are counted in: thousandths.
_DEVICE_UNITS: Final = 1000


def waiting_body(line: views.PendingLine, position: int | None) -> bodies.WaitingBody:
    """A waiting workload. ``position``: None if it is not in line; what never fits is not in line either."""
    if line.reason is not None and line.reason.code in NEVER:
        position = None
    return bodies.WaitingBody(
        kind=str(line.key.kind),
        namespace=line.namespace,
        name=line.name,
        uid=line.key.uid,
        queue=line.queue,
        position=position,
        priority=line.priority,
        created=rfc3339(line.created) if line.created else None,
        pods=line.pods,
        minimum=line.minimum,
        asks=quantities(line.asks),
        owner=_owner(line.owner),
        ignored_values=tuple(line.ignored_values.splitlines()),
        reason=reason_body(line.reason, line.last_eviction),
    )


def _owner(said: str) -> bodies.OwnerBody | None:
    kind, _, name = said.partition("/")
    return bodies.OwnerBody(kind=kind, name=name) if name else None


def reason_body(stored: views.StoredReason | None, last: LastEviction | None) -> bodies.ReasonBody | None:
    """Why a workload waits, with its last eviction. None if it was not considered yet."""
    if stored is None:
        return None
    facts = facts_with_quantities(stored.facts)
    if last is not None:
        why = {"for": last.by} if last.by else {"refusal": last.cause}
        if last.takes:
            why["takes"] = last.takes
        facts = {**facts, "evicted": {"at": rfc3339(last.at), "code": last.code, **why}}
    return bodies.ReasonBody(
        code=stored.code,
        message=stored.message if last is None else last.appended_to(stored.message),
        facts=facts,
        since=rfc3339(stored.since) if stored.since else None,
    )


def with_meant_queue(item: Item, names: Iterable[str]) -> Item:
    """The item, with names that look alike in its reason if its queue does not exist. ``names``: of queues that the
    user may see."""
    reason = item.reason
    if reason is None or reason.code != ReasonCode.UNKNOWN_QUEUE:
        return item
    near = names_alike(item.queue, names)
    message = f"{reason.message.rstrip('.')}. Did you mean {' or '.join(near)}?" if near else reason.message
    return msgspec.structs.replace(item, reason=msgspec.structs.replace(reason, message=message))


def listed_body(line: ListedLine) -> bodies.ListedBody:
    """A workload of a list."""
    workload, seats = line.workload, line.seats
    body = waiting_body(workload, None)
    nodes = sorted(seats.nodes) if seats is not None else []
    is_over = line.state == "finished"
    return bodies.ListedBody(
        kind=body.kind,
        namespace=body.namespace,
        name=body.name,
        uid=body.uid,
        queue=body.queue,
        user=line.user,
        state=line.state,
        result=str(line.result),
        gone=line.is_gone,
        priority=body.priority,
        created=body.created,
        admitted=None if seats is None else rfc3339(seats.opened),
        ended=rfc3339(line.ended) if line.ended else None,
        # What has ended wants no pods any more.
        pods=seats.seats if is_over and seats is not None else body.pods,
        minimum=body.minimum,
        asks=body.asks,
        held={} if seats is None else quantities(seats.takes),
        nodes=tuple(nodes[:MOST_NODES]),
        node_count=len(nodes),
        owner=body.owner,
        reason=None if is_over else body.reason,
    )


def continued(place: ListPlace) -> str:
    """A place as text for ``continue``."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def place_of(text: str) -> ListPlace | None:
    """The place that ``continued`` made a text of. None if it did not make this text."""
    try:
        found = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        *names, gone = found
    except (binascii.Error, ValueError, TypeError, RecursionError):
        return None
    is_place = (
        len(names) == 4
        and all(isinstance(each, str) and "\0" not in each for each in names)
        and type(gone) is int
        and 0 <= gone < 2**62
    )
    return ListPlace._make((*names, gone)) if is_place else None


def hours(unit_seconds: Mapping[str, int]) -> dict[str, float]:
    """Device-hours by resource; the devices of a node one by one are left out."""
    return {
        resource: round(units / _DEVICE_UNITS / 3600, 2)
        for resource, units in sorted(unit_seconds.items())
        if not is_device(resource) and units > 0
    }


def share_of(queue: bodies.QueueBody) -> str:
    """What shares of users in a queue are of: what it deserves, else what it may use; "": it has no limit."""
    for name in ("deserved", "capability"):
        if any(_limit(each, name) for each in queue.accounts):
            return name
    return ""


def _limit(account: bodies.AccountBody, name: str) -> int:
    text = getattr(account, name)
    return 0 if account.flavor or text is None else amount(account.resource, text)


def user_bodies(
    lines: Sequence[UserLine],
    past: Mapping[str, Mapping[str, int]] | None,
    queue: bodies.QueueBody | None,
    *,
    you: str,
    whole: bool,
) -> tuple[bodies.UserBody, ...]:
    """The lines, with the user who uses most first. ``queue``: what shares are of. None if the asker may not see it.

    ``past``: unit-seconds by user and resource, None if not known. ``you``: the user who asks. ``whole``: the lines
    have all work, so that they can be ranked.
    """
    limits: dict[str, int] = {}
    if queue is not None and (of := share_of(queue)):
        limits = {each.resource: units for each in queue.accounts if (units := _limit(each, of))}
    by_name = {line.user: line for line in lines}
    for name in (you, *(past or {})):
        by_name.setdefault(name, UserLine(user=name, used={}, pending=0, admitted=0))
    shares = {
        name: max((line.used.get(each, 0) / limit for each, limit in limits.items()), default=None)
        for name, line in by_name.items()
    }

    def order(name: str) -> tuple[float, int, int, str]:
        line = by_name[name]
        devices = sum(units for each, units in line.used.items() if "/" in each)
        return (-(shares[name] or 0.0), -devices, -line.admitted, name)

    names = sorted(by_name, key=order)
    return tuple(
        bodies.UserBody(
            user=name,
            you=name == you,
            used={each: show(each, units) for each, units in sorted(by_name[name].used.items())},
            pending=by_name[name].pending,
            admitted=by_name[name].admitted,
            share=None if (share := shares[name]) is None else round(share, 4),
            rank=rank if whole else None,
            past_hours=None if past is None or name not in past else hours(past[name]),
        )
        for rank, name in enumerate(names, start=1)
    )
