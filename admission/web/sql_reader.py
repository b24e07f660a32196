"""Answers of the read API from Postgres: every replica can give them."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Final

import msgspec

from admission.web import bodies
from admission.web.past_use import QueuePast, past_by_queue, states_half_life
from admission.web.quantities import facts_with_quantities, quantities, ranges
from admission.web.queue_positions import approximate_rank, counted_by, policies
from admission.web.reader import UnknownName
from admission.web.tree import path_to_root, subtree, tree
from queues.admissions import Admission, LastPreemption, Seat
from queues.quota.decayed_usage import half_lives
from queues.quota.tree import QueueTree
from queues.resources import total
from queues.sql.database import Database, Transaction
from queues.sql.read import views
from queues.sql.read.past_use import UsageReader
from queues.text_format import rfc3339
from queues.workload import AdmissionId, QueueName

#: Workloads before one in its queue that an answer names.
AHEAD: Final = 10
#: For reading past use; then an answer goes without it, and the next one reads on from there.
_PAST_SECONDS: Final = 4.0


class SqlReader:
    """Answers the questions of users, on any replica. Every method may raise DatabaseUnavailable."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._usage_reader = UsageReader()
        self._past_lock = asyncio.Lock()

    async def queues(self) -> bodies.QueueList:
        """All queues, parents first."""
        async with self._database.snapshot() as tx:
            lines = await views.queue_overview(tx)
        past: dict[QueueName, QueuePast] = {}
        if states_half_life(lines):
            lines, past = await self._with_past()
        return bodies.QueueList(now=rfc3339(self._clock()), items=tree(lines, past))

    async def _with_past(self) -> tuple[tuple[views.QueueLine, ...], dict[QueueName, QueuePast]]:
        """The queues and their past use, as of one moment."""
        late = time.monotonic() + _PAST_SECONDS
        async with self._past_lock, self._database.snapshot() as tx:
            now, lines = int(self._clock()), await views.queue_overview(tx)
            queue_tree = policies(lines)
            fading = half_lives(queue_tree.queues)
            past = await self._usage_reader.past_use(tx, fading, now, enough=lambda: time.monotonic() > late)
        return lines, past_by_queue(queue_tree, lines, past, now)

    async def pending(self, *, queue: str | None, namespace: str | None, limit: int) -> bodies.PendingList:
        """Pending workloads. Raises UnknownName for a queue that does not exist."""
        async with self._database.snapshot() as tx:
            queues = await views.queue_overview(tx)
            names = [None] if queue is None else subtree(queues, queue)
            lines = [line for name in names for line in await views.pending(tx, name)]
        waiting = with_positions(lines, policies(queues))
        here = [body for body in waiting if namespace is None or body.namespace == namespace]
        return bodies.PendingList(
            now=rfc3339(self._clock()),
            total=len(here),
            total_everywhere=len(waiting),
            items=tuple(here[:limit]),
        )

    async def explain(
        self, *, namespace: str, name: str, kind: str | None
    ) -> tuple[bodies.ExplanationBody, ...]:
        """Everything about the workloads of that name. Raises UnknownName, with names that look alike."""
        async with self._database.snapshot() as tx:
            found = await views.explain(tx, namespace, name, kind)
            if not found:
                raise await self._unknown(tx, namespace, name, kind)
            overview = await views.queue_overview(tx)
            queue_tree = policies(overview)
            lines = {
                queue: with_positions(await views.pending(tx, queue), queue_tree)
                for queue in {one.workload.queue for one in found if one.state == "pending"}
            }
        past: dict[QueueName, QueuePast] = {}
        if states_half_life(overview):
            overview, past = await self._with_past()
        now, queues = rfc3339(self._clock()), tree(overview, past)
        found_bodies = [
            explanation(
                one,
                queues,
                lines.get(one.workload.queue, ()),
                now,
                counted_by(queue_tree, one.workload.queue),
            )
            for one in found
        ]
        return tuple(sorted(found_bodies, key=lambda each: each.state == "finished"))

    async def _unknown(self, tx: Transaction, namespace: str, name: str, kind: str | None) -> UnknownName:
        waiting = await views.pending(tx)
        elsewhere = [f"{line.name} in namespace {line.namespace}" for line in waiting if line.name == name]
        here = [line.name for line in waiting if line.namespace == namespace]
        alike = elsewhere or get_close_matches(name, sorted(set(here)), n=3)
        return UnknownName(
            what=kind or "workload", name=name, place=f" in namespace {namespace}", near=tuple(alike[:3])
        )


