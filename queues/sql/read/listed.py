"""Workloads that wait, hold seats or have ended, by namespace and name. A page costs its page, not all there are.

Postgres finds the keys of the page by the index of namespaces and names; only the rows of the page are read in full.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Interval,
    Row,
    Select,
    and_,
    case,
    cast,
    false,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import LastEviction
from queues.read_api import bodies
from queues.read_api.quantities import quantities
from queues.reason_codes import ReasonCode
from queues.sql.read.pending import (
    HOLDS,
    RESUMED_BY,
    SHOWN,
    is_chosen,
    may_see,
    shown_time,
    waiting_body,
    workload_lines,
)
from queues.sql.read.rows import EVERY_ONE, Chosen, Seen
from queues.sql.statements import (
    KEYS,
    MOMENT,
    NUMBER,
    TEXT,
    StorableText,
    UnnestRows,
    attributes,
    key_rows,
    moment,
    one_of,
    same,
)
from queues.sql.tables import (
    admissions,
    closed_admissions,
    ended_workloads,
    history_starts,
    reasons,
    workloads,
)
from queues.sql.world import key_of, last_evictions, seconds_of
from queues.text_format import rfc3339
from queues.workload import QueueName, Result, WorkloadKey

#: States of a workload, as in an explanation.
STATES: Final = ("pending", "admitted", "evicting", "suspended", "finished")
#: Totals are counted up to this number.
COUNTED: Final = 100_000


class ListPlace(NamedTuple):
    """Where a line is in the list: its sort key."""

    namespace: StorableText
    name: StorableText
    kind: StorableText
    uid: StorableText
    #: Microseconds since the epoch: when its object went; 0: it is there.
    gone: Annotated[int, Meta(ge=0, lt=2**62)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Which workloads are asked for."""

    states: Collection[str]
    #: Those that ended before this second (since the epoch) are left out.
    since: int = 0
    #: None for all.
    queues: Collection[QueueName] | None = None
    namespace: str | None = None
    chosen: Chosen = EVERY_ONE
    #: Only these are given, and counted.
    seen: Seen | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage:
    """A part of a list."""

    items: tuple[bodies.ListedBody, ...]
    #: All that match, also beyond the page; and the same in every namespace. Counted up to ``COUNTED``.
    total: int
    total_everywhere: int
    #: The last line's place; None if this is the last page.
    end: ListPlace | None


_EVICTS: Final = select(1).where(same(admissions, workloads), admissions.c.state == "evicting").exists()
#: A Volcano Job that was stopped and may go on: nothing else is over without a result.
_STOPPED: Final = and_(workloads.c.finished, workloads.c.result == Result.UNKNOWN)
_REASON: Final = reasons.alias()
_BY_OWNER: Final = and_(_REASON.c.code == ReasonCode.ON_HOLD, _REASON.c.message.contains(RESUMED_BY))
_SUSPENDED: Final = or_(
    _STOPPED,
    and_(~workloads.c.finished, ~HOLDS, select(1).where(same(_REASON, workloads), _BY_OWNER).exists()),
)
_STATE: Final = case(
    (_SUSPENDED, "suspended"),
    (workloads.c.finished, "finished"),
    (_EVICTS, "evicting"),
    (HOLDS, "admitted"),
    else_="pending",
)
#: What has ended before Muster looked at it ended after it was created.
_ENDED_AT: Final = func.coalesce(func.nullif(workloads.c.finished_at, 0), workloads.c.created)
_IN_STATE: Final = {
    "pending": and_(~workloads.c.finished, ~HOLDS, ~_SUSPENDED),
    "admitted": and_(~workloads.c.finished, HOLDS, ~_EVICTS),
    "evicting": and_(~workloads.c.finished, _EVICTS),
    "suspended": _SUSPENDED,
}
_GONE: Final = cast(func.extract("epoch", ended_workloads.c.ended_at) * 1_000_000, BigInteger)
_GONE_ENDED_AT: Final = func.coalesce(func.nullif(ended_workloads.c.finished_at, 0), _GONE.op("/")(1_000_000))


