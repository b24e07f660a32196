"""Answers of the read API from Postgres: every replica can give them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, tzinfo
from difflib import get_close_matches
from itertools import chain
from typing import Any, Final

import msgspec

from admission.web.access.answer_cache import Kept
from admission.web.http import text_of_place
from admission.web.lists.users import share_of, user_bodies
from admission.web.overview import (
    Overview,
    QueuePast,
    budget_body,
    counted_by,
    in_sight,
    of_those_together,
    past_by_queue,
    path_to_root,
    policies,
    stated_budgets,
    states_half_life,
    subtree,
    tree,
    with_meant_queue,
    with_rules_against,
)
from admission.web.queue_history import version_bodies
from admission.web.reader import EVERYTHING, PeriodTooLarge, Sight, UnknownName
from admission.web.time_series import (
    TimeSeriesRequest,
    limits_now,
    series_of_queues,
    time_series_list,
)
from admission.web.usage_report import UsageRequest, usage_list, usage_viewer
from queues.api.validation.tenant_rules import Requester, TenantTree
from queues.errors import DatabaseTooSlow
from queues.kind_names import KindName
from queues.quota.budgets import (
    NO_HOURS,
    BudgetUse,
    HoursBudget,
    HoursUsed,
    Period,
    ResourceHours,
    sum_upwards,
)
from queues.quota.decayed_usage import PastUse, half_lives
from queues.quota.queue import ROOT
from queues.read_api import bodies
from queues.read_api.nodes import NodeWorkloadsBody
from queues.read_api.usage import TimeSeriesList, UsageList
from queues.reason_codes import NEVER
from queues.sql.database import Database, Transaction
from queues.sql.leadership import Heartbeat, last_heartbeat
from queues.sql.read import views
from queues.sql.read.change_mark import change_mark
from queues.sql.read.decisions import DecisionQuestion, workload_decisions
from queues.sql.read.listed import Listing, ListPlace, ended_since, listed
from queues.sql.read.names import kinds_in_namespaces, names_like
from queues.sql.read.node_workloads import node_workloads
from queues.sql.read.past_use import far_behind, past_use
from queues.sql.read.pending import pending, place_in_queue
from queues.sql.read.queue_versions import is_recorded, versions_of
from queues.sql.read.rows import EVERY_ONE, Chosen, KindIn, PendingPlace
from queues.sql.read.time_series import use_over_time, waits_over_time
from queues.sql.read.usage import (
    hours_used,
    queue_parents,
    usage,
    usage_history,
    used_kinds_in_namespaces,
)
from queues.sql.read.users import UserQuestion, hidden_work, users
from queues.text_format import rfc3339
from queues.workload import QueueName, WorkloadKey

#: Workloads before one in its queue that an answer names.
AHEAD: Final = 10
#: Postings that are added up for past use, beyond those that a leader has summed up. With more it is not told.
_MOST_POSTINGS: Final = 50_000
#: Past use fades in hours, and use of budgets goes on as it is: they are kept so many times as long as other things of
#: queues.
_PAST_KEPT: Final = 30
_DAY: Final = 86_400
#: Seconds after which postings of a second are stored, whichever leader made them.
_STORED_WITHIN: Final = 3600
#: Names that an unknown one is compared with: comparing takes time.
_COMPARED: Final = 50
#: Seconds without a heartbeat after which no replica seems to lead.
_SILENCE: Final = 10.0
_NO_WORKLOADS: Final = NodeWorkloadsBody(items=(), total=0, hidden=0)


class SqlReader:
    """Answers the questions of users, on any replica. Every method may raise DatabaseUnavailable.

    ``keep``: seconds for which the overview of the queues, which is the same for all users, is used again.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float] = time.time,
        *,
        keep: float = 0.0,
        budget_zone: tzinfo = UTC,
    ) -> None:
        """``budget_zone``: of the calendar whose months budgets of queues are for."""
        self._database = database
        self._clock = clock
        self._adding_up = asyncio.Lock()
        self._overviews: Kept[None, Overview] = Kept(keep, 1)
        #: By the overview that they are of, so that they are no older than that.
        self._bodies: Kept[Overview, tuple[bodies.QueueBody, ...]] = Kept(keep, 1)
        self._pasts: Kept[object, PastUse | None] = Kept(_PAST_KEPT * keep, 1)
        self._budget_zone = budget_zone
        self._budget_uses: Kept[object, BudgetUse] = Kept(_PAST_KEPT * keep, 1)
        self._earlier_hours: Kept[object, dict[QueueName, ResourceHours]] = Kept(_DAY if keep else 0.0, 1)

    async def queues(self, sight: Sight = EVERYTHING) -> bodies.QueueList:
        """The queues that the user may see, parents first."""
        shown = await self._queue_bodies(await self._overview())
        async with self._database.snapshot() as tx:
            age = await self._age(tx)
        visible = tuple(in_sight(body, sight) for body in shown if sight.shows_queue(body.name))
        return bodies.QueueList(**age, items=visible)

    async def node_workloads(
        self, names: Collection[str], sight: Sight = EVERYTHING
    ) -> dict[str, NodeWorkloadsBody]:
        """The workloads with seats on each of these nodes, as far as ``sight`` goes."""
        async with self._database.snapshot() as tx:
            seated = await node_workloads(tx, names, sight.workloads)
        return {name: seated.get(name, _NO_WORKLOADS) for name in names}

    async def queue_versions(
        self, name: str, *, limit: int, before: int | None = None, below: Sight | None = None
    ) -> bodies.QueueVersionList:
        """Recorded versions of a queue, newest first, ``before`` a version. ``below``: also those of the queues that
        are below it now and that the user may see; None for its own. Raises UnknownName: it never had one."""
        names = {QueueName(name)}
        if below is not None and name in (overview := await self._overview()).by_name:
            names |= {each for each in subtree(overview.lines, name) if below.shows_queue(each)}
        async with self._database.snapshot() as tx:
            if not await is_recorded(tx, name):
                raise UnknownName(what="queue", name=name)
            # One more, which says whether there is another page.
            found = await versions_of(tx, names, limit=limit + 1, before=before)
            age = await self._age(tx)
        more = limit > 0 and len(found) > limit
        return bodies.QueueVersionList(
            **age,
            name=name,
            items=version_bodies(found, limit=limit),
            continue_=str(found[limit - 1].version) if more else "",
        )

    async def pending(
        self,
        *,
        queue: str | None,
        namespace: str | None,
        chosen: Chosen = EVERY_ONE,
        limit: int,
        after: PendingPlace | None = None,
        sight: Sight = EVERYTHING,
    ) -> bodies.PendingList:
        """Pending workloads after a place. Raises UnknownName for a queue that does not exist."""
        overview = await self._overview()
        names = None if queue is None else subtree(overview.lines, queue, sight)
        async with self._database.snapshot() as tx:
            page = await pending(
                tx,
                overview.order,
                queues=names,
                seen=sight.workloads,
                namespace=namespace,
                chosen=chosen,
                after=after,
                limit=limit,
            )
            age = await self._age(tx)
        known = overview.names(sight)
        return bodies.PendingList(
            **age,
            total=page.total,
            total_everywhere=page.total_everywhere,
            items=tuple(with_rules_against(with_meant_queue(item, known), overview) for item in page.items),
            continue_=text_of_place(page.end),
        )

    async def workloads(
        self,
        wanted: Listing,
        *,
        queue: str | None,
        after: ListPlace | None = None,
        limit: int,
        sight: Sight = EVERYTHING,
    ) -> bodies.WorkloadList:
        """Workloads that wait, run or have ended, after a place. ``queue``: with what is below it; None for all.

        Raises UnknownName for a queue that does not exist.
        """
        overview = await self._overview()
        wanted, known = replace(wanted, seen=sight.workloads), overview.names(sight)
        if queue is not None:
            wanted = replace(wanted, queues=subtree(overview.lines, queue, sight))
        async with self._database.snapshot() as tx:
            page = await listed(tx, wanted, after=after, limit=limit)
            begins = await ended_since(tx) if "finished" in wanted.states else 0
            age = await self._age(tx)
        return bodies.WorkloadList(
            **age,
            total=page.total,
            total_everywhere=page.total_everywhere,
            items=tuple(with_rules_against(with_meant_queue(item, known), overview) for item in page.items),
            history_begins=rfc3339(begins) if begins > wanted.since else None,
            continue_=text_of_place(page.end),
        )

    async def decisions(
        self, wanted: DecisionQuestion, *, queue: str | None, limit: int, sight: Sight = EVERYTHING
    ) -> bodies.DecisionList:
        """Decisions about workloads of a queue and what is below it. None for all queues.

        Raises UnknownName for a queue that does not exist.
        """
        wanted = replace(wanted, seen=sight.workloads)
        if queue is not None:
            wanted = replace(wanted, queues=subtree((await self._overview()).lines, queue, sight))
        async with self._database.snapshot() as tx:
            items, end = await workload_decisions(tx, wanted, limit=limit)
            age = await self._age(tx)
        return bodies.DecisionList(**age, items=items, continue_=str(end))

    async def users(
        self, *, queue: str | None, user: str, after: int = 0, limit: int, sight: Sight = EVERYTHING
    ) -> bodies.UserList:
        """Users of a queue and what is below it (None for all queues), as one user sees them, after so many lines.

        Raises UnknownName for a queue that does not exist.
        """
        overview = await self._overview()
        names = None if queue is None else subtree(overview.lines, queue, sight)
        question = UserQuestion(queues=names, user=user, seen=sight.workloads)
        top = queue or ROOT
        shown = await self._queue_bodies(overview) if sight.shows_queue(top) else ()
        visible = next((body for body in shown if body.name == top), None)
        async with self._database.snapshot() as tx:
            lines = await users(tx, question)
            # Whether there is hidden work is seen from the numbers of the queue, by those who may see these.
            whole = sight.workloads is None or (
                visible is not None and not await hidden_work(tx, names, sight.workloads)
            )
            age = await self._age(tx)
        told = user_bodies(lines, visible, you=user, whole=whole)
        page = told[after : after + limit]
        return bodies.UserList(
            **age,
            queue=top,
            share_of="" if visible is None else share_of(visible),
            complete=whole,
            total=len(told),
            items=page,
            continue_=str(after + limit) if page and after + limit < len(told) else "",
        )

    async def explain(
        self, *, namespace: str, name: str, kind: str | None, sight: Sight = EVERYTHING
    ) -> tuple[bodies.ExplanationBody, ...]:
        """Everything about the workloads of that name. Raises UnknownName, with names that look alike."""
        overview, now = await self._overview(), int(self._clock())
        async with self._database.snapshot() as tx:
            age = await self._age(tx)
            found = [
                one
                for one in await views.explain(
                    tx, namespace, name, kind, tree=overview.tree, now=now, age=age
                )
                if sight.shows(one.kind, namespace)
            ]
            if not found:
                raise await self._unknown(tx, namespace, name, kind, sight)
            placed = [await self._placed(tx, overview, one, sight) for one in found]
        return tuple(sorted(placed, key=lambda each: each.state == "finished"))

    async def administers(self, queue: str, by: Requester) -> bool:
        """Whether a user is named in ``access.admins`` of a queue above this one."""
        lines = (await self._overview()).by_name
        parent = lines[QueueName(queue)].parent if queue in lines else None
        documents = {str(name): line.document for name, line in lines.items()}
        return parent is not None and TenantTree(documents).administered(parent, by) is not None

    async def usage(self, request: UsageRequest, *, user: str, sight: Sight = EVERYTHING) -> UsageList:
        """Use in a period. ``user``: whose own use is shown wherever it was.

        Raises UnknownName for a queue that never existed; PeriodTooLarge; BadQuery: the period has not begun.
        """
        async with self._snapshot_to_add_up() as tx:
            history = await usage_history(tx)
            question = request.begun(int(self._clock()), history)
            parents = await queue_parents(tx)
            viewer = usage_viewer(parents, request.queue, user, sight)
            age = await self._age(tx)
            page = await usage(tx, question, viewer)
        return usage_list(request, question.ends, page, history, age)

    async def time_series(self, request: TimeSeriesRequest, *, sight: Sight = EVERYTHING) -> TimeSeriesList:
        """Use and waits over time of a queue and of those directly below it.

        Raises UnknownName for a queue that does not exist; PeriodTooLarge; BadQuery: the period has not begun.
        """
        overview = await self._overview()
        async with self._snapshot_to_add_up() as tx:
            known_since = (await usage_history(tx)).postings
            slots = request.slots(int(self._clock()), known_since)
            series = series_of_queues(await queue_parents(tx), request.queue, sight)
            age = await self._age(tx)
            use = await use_over_time(tx, slots, request.resource, series)
            waits = await waits_over_time(tx, slots, series)
        limits = limits_now(overview.lines, request.resource)
        return time_series_list(request, slots, series, use, waits, limits, known_since, age)

    async def change_mark(self) -> str:
        """A text that differs when the state does."""
        async with self._database.snapshot() as tx:
            return await change_mark(tx)

    async def used_kinds_in_namespaces(self, since: int, limit: int) -> tuple[KindIn, ...]:
        """Kinds of workloads that held something at a second (since the epoch) or after it, with their namespaces."""
        async with self._snapshot_to_add_up() as tx:
            return await used_kinds_in_namespaces(tx, since, limit)

    @asynccontextmanager
    async def _snapshot_to_add_up(self) -> AsyncIterator[Transaction]:
        """Adding up a long period may take Postgres seconds: one at a time, so that other questions have connections.
        Raises PeriodTooLarge."""
        try:
            async with self._adding_up, self._database.snapshot() as tx:
                yield tx
        except DatabaseTooSlow as error:
            raise PeriodTooLarge from error

    async def kinds_in_namespaces(self, limit: int) -> tuple[KindIn, ...]:
        """Kinds of workloads with their namespaces: first those with workloads that wait, then those with others, also
        ended ones."""
        async with self._database.snapshot() as tx:
            return await kinds_in_namespaces(tx, limit)

    async def queue_names(self, limit: int) -> tuple[str, ...]:
        """Names of queues, parents first."""
        overview = await self._overview()
        paths = overview.tree.paths
        return tuple(
            sorted(overview.names(EVERYTHING), key=lambda name: len(paths.get(QueueName(name), ())))[:limit]
        )

    async def leader(self) -> Heartbeat | None:
        """The last heartbeat of a leader. None if no replica has led yet."""
        async with self._database.snapshot() as tx:
            return await last_heartbeat(tx)

    async def _age(self, tx: Transaction) -> dict[str, Any]:
        """How old an answer is, as fields of ``bodies.AgedBody``."""
        now, last = self._clock(), await last_heartbeat(tx)
        if last is None:
            return {"now": rfc3339(now), "as_of": None, "behind": "no replica has led yet"}
        silent = f"{last.holder} led last, and has not told of the cluster since"
        behind = last.behind or (silent if last.age > _SILENCE else "")
        return {"now": rfc3339(now), "as_of": rfc3339(now - last.age), "behind": behind}

    @staticmethod
    async def _placed(
        tx: Transaction, overview: Overview, one: bodies.ExplanationBody, sight: Sight
    ) -> bodies.ExplanationBody:
        """One workload with its place in its queue, if it waits there, and its queues up to root."""
        queue = QueueName(one.queue)
        asks = of_those_together(one.asks, one.minimum, one.pods) if one.state == "pending" else {}
        one = msgspec.structs.replace(
            with_rules_against(with_meant_queue(one, overview.names(sight)), overview),
            path=path_to_root(overview.lines, queue, asks, sight),
        )
        key = WorkloadKey(KindName(one.kind), one.uid)
        place = None
        # What never fits is not in line.
        if one.state == "pending" and (one.reason is None or one.reason.code not in NEVER):
            place = await place_in_queue(tx, overview.order, queue, key, seen=sight.workloads, ahead=AHEAD)
        if place is None:
            return one
        return msgspec.structs.replace(
            one,
            position=place.position,
            queue_length=place.length,
            position_by=counted_by(overview.tree, queue),
            ahead=place.ahead,
        )

    async def _overview(self) -> Overview:
        """One reading serves all users who ask meanwhile and shortly after."""
        return await self._overviews.get(None, self._read_overview)

    async def _read_overview(self) -> Overview:
        async with self._database.snapshot() as tx:
            lines = await views.queue_overview(tx)
        return Overview(lines, policies(lines), int(self._clock()))

    async def _queue_bodies(self, overview: Overview) -> tuple[bodies.QueueBody, ...]:
        return await self._bodies.get(overview, lambda: self._read_bodies(overview))

    async def _read_bodies(self, overview: Overview) -> tuple[bodies.QueueBody, ...]:
        past: dict[QueueName, QueuePast] = {}
        if states_half_life(overview.lines):
            fading = half_lives(overview.tree.queues)
            use = await self._pasts.get(tuple(sorted(fading.items())), lambda: self._read_past(fading))
            past = past_by_queue(overview.tree, overview.lines, use, overview.now)
        budgets, stated = {}, stated_budgets(overview.lines)
        if stated:
            month = Period.month_of(overview.now, self._budget_zone)
            asked = month, *((name, *sorted(each.hours)) for name, each in sorted(stated.items()))
            spent = await self._budget_uses.get(asked, lambda: self._read_budgets(month, stated))
            budgets = {name: budget_body(each, spent, name, overview.now) for name, each in stated.items()}
        return tree(overview.lines, past, budgets, served=overview.tree, now=overview.now)

    async def _read_budgets(self, month: Period, stated: Mapping[QueueName, HoursBudget]) -> BudgetUse:
        """What was used of these budgets. Of none it is known if it takes too long to add up."""
        now, resources = (
            int(self._clock()),
            frozenset(name for each in stated.values() for name in each.hours),
        )
        day = max(month.begins, (now - _STORED_WITHIN) // _DAY * _DAY)
        asked = month, day, resources
        try:
            earlier = await self._earlier_hours.get(asked, lambda: self._read_earlier_hours(*asked))
            async with self._snapshot_to_add_up() as tx:
                recent = await hours_used(tx, day, now, resources)
                parents = await queue_parents(tx)
        except PeriodTooLarge:
            return BudgetUse(month, {})
        own = chain(earlier.items(), recent.items())
        return BudgetUse(month, sum_upwards(own, stated, parents, now))

    async def _read_earlier_hours(
        self, month: Period, day: int, resources: frozenset[str]
    ) -> dict[QueueName, ResourceHours]:
        """What was used by queues in a month before a day: most of it need be added up once a day only."""
        if day == month.begins:
            return {}
        now = int(self._clock())
        async with self._snapshot_to_add_up() as tx:
            whole = await hours_used(tx, month.begins, now, resources)
            recent = await hours_used(tx, day, now, resources)
        return {
            queue: {
                resource: HoursUsed(
                    each.used - recent.get(queue, {}).get(resource, NO_HOURS).until(now), 0, day
                )
                for resource, each in hours.items()
            }
            for queue, hours in whole.items()
        }

    async def _read_past(self, half_lives: Mapping[QueueName, frozenset[int]]) -> PastUse | None:
        """Past use by these half-lives. None if it takes too long to read: a leader has not summed it up yet."""
        now = int(self._clock())
        async with self._database.snapshot() as tx:
            every = frozenset[int]().union(*half_lives.values())
            if await far_behind(tx, every, now, _MOST_POSTINGS):
                return None
            return PastUse(rows=await past_use(tx, half_lives, now, by_user=False))

    async def _unknown(
        self, tx: Transaction, namespace: str, name: str, kind: str | None, sight: Sight
    ) -> UnknownName:
        names, namespaces = await names_like(tx, namespace, name, seen=sight.workloads, limit=_COMPARED)
        elsewhere = [f"{name} in namespace {each}" for each in sorted(namespaces)]
        alike = [*get_close_matches(name, sorted(names), n=3), *elsewhere]
        return UnknownName(
            what=kind or "workload", name=name, place=f" in namespace {namespace}", near=tuple(alike[:3])
        )
