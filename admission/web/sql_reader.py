"""Answers of the read API from Postgres: every replica can give them."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Final

import msgspec

from admission.web import bodies
from admission.web.past_use import QueuePast, past_by_queue, states_half_life
from admission.web.quantities import facts_with_quantities, quantities, ranges
from admission.web.queue_positions import counted_by, order_terms, policies, priority_limit
from admission.web.reader import EVERYTHING, PeriodTooLarge, Sight, UnknownName
from admission.web.tree import path_to_root, subtree, tree
from admission.web.usage.quotas import counted_queues, owned_amounts, quota_bodies
from admission.web.usage.report import UsageRequest, usage_list, usage_viewer
from queues.admissions import Admission, LastEviction, Seat
from queues.errors import DatabaseTooSlow
from queues.quota.decayed_usage import half_lives
from queues.quota.tree import QueueTree
from queues.resources import total
from queues.sql.database import Database, Transaction
from queues.sql.heartbeat import Heartbeat, last_heartbeat
from queues.sql.read import views
from queues.sql.read.past_use import UsageReader
from queues.sql.read.pending import names_like, pending, place_in_queue, waiting_namespaces
from queues.sql.read.rows import OrderTerms, PlaceInQueue
from queues.sql.read.usage import (
    UsageQuestion,
    UsageViewer,
    queue_parents,
    usage,
    usage_history,
    used_namespaces,
)
from queues.sql.read.usage_quota import queue_history, quota_use
from queues.text_format import rfc3339
from queues.workload import AdmissionId, QueueName

#: Workloads before one in its queue that an answer names.
AHEAD: Final = 10
#: For reading past use; then an answer goes without it, and the next one reads on from there.
_PAST_SECONDS: Final = 4.0
#: Names that an unknown one is compared with: comparing takes time.
_COMPARED: Final = 50
#: Seconds without a heartbeat after which nobody seems to lead.
_SILENCE: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Overview:
    """The queues at one moment, with what is computed from them."""

    lines: tuple[views.QueueLine, ...]
    tree: QueueTree
    order: Mapping[QueueName, OrderTerms]
    bodies: tuple[bodies.QueueBody, ...]


@dataclass(frozen=True, slots=True)
class Age:
    """How old an answer is, in the words of ``bodies.AgedBody``."""

    now: str
    as_of: str | None = None
    behind: str = "no replica has led yet"


class SqlReader:
    """Answers the questions of users, on any replica. Every method may raise DatabaseUnavailable.

    ``keep``: seconds for which the overview of the queues, which is the same for all users, is used again.
    """

    def __init__(
        self, database: Database, clock: Callable[[], float] = time.time, *, keep: float = 0.0
    ) -> None:
        self._database = database
        self._clock = clock
        self._keep = keep
        self._usage_reader = UsageReader()
        self._reading = asyncio.Lock()
        # Adding up a long period may take Postgres seconds: one at a time, so that other questions have connections.
        self._adding_up = asyncio.Lock()
        self._kept: _Overview | None = None
        self._kept_until = 0.0

    async def queues(self, sight: Sight = EVERYTHING) -> bodies.QueueList:
        """The queues that the user may see, parents first."""
        overview = await self._overview()
        async with self._database.snapshot() as tx:
            age = await self._age(tx)
        items = tuple(body for body in overview.bodies if sight.shows_queue(body.name))
        return bodies.QueueList(**asdict(age), items=items)

    async def pending(
        self,
        *,
        queue: str | None,
        namespace: str | None,
        limit: int,
        after: tuple[str, int] | None = None,
        sight: Sight = EVERYTHING,
    ) -> bodies.PendingList:
        """Pending workloads after a queue and position. Raises UnknownName for a queue that does not exist."""
        overview = await self._overview()
        names = None if queue is None else subtree(overview.lines, queue, sight)
        async with self._database.snapshot() as tx:
            page = await pending(
                tx,
                overview.order,
                queues=names,
                seen=sight.workloads,
                namespace=namespace,
                after=after,
                limit=limit,
            )
            age = await self._age(tx)
        items = tuple(_waiting(line, position) for line, position in page.lines)
        is_full = limit > 0 and len(items) == limit
        return bodies.PendingList(
            **asdict(age),
            total=page.total,
            total_everywhere=page.total_everywhere,
            items=items,
            continue_=f"{items[-1].position}.{items[-1].queue}" if is_full else "",
        )

    async def explain(
        self, *, namespace: str, name: str, kind: str | None, sight: Sight = EVERYTHING
    ) -> tuple[bodies.ExplanationBody, ...]:
        """Everything about the workloads of that name. Raises UnknownName, with names that look alike."""
        overview = await self._overview()
        async with self._database.snapshot() as tx:
            found = [
                one
                for one in await views.explain(tx, namespace, name, kind)
                if sight.shows(one.workload.key.kind, namespace)
            ]
            if not found:
                raise await self._unknown(tx, namespace, name, kind, sight)
            places = [await self._place(tx, overview, one, sight) for one in found]
            age = await self._age(tx)
        queues = tuple(body for body in overview.bodies if sight.shows_queue(body.name))
        found_bodies = [
            msgspec.structs.replace(
                explanation(one, queues, place, age, counted_by(overview.tree, one.workload.queue)),
                priority_limit=priority_limit(overview.tree, one.workload.queue, one.workload.priority),
            )
            for one, place in zip(found, places, strict=True)
        ]
        return tuple(sorted(found_bodies, key=lambda each: each.state == "finished"))

    async def usage(self, request: UsageRequest, *, user: str, sight: Sight = EVERYTHING) -> bodies.UsageList:
        """Use in a period. ``user``: whose own use is told wherever it was.

        Raises UnknownName for a queue that never existed; PeriodTooLarge; BadQuery: the period has not begun.
        """
        async with self._adding_up:
            try:
                async with self._database.snapshot() as tx:
                    history = await usage_history(tx)
                    question = request.question(int(self._clock()), history)
                    viewer = usage_viewer(await queue_parents(tx), request.queue, user, sight)
                    age = await self._age(tx)
                    page = await usage(tx, question, viewer)
            except DatabaseTooSlow as error:
                raise PeriodTooLarge from error
            quotas = await self._quotas(question, viewer) if request.quotas else None
        answer = usage_list(request, question, page, history, asdict(age))
        return msgspec.structs.replace(answer, quotas=quotas)

    async def _quotas(
        self, question: UsageQuestion, viewer: UsageViewer
    ) -> tuple[bodies.UsageQuotaBody, ...] | None:
        """Use beside what queues owned; None: it cannot be told, or not in time."""
        counts_as = counted_queues(question.by, viewer.queues)
        if question.resource is None or not counts_as:
            return None
        try:
            async with self._database.snapshot() as tx:
                versions = await queue_history(tx, sorted(set(counts_as.values())), question.ends)
                if versions is None:
                    return None
                found = await quota_use(
                    tx,
                    begins=question.begins,
                    ends=question.ends,
                    resource=question.resource,
                    counts_as=counts_as,
                    owned=owned_amounts(versions, question.resource, question.ends),
                )
        except DatabaseTooSlow:
            return None
        return quota_bodies(question.resource, found)

    async def used_namespaces(self, since: int, limit: int) -> tuple[str, ...]:
        """Namespaces of workloads that held something at a second (since the epoch) or after it."""
        try:
            async with self._adding_up, self._database.snapshot() as tx:
                return await used_namespaces(tx, since, limit)
        except DatabaseTooSlow as error:
            raise PeriodTooLarge from error

    async def waiting_namespaces(self, limit: int) -> tuple[str, ...]:
        """Namespaces in which workloads wait."""
        async with self._database.snapshot() as tx:
            return await waiting_namespaces(tx, limit)

    async def queue_names(self, limit: int) -> tuple[str, ...]:
        """Names of queues, parents first."""
        return tuple(body.name for body in (await self._overview()).bodies[:limit])

    async def leader(self) -> Heartbeat | None:
        """The last heartbeat of a leader; None: no replica has led yet."""
        async with self._database.snapshot() as tx:
            return await last_heartbeat(tx)

    async def _age(self, tx: Transaction) -> Age:
        now, last = self._clock(), await last_heartbeat(tx)
        if last is None:
            return Age(rfc3339(now))
        silent = f"{last.holder} led last, and has not told of the cluster since"
        behind = last.behind or (silent if last.age > _SILENCE else "")
        return Age(rfc3339(now), rfc3339(now - last.age), behind)

    @staticmethod
    async def _place(
        tx: Transaction, overview: _Overview, one: views.ExplanationRows, sight: Sight
    ) -> PlaceInQueue | None:
        if one.state != "pending":
            return None
        workload = one.workload
        return await place_in_queue(
            tx, overview.order, workload.queue, workload.key, seen=sight.workloads, ahead=AHEAD
        )

    async def _overview(self) -> _Overview:
        """One reading serves all users who ask meanwhile and shortly after."""
        async with self._reading:
            if self._kept is None or time.monotonic() >= self._kept_until:
                self._kept = await self._read_overview()
                self._kept_until = time.monotonic() + self._keep
            return self._kept

    async def _read_overview(self) -> _Overview:
        async with self._database.snapshot() as tx:
            lines = await views.queue_overview(tx)
            now, queue_tree = int(self._clock()), policies(lines)
            past: dict[QueueName, QueuePast] = {}
            if states_half_life(lines):
                late = time.monotonic() + _PAST_SECONDS
                fading = half_lives(queue_tree.queues)
                use = await self._usage_reader.past_use(
                    tx, fading, now, enough=lambda: time.monotonic() > late
                )
                past = past_by_queue(queue_tree, lines, use, now)
        return _Overview(lines, queue_tree, order_terms(queue_tree), tree(lines, past))

    async def _unknown(
        self, tx: Transaction, namespace: str, name: str, kind: str | None, sight: Sight
    ) -> UnknownName:
        names, namespaces = await names_like(tx, namespace, name, seen=sight.workloads, limit=_COMPARED)
        elsewhere = [f"{name} in namespace {each}" for each in sorted(namespaces)]
        alike = elsewhere or get_close_matches(name, sorted(names), n=3)
        return UnknownName(
            what=kind or "workload", name=name, place=f" in namespace {namespace}", near=tuple(alike[:3])
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
        owner=_owner(line.owner),
        reason=_reason(line.reason, line.last_eviction),
    )


def _owner(said: str) -> bodies.OwnerBody | None:
    kind, _, name = said.partition("/")
    return bodies.OwnerBody(kind=kind, name=name) if name else None


def _reason(stored: views.StoredReason | None, last: LastEviction | None) -> bodies.ReasonBody | None:
    if stored is None:
        return None
    facts = facts_with_quantities(stored.facts)
    if last is not None:
        why = {"for": last.by} if last.by else {"refusal": last.cause}
        facts = {**facts, "evicted": {"at": rfc3339(last.at), "code": last.code, **why}}
    return bodies.ReasonBody(
        code=stored.code,
        message=stored.message if last is None else last.appended_to(stored.message),
        facts=facts,
        since=rfc3339(stored.since) if stored.since else None,
    )


def explanation(
    rows: views.ExplanationRows,
    queues: tuple[bodies.QueueBody, ...],
    place: PlaceInQueue | None,
    age: Age,
    counted: str,
) -> bodies.ExplanationBody:
    """One workload, with its queues up to root. ``place``: in its queue; None: it does not wait."""
    body = _waiting(rows.workload, None if place is None else place.position)
    if rows.state not in ("pending", "admitted"):
        body = msgspec.structs.replace(body, reason=None)
    return bodies.ExplanationBody(
        **msgspec.structs.asdict(body),
        **asdict(age),
        state=rows.state,
        queue_length=None if place is None else place.length,
        position_by="" if place is None else counted,
        not_before=rfc3339(rows.not_before) if rows.not_before else None,
        rollbacks=rows.rollbacks,
        ahead=() if place is None else tuple(_waiting(*each) for each in place.ahead),
        path=path_to_root(queues, body.queue),
        admissions=tuple(_admission(held, rows.evictions) for held in reversed(rows.admissions)),
        history=tuple(_event(decision) for decision in rows.history),
        history_begins=_history_begins(rows),
    )


def _history_begins(rows: views.ExplanationRows) -> str | None:
    """None if the workload is younger than what was dropped."""
    begins = rows.history_begins
    return rfc3339(begins) if begins > rows.workload.created else None


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
