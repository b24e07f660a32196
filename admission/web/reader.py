"""Answers from Postgres, so that any replica can give them."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncConnection

from admission.web import bodies
from admission.web.reading import UnknownName
from queues.quota import ROOT
from queues.resources import Resources, show, total
from queues.sql import views
from queues.sql.database import Database
from queues.workload import Admission, AdmissionId, QueueName, Seat

#: How many of those before a workload are told.
AHEAD: Final = 10
#: Numbers of a reason that are amounts of its resource.
_AMOUNTS: Final = frozenset({"limit", "used", "kept", "asked", "over"})
_BROKEN: Final = "its ancestors form a cycle, or one of them does not exist"


class SqlReader:
    """The Reader of a real Muster."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def queues(self) -> bodies.QueueList:
        """All queues, parents first."""
        async with self._database.snapshot() as tx:
            lines = await views.queue_overview(tx)
        return bodies.QueueList(now=_moment(self._clock()), items=tree(lines))

    async def pending(self, *, queue: str | None, namespace: str | None, limit: int) -> bodies.PendingList:
        """Who waits. Raises UnknownName for a queue that does not exist."""
        async with self._database.snapshot() as tx:
            if queue is None:
                waiting = in_line(await views.pending(tx))
            else:
                names = _subtree(await views.queue_overview(tx), queue)
                waiting = in_line([line for name in names for line in await views.pending(tx, name)])
        here = [body for body in waiting if namespace is None or body.namespace == namespace]
        return bodies.PendingList(
            now=_moment(self._clock()),
            total=len(here),
            total_everywhere=len(waiting),
            items=tuple(here[:limit]),
        )

    async def explain(self, *, namespace: str, name: str, kind: str | None) -> tuple[bodies.Explanation, ...]:
        """The whole story of the workloads of that name. Raises UnknownName, with names that look alike."""
        async with self._database.snapshot() as tx:
            found = await views.explain(tx, namespace, name, kind)
            if not found:
                raise await self._unknown(tx, namespace, name, kind)
            queues = tree(await views.queue_overview(tx))
            lines = {
                queue: in_line(await views.pending(tx, queue))
                for queue in {one.workload.queue for one in found if one.position is not None}
            }
        now = _moment(self._clock())
        stories = [explanation(one, queues, lines.get(one.workload.queue, ()), now) for one in found]
        return tuple(sorted(stories, key=lambda story: story.state == "finished"))

    async def _unknown(self, tx: AsyncConnection, namespace: str, name: str, kind: str | None) -> UnknownName:
        waiting = await views.pending(tx)
        elsewhere = [f"{line.name} in namespace {line.namespace}" for line in waiting if line.name == name]
        here = [line.name for line in waiting if line.namespace == namespace]
        alike = elsewhere or get_close_matches(name, sorted(set(here)), n=3)
        return UnknownName(
            what=kind or "workload", name=name, place=f" in namespace {namespace}", near=tuple(alike[:3])
        )


def tree(lines: Iterable[views.QueueLine]) -> tuple[bodies.Queue, ...]:
    """Queues as bodies, parents before children and siblings by name; counts are those of the subtree."""
    by_name = {line.name: line for line in lines}
    children: dict[QueueName | None, list[QueueName]] = defaultdict(list)
    for name in sorted(by_name):
        parent = by_name[name].parent
        children[parent if parent in by_name else None].append(name)
    order: list[QueueName] = []
    paused: dict[QueueName, QueueName] = {}
    _walk(None, children, order)
    order += sorted(by_name.keys() - set(order))  # members of a cycle hang below nothing
    for name in order:
        line = by_name[name]
        if line.paused:
            paused[name] = name
        elif line.parent in paused:
            paused[name] = paused[line.parent]
    counts = {name: (by_name[name].pending, by_name[name].admitted) for name in order}
    for name in reversed(order):
        parent = by_name[name].parent
        if parent in counts and not by_name[name].broken:
            counts[parent] = tuple(map(sum, zip(counts[parent], counts[name], strict=True)))  # type: ignore[assignment]
    return tuple(_queue(by_name[name], paused.get(name), *counts[name]) for name in order)


def _walk(
    top: QueueName | None, children: Mapping[QueueName | None, list[QueueName]], order: list[QueueName]
) -> None:
    stack = list(reversed(children[top]))
    while stack:
        name = stack.pop()
        order.append(name)
        stack.extend(reversed(children.get(name, [])))


def _queue(line: views.QueueLine, paused_at: QueueName | None, pending: int, admitted: int) -> bodies.Queue:
    state, message = "open", ""
    if line.broken:
        state, message = "broken", _BROKEN
    elif line.closed:
        state, message = "closed", "takes and admits nothing new"
    elif paused_at is not None:
        state, message = "paused", "" if paused_at == line.name else f"by way of {paused_at}"
    accounts = tuple(
        _account(account) for account in sorted(line.accounts, key=lambda a: (a.flavor, a.resource))
    )
    shares = [account.share for account in accounts if account.share is not None]
    return bodies.Queue(
        name=line.name,
        parent=line.parent,
        state=state,
        message=message,
        changed_by=line.changed_by,
        share=max(shares, default=None),
        pending=pending,
        admitted=admitted,
        accounts=accounts,
    )


def _account(line: views.AccountLine) -> bodies.Account:
    def told(units: int | None) -> str | None:
        return None if units is None else show(line.resource, units)

    return bodies.Account(
        flavor=line.flavor,
        resource=line.resource,
        used=show(line.resource, line.used),
        counted=show(line.resource, line.counted),
        guarantee=show(line.resource, line.guarantee),
        deserved=told(line.deserved),
        capability=told(line.capability),
        share=round(line.used / line.deserved, 4) if line.deserved else None,
    )