async def listed(
    tx: AsyncConnection, wanted: Listing, *, after: ListPlace | None = None, limit: int
) -> ListPage:
    """Workloads after a place, by namespace, name, kind and uid.

    ``limit``: lines at most.
    """
    rows = [_page(source, wanted, after, limit + 1) for source in _sources(wanted)]
    merged = union_all(*(select(each.subquery()) for each in rows)).subquery()
    columns = [merged.c[name] for name in ListPlace._fields]
    asked = select(*columns).order_by(*columns).limit(limit + 1)
    places = [ListPlace(*row) for row in await tx.execute(asked)]
    here, everywhere = await _totals(tx, wanted)
    shown = places[:limit]
    return ListPage(
        items=await _lines(tx, shown),
        total=here,
        total_everywhere=everywhere,
        end=shown[-1] if shown and len(places) > limit else None,
    )


async def ended_since(tx: AsyncConnection) -> int:
    """Since when (seconds since the epoch) workloads that ended and are gone are known; 0: none was ever dropped."""
    begins = select(history_starts.c.begins_at).where(history_starts.c.history == ended_workloads.name)
    at = await tx.scalar(begins)
    return 0 if at is None else seconds_of(at)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatTotals:
    """What the seats of a workload are together."""

    #: Seconds since the epoch: when the first of their admissions was opened.
    opened: int
    seats: int
    takes: Mapping[str, int]
    nodes: frozenset[str]

    def plus(self, other: "SeatTotals") -> "SeatTotals":
        """The same with further seats."""
        return SeatTotals(
            opened=min(self.opened, other.opened),
            seats=self.seats + other.seats,
            takes=Counter(self.takes) + Counter(other.takes),
            nodes=self.nodes | other.nodes,
        )


class _Source(NamedTuple):
    """A table of workloads, with what of it is asked for in every namespace."""

    columns: Any
    gone: ColumnElement[int]
    which: ColumnElement[bool]


def _sources(wanted: Listing) -> list[_Source]:
    ended = "finished" in wanted.states
    live = [condition for state, condition in _IN_STATE.items() if state in wanted.states]
    there = live if len(live) < len(_IN_STATE) else [~workloads.c.finished, _STOPPED]
    if ended:
        has_ended = workloads.c.result.not_in((Result.IDLE, Result.UNKNOWN))
        there.append(and_(workloads.c.finished, has_ended, wanted.since <= _ENDED_AT))
    which = or_(false(), *there)
    found = [_Source(workloads.c, literal(0, NUMBER), and_(which, _common(workloads.c, wanted)))]
    if ended:
        lately = and_(
            # Of the partitions by this time only the young ones are read.
            ended_workloads.c.ended_at >= moment(wanted.since),
            wanted.since <= _GONE_ENDED_AT,
            ended_workloads.c.result != Result.IDLE,
        )
        found.append(_Source(ended_workloads.c, _GONE, and_(lately, _common(ended_workloads.c, wanted))))
    return found


def _common(columns: Any, wanted: Listing) -> ColumnElement[bool]:
    conditions = [may_see(columns, wanted.seen), is_chosen(columns, wanted.chosen)]
    if wanted.queues is not None:
        conditions.append(one_of(columns.queue, wanted.queues))
    return and_(*conditions)


def _page(source: _Source, wanted: Listing, after: ListPlace | None, limit: int) -> Select[Any]:
    """Places of one table, in order; at most ``limit``."""
    place = [*source.columns["namespace", "name", "kind", "uid"], source.gone.label("gone")]
    page = select(*place).where(source.which)
    if wanted.namespace is not None:
        page = page.where(source.columns.namespace == wanted.namespace)
    if after is not None:
        page = page.where(
            # The first two alone, so that the index finds where to go on.
            tuple_(*place[:2]) >= tuple_(*map(literal, after[:2])),
            tuple_(*place[:4], source.gone) > tuple_(*map(literal, after[:4]), literal(after.gone, NUMBER)),
        )
    return page.order_by(*place).limit(limit)