def with_positions(
    lines: Iterable[views.PendingLine], queue_tree: QueueTree
) -> tuple[bodies.WaitingBody, ...]:
    """Pending workloads by queue, there in the order in which the engine tries them, with their positions."""
    by_queue: dict[QueueName, list[views.PendingLine]] = defaultdict(list)
    for line in lines:
        by_queue[line.queue].append(line)
    return tuple(
        _waiting(line, position)
        for queue in sorted(by_queue)
        for position, line in enumerate(sorted(by_queue[queue], key=partial(approximate_rank, queue_tree)), 1)
    )


def _waiting(line: views.PendingLine, position: int | None) -> bodies.WaitingBody:
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
        reason=_reason(line.reason, line.displaced),
    )


def _reason(stored: views.StoredReason | None, displaced: LastPreemption | None) -> bodies.ReasonBody | None:
    if stored is None:
        return None
    facts = facts_with_quantities(stored.facts)
    if displaced is not None:
        evicted = {"at": rfc3339(displaced.at), "code": displaced.code, "for": displaced.by}
        facts = {**facts, "evicted": evicted}
    return bodies.ReasonBody(
        code=stored.code,
        message=stored.message if displaced is None else displaced.appended_to(stored.message),
        facts=facts,
        since=rfc3339(stored.since) if stored.since else None,
    )


def explanation(
    rows: views.ExplanationRows,
    queues: tuple[bodies.QueueBody, ...],
    line: tuple[bodies.WaitingBody, ...],
    now: str,
    counted: str,
) -> bodies.ExplanationBody:
    """One workload, with its queues up to root. ``line``: the pending workloads of its queue, in order."""
    waits = rows.state == "pending"
    uid = rows.workload.key.uid
    index = next((each for each, other in enumerate(line) if other.uid == uid), None) if waits else None
    body = _waiting(rows.workload, None if index is None else index + 1)
    if rows.state not in ("pending", "admitted"):
        body = msgspec.structs.replace(body, reason=None)
    return bodies.ExplanationBody(
        **msgspec.structs.asdict(body),
        now=now,
        state=rows.state,
        queue_length=len(line) if index is not None else None,
        position_by=counted if index is not None else "",
        not_before=rfc3339(rows.not_before) if rows.not_before else None,
        rollbacks=rows.rollbacks,
        ahead=() if index is None else line[max(0, index - AHEAD) : index],
        path=path_to_root(queues, body.queue),
        admissions=tuple(_admission(held, rows.evictions) for held in reversed(rows.admissions)),
        history=tuple(_event(decision) for decision in rows.history),
    )


def _admission(held: Admission, evictions: Mapping[AdmissionId, views.Eviction]) -> bodies.AdmissionBody:
    eviction = evictions.get(held.id)
    return bodies.AdmissionBody(
        id=held.id,
        queue=held.queue,
        state=str(held.state),
        opened=rfc3339(held.opened_at),
        adopted=held.adopted is not None,
        eviction=None
        if eviction is None
        else bodies.ReasonBody(code=eviction.code, message=eviction.message, since=rfc3339(eviction.at)),
        seats=_seats(held.holding()),
        ended=len(held.ended),
    )


def _seats(seats: tuple[Seat, ...]) -> tuple[bodies.SeatsBody, ...]:
    groups: dict[tuple[str, str, str], list[Seat]] = defaultdict(list)
    for seat in seats:
        groups[(seat.pod_set, seat.node, seat.flavor)].append(seat)
    return tuple(
        bodies.SeatsBody(
            pod_set=pod_set,
            node=node,
            flavor=flavor,
            ordinals=ranges(seat.ordinal for seat in group),
            count=len(group),
            takes=quantities(total(seat.takes for seat in group)),
        )
        for (pod_set, node, flavor), group in sorted(
            groups.items(), key=lambda item: (item[0][0], min(seat.ordinal for seat in item[1]), item[0][1])
        )
    )


def _event(line: views.DecisionLine) -> bodies.EventBody:
    return bodies.EventBody(
        at=rfc3339(line.at),
        what=line.kind,
        code=line.code,
        message=line.message,
        admission=line.admission,
        beneficiary=str(line.beneficiary) if line.beneficiary else None,
        numbers=facts_with_quantities(line.numbers),
    )