def _subtree(lines: Iterable[views.QueueLine], top: str) -> list[QueueName]:
    children: dict[str, list[QueueName]] = defaultdict(list)
    names = {line.name for line in lines}
    for line in lines:
        children[line.parent or ""].append(line.name)
    if top not in names and top != ROOT:
        near = get_close_matches(top, sorted(names), n=3)
        raise UnknownName(what="queue", name=top, near=tuple(near))
    found = [QueueName(top)]
    for name in found:
        found.extend(child for child in children[name] if child not in found)
    return found


def in_line(lines: Iterable[views.PendingLine]) -> tuple[bodies.Waiting, ...]:
    """By queue, then in the order of the answer, which is that of arrival."""
    by_queue: dict[QueueName, list[views.PendingLine]] = defaultdict(list)
    for line in lines:
        by_queue[line.queue].append(line)
    return tuple(
        _waiting(line, place)
        for queue in sorted(by_queue)
        for place, line in enumerate(by_queue[queue], start=1)
    )


def _waiting(line: views.PendingLine, position: int | None) -> bodies.Waiting:
    return bodies.Waiting(
        kind=str(line.key.kind),
        namespace=line.namespace,
        name=line.name,
        uid=line.key.uid,
        queue=line.queue,
        position=position,
        priority=line.priority,
        created=_moment(line.created) if line.created else None,
        pods=line.pods,
        minimum=line.minimum,
        asks=quantities(line.asks),
        reason=_reason(line.reason),
    )


def _reason(stored: views.StoredReason | None) -> bodies.Reason | None:
    if stored is None:
        return None
    return bodies.Reason(
        code=stored.code,
        message=stored.message,
        facts=facts_for_people(stored.facts),
        since=_moment(stored.since) if stored.since else None,
    )


def facts_for_people(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a reason with amounts as Kubernetes writes them."""
    resource = facts.get("resource")
    told: dict[str, Any] = {}
    for name, value in facts.items():
        if name in _AMOUNTS and resource and isinstance(value, int):
            told[name] = show(resource, value)
        elif name == "takes" and isinstance(value, Mapping):
            told[name] = quantities(value)
        else:
            told[name] = value
    return told


def explanation(
    one: views.Explanation, queues: tuple[bodies.Queue, ...], line: tuple[bodies.Waiting, ...], now: str
) -> bodies.Explanation:
    """One story, with the queues on its way to root and those before it."""
    it = _waiting(one.workload, one.position)
    place = next((index for index, other in enumerate(line) if other.uid == it.uid), 0)
    return bodies.Explanation(
        now=now,
        kind=it.kind,
        namespace=it.namespace,
        name=it.name,
        uid=it.uid,
        queue=it.queue,
        state=one.state,
        priority=it.priority,
        created=it.created,
        pods=it.pods,
        minimum=it.minimum,
        asks=it.asks,
        position=one.position,
        queue_length=len(line) if one.position is not None else None,
        position_by=one.position_by if one.position is not None else "",
        reason=it.reason if one.state == "pending" else None,
        not_before=_moment(one.not_before) if one.not_before else None,
        rollbacks=one.rollbacks,
        ahead=line[max(0, place - AHEAD) : place],
        path=_path(queues, it.queue),
        admissions=tuple(_admission(held, one.evictions) for held in reversed(one.admissions)),
        history=tuple(_event(decision) for decision in one.history),
    )


def _path(queues: tuple[bodies.Queue, ...], start: str) -> tuple[bodies.Queue, ...]:
    by_name = {queue.name: queue for queue in queues}
    path: list[bodies.Queue] = []
    name: str | None = start
    while name in by_name and by_name[name] not in path:
        path.append(by_name[name])
        name = by_name[name].parent
    return tuple(path)


def _admission(held: Admission, evictions: Mapping[AdmissionId, views.Eviction]) -> bodies.Admission:
    eviction = evictions.get(held.id)
    return bodies.Admission(
        id=held.id,
        queue=held.queue,
        state=str(held.state),
        opened=_moment(held.opened_at),
        adopted=held.adopted is not None,
        eviction=None
        if eviction is None
        else bodies.Reason(code=eviction.code, message=eviction.message, since=_moment(eviction.at)),
        seats=_seats(held.holding()),
        ended=len(held.ended),
    )


def _seats(seats: tuple[Seat, ...]) -> tuple[bodies.Seats, ...]:
    groups: dict[tuple[str, str, str], list[Seat]] = defaultdict(list)
    for seat in seats:
        groups[(seat.pod_set, seat.node, seat.flavor)].append(seat)
    return tuple(
        bodies.Seats(
            pod_set=pod_set,
            node=node,
            flavor=flavor,
            ordinals=ranges(seat.ordinal for seat in group),
            count=len(group),
            takes=quantities(total(seat.takes for seat in group)),
        )
        for (pod_set, node, flavor), group in sorted(
            groups.items(), key=lambda item: _first(item[0], item[1])
        )
    )


def _first(key: tuple[str, str, str], group: list[Seat]) -> tuple[str, int, str]:
    return key[0], min(seat.ordinal for seat in group), key[1]


def _event(line: views.DecisionLine) -> bodies.Event:
    return bodies.Event(
        at=_moment(line.at),
        what=line.kind,
        code=line.code,
        message=line.message,
        admission=line.admission,
        beneficiary=str(line.beneficiary) if line.beneficiary else None,
        numbers=facts_for_people(line.numbers),
    )


def ranges(numbers: Iterable[int]) -> str:
    """``0-3,7`` for 0, 1, 2, 3 and 7."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as Kubernetes writes them, by resource."""
    return {name: show(name, units) for name, units in sorted(Resources(amounts).items())}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")