async def _totals(tx: AsyncConnection, wanted: Listing) -> tuple[int, int]:
    """How many match in the namespace asked for, and in every one."""

    def counted(namespace: str | None) -> Any:
        each = [
            select(literal(1)).where(
                source.which,
                *(() if namespace is None else (source.columns.namespace == namespace,)),
            )
            for source in _sources(wanted)
        ]
        some = union_all(*each).limit(COUNTED).subquery()
        return select(func.count()).select_from(some).scalar_subquery()

    everywhere = counted(None)
    here = everywhere if wanted.namespace is None else counted(wanted.namespace)
    found = (await tx.execute(select(here.label("here"), everywhere.label("everywhere")))).one()
    return found.here, found.everywhere


async def _lines(tx: AsyncConnection, places: Iterable[ListPlace]) -> tuple[bodies.ListedBody, ...]:
    """The workloads at these places, in the same order; without those that went meanwhile."""
    places = tuple(places)
    if not places:
        return ()
    there = [place for place in places if not place.gone]
    gone = [place for place in places if place.gone]
    keys = {key_of(place.kind, place.uid) for place in places}
    held = await _held(tx, keys)
    last = await last_seats(tx, keys)
    chosen = tuple_(workloads.c.kind, workloads.c.uid).in_([(place.kind, place.uid) for place in there])
    evictions = await last_evictions(tx, chosen) if there else {}
    rows = {**await _there(tx, there), **await _gone(tx, gone)}
    found = []
    for place in places:
        if (row := rows.get(place)) is not None:
            seats = (last if row.state in ("finished", "suspended") else held).get(key_of(row.kind, row.uid))
            found.append(_body(row, evictions, seats, is_gone=bool(place.gone)))
    return tuple(found)


#: Nodes of one workload, or of one admission, that are named.
MOST_NODES: Final = 20


def _body(
    row: Row[Any], evictions: Mapping[WorkloadKey, LastEviction], seats: SeatTotals | None, *, is_gone: bool
) -> bodies.ListedBody:
    """``seats``: what it holds, or held last. None for nothing."""
    waiting, is_over = waiting_body(row, evictions), row.state == "finished"
    nodes = sorted(seats.nodes) if seats is not None else []
    fields = attributes(waiting, *SHOWN, "user", "created", "asks", "owner", "notes")
    if is_over and seats is not None:
        fields["pods"] = seats.seats  # what has ended wants no pods any more
    return bodies.ListedBody(
        **fields,
        state=row.state,
        result=row.result,
        gone=is_gone,
        admitted=None if seats is None else rfc3339(seats.opened),
        ended=shown_time(row.finished_at) if is_over else None,
        held={} if seats is None else quantities(seats.takes),
        nodes=tuple(nodes[:MOST_NODES]),
        node_count=len(nodes),
        reason=None if is_over else waiting.reason,
    )


_LISTED: Final = workload_lines().add_columns(
    workloads.c.result, _STATE.label("state"), _ENDED_AT.label("finished_at")
)


async def _there(tx: AsyncConnection, places: Collection[ListPlace]) -> dict[ListPlace, Row[Any]]:
    """Rows of workloads with an object."""
    if not places:
        return {}
    chosen = tuple_(workloads.c.kind, workloads.c.uid).in_([(place.kind, place.uid) for place in places])
    by_key = {(place.kind, place.uid): place for place in places}
    return {by_key[row.kind, row.uid]: row for row in await tx.execute(_LISTED.where(chosen))}


_EPOCH: Final = literal_column("timestamptz 'epoch'", MOMENT)
_MICROSECOND: Final = literal_column("interval '1 microsecond'", Interval)
_AT: Final = UnnestRows(kind=TEXT, uid=TEXT, gone=NUMBER)
#: The columns of ``_LISTED``, of a workload whose object is gone: nothing of it waits, and there is nothing that its
#: object could say.
GONE_LISTED: Final = select(
    *ended_workloads.c[*SHOWN, "created", "asks", "username", "result"],
    _GONE_ENDED_AT.label("finished_at"),
    *(
        literal(text).label(name)
        for name, text in (("state", "finished"), ("owner", ""), ("ignored_values", ""), ("notes", ""))
    ),
    *(literal(0).label(name) for name in ("not_before", "rollbacks")),
    null().label("code"),
)


async def _gone(tx: AsyncConnection, places: Collection[ListPlace]) -> dict[ListPlace, Row[Any]]:
    """The same of workloads whose object is gone."""
    if not places:
        return {}
    asked = (
        GONE_LISTED.add_columns(_GONE.label("gone"))
        .select_from(_AT.table)
        .join(
            ended_workloads,
            and_(
                same(ended_workloads, _AT),
                ended_workloads.c.ended_at == _EPOCH + _AT.c.gone * _MICROSECOND,
            ),
        )
    )
    rows = await tx.execute(asked, _AT.rows([(place.kind, place.uid, place.gone) for place in places]))
    by_key = {(place.kind, place.uid, place.gone): place for place in places}
    return {by_key[row.kind, row.uid, row.gone]: row for row in rows}


#: Admissions of one workload that are looked at for its last run.
_LAST_ADMISSIONS: Final = 32
_SEATS: Final = ("kind", "uid", "opened_at", "nodes", "shape_of", "shapes")


async def _held(tx: AsyncConnection, keys: Iterable[WorkloadKey]) -> dict[WorkloadKey, SeatTotals]:
    """What these workloads hold, over all their admissions."""
    asked = (
        select(*admissions.c[_SEATS], admissions.c.ended)
        .select_from(KEYS.table)
        .join(admissions, same(admissions, KEYS))
    )
    found: dict[WorkloadKey, SeatTotals] = {}
    for row in await tx.execute(asked, KEYS.rows(key_rows(keys))):
        key = key_of(row.kind, row.uid)
        held = _seat_totals(row, frozenset(row.ended))
        found[key] = found[key].plus(held) if key in found else held
    return found


async def last_seats(tx: AsyncConnection, keys: Iterable[WorkloadKey]) -> dict[WorkloadKey, SeatTotals]:
    """What each of these workloads held in its last run, when that was most: an elastic gang has several admissions.

    Of more than ``_LAST_ADMISSIONS`` only the last ones count.
    """
    closed = closed_admissions
    newest = (
        select(*closed.c[_SEATS], closed.c.closed_at)
        .where(same(closed, KEYS))
        .order_by((closed.c.id + 0).desc())
        .limit(_LAST_ADMISSIONS)
        .lateral("newest")
    )
    asked = select(newest).select_from(KEYS.table).join(newest, literal(True))
    runs: dict[WorkloadKey, list[_Held]] = {}
    for row in await tx.execute(asked, KEYS.rows(key_rows(keys))):
        held = _Held(row.opened_at, row.closed_at, _seat_totals(row, frozenset()))
        runs.setdefault(key_of(row.kind, row.uid), []).append(held)
    return {key: _most_at_a_time(_last_run(held)) for key, held in runs.items()}


class _Held(NamedTuple):
    """What a closed admission held, from when until when."""

    opened: datetime
    closed: datetime
    seats: SeatTotals


def _last_run(held: Iterable[_Held]) -> list[_Held]:
    """The last admission, and those before that were held while a later one of them was."""
    found: list[_Held] = []
    for each in sorted(held, key=lambda each: each.closed, reverse=True):
        if found and each.closed <= min(one.opened for one in found):
            break
        found.append(each)
    return found


def _most_at_a_time(run: Sequence[_Held]) -> SeatTotals:
    """All that was held at the opening after which it was most; with the beginning of the run."""
    sums = []
    for opened in sorted({each.opened for each in run}):
        open_then = [
            each.seats for each in run if each.opened <= opened < each.closed or each.opened == opened
        ]
        sums.append(reduce(SeatTotals.plus, open_then))
    most = max(sums, key=lambda each: each.seats)
    return replace(most, opened=min(each.seats.opened for each in run))


def _seat_totals(row: Any, ended: Collection[int]) -> SeatTotals:
    """``ended``: indices of seats that are left out."""
    kept = [index for index in range(len(row.nodes)) if index not in ended]
    takes = Counter[str]()
    for shape, times in Counter(row.shape_of[index] for index in kept).items():
        takes.update({resource: units * times for resource, units in row.shapes[shape].items()})
    nodes = frozenset(row.nodes[index] for index in kept)
    return SeatTotals(opened=seconds_of(row.opened_at), seats=len(kept), takes=takes, nodes=nodes)
