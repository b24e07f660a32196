"""Waiting workloads, ordered, counted and paged by Postgres: an answer costs its page, however much else waits.

Postgres numbers the narrow rows of all workloads that wait in the queues asked for, in the order of the engine; only
the rows of the page are read in full.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    String,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
    select,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.expression import CTE

from queues.admissions import LastEviction
from queues.plugins.interface import PATIENCE
from queues.quota.queue import ROOT
from queues.read_api import bodies
from queues.read_api.quantities import facts_with_quantities, quantities
from queues.reason_codes import NEVER, ReasonCode, advice_on
from queues.sql.read.rows import EVERY_ONE, Chosen, PendingPage, PendingPlace, PlaceInQueue, QueueOrder, Seen
from queues.sql.statements import NUMBER, TEXT, UnnestRows, attributes, one_of, same
from queues.sql.tables import admissions, backoffs, reasons, workloads
from queues.sql.world import comes_first, key_of, last_evictions, seconds_of
from queues.text_format import rfc3339
from queues.workload import QueueName, WorkloadKey

#: Larger numbers are equal: sums of the order stay within 64 bits.
_MOST_DEVICES: Final = 10**12
_MOST_SECONDS: Final = 10**15

#: In the message of an OnHold: its owner has suspended it, and not only held it back.
RESUMED_BY: Final = "`kubectl muster resume "
HOLDS: Final = select(1).where(same(admissions, workloads)).exists()
#: Lacks seats: all of them, or (then with a reason) some.
WAITS: Final = and_(~workloads.c.finished, or_(~HOLDS, reasons.c.code.is_not(None)))

#: Columns of a workload that are shown as they are.
SHOWN: Final = ("kind", "uid", "namespace", "name", "queue", "priority", "pods", "minimum")
WORKLOADS_WITH_REASONS: Final = workloads.outerjoin(reasons, same(reasons, workloads)).outerjoin(
    backoffs, same(backoffs, workloads)
)

#: The order of each queue.
_TERMS: Final = UnnestRows(
    queue=TEXT,
    by_created=NUMBER,
    by_priority=NUMBER,
    most_priority=NUMBER,
    by_run=NUMBER,
    unknown_run=NUMBER,
    small_first=NUMBER,
)
#: Its columns besides the queue, as ``QueueOrder.numbers`` has them.
_FACTORS: Final = ("by_created", "by_priority", "most_priority", "by_run", "unknown_run", "small_first")
#: What never fits is in no workload's way: it comes after all that is in line.
_RANK: Final = ("never_fits", "joins", "urgency", "precedence", "arrival")


def workload_lines() -> Select[Any]:
    """What is shown of a workload with an object, and its setbacks."""
    return select(
        *workloads.c[*SHOWN, "username", "finished", "created", "asks", "owner", "ignored_values", "notes"],
        *(func.coalesce(backoffs.c[name], 0).label(name) for name in ("not_before", "rollbacks")),
        *reasons.c["code", "message", "facts", "since"],
    ).select_from(WORKLOADS_WITH_REASONS)


def waiting_body(
    row: Row[Any], evictions: Mapping[WorkloadKey, LastEviction], position: int | None = None
) -> bodies.WaitingBody:
    """A row of ``workload_lines``. ``evictions``: last ones by workload. ``position``: None if it is not in line; what
    never fits is not in line either."""
    kind, _, name = row.owner.partition("/")
    return bodies.WaitingBody(
        **attributes(row, *SHOWN),
        user=row.username,
        position=None if row.code in NEVER else position,
        created=shown_time(row.created),
        asks=quantities(row.asks),
        owner=bodies.OwnerBody(kind=kind, name=name) if name else None,
        ignored_values=tuple(row.ignored_values.splitlines()),
        notes=tuple(row.notes.splitlines()),
        reason=None if row.code is None else _reason(row, evictions.get(key_of(row.kind, row.uid))),
    )


def _reason(row: Row[Any], last: LastEviction | None) -> bodies.ReasonBody:
    """Why a workload waits, with its last eviction."""
    facts = facts_with_quantities(row.facts)
    if last is not None:
        why = {"for": last.by} if last.by else {"refusal": last.cause}
        if last.takes:
            why["takes"] = last.takes
        facts = {**facts, "evicted": {"at": rfc3339(last.at), "code": last.code, **why}}
    return bodies.ReasonBody(
        code=row.code,
        message=row.message if last is None else last.appended_to(row.message),
        advice=advice_on(ReasonCode.of_row(row.code), row.facts).owner,
        facts=facts,
        since=shown_time(seconds_of(row.since)),
    )


def shown_time(seconds: int) -> str | None:
    """Seconds since the epoch as answers show them. 0: it is not known, or has not come."""
    return rfc3339(seconds) if seconds else None


async def pending(
    tx: AsyncConnection,
    order: Mapping[QueueName, QueueOrder],
    *,
    queues: Collection[QueueName] | None = None,
    seen: Seen | None = None,
    namespace: str | None = None,
    chosen: Chosen = EVERY_ONE,
    after: PendingPlace | None = None,
    limit: int,
) -> PendingPage:
    """Waiting workloads by queue, then in the queue's order; after them those that never fit, in the same way.

    ``order`` has the queues that exist (others go by the order of root). ``queues``: only these. ``seen``: only these
    count and are given, while positions count all. ``namespace``: only of this one. ``chosen``: only these. ``after``:
    the last line of the page before. ``limit``: lines at most.
    """
    rows = _waiting(order, None if queues is None else one_of(workloads.c.queue, queues))
    visible = and_(may_see(rows.c, seen), is_chosen(rows.c, chosen))
    here = visible if namespace is None else and_(visible, rows.c.namespace == namespace)
    given = _given(order)
    counting = select(
        func.count().filter(here).label("total"), func.count().filter(visible).label("everywhere")
    ).select_from(rows)
    counted = (await tx.execute(counting, given)).one()
    placed = _placed(rows)
    visible = and_(may_see(placed.c, seen), is_chosen(placed.c, chosen))
    page = select(*placed.c["kind", "uid", "queue", "position", "never_fits"]).where(visible)
    if namespace is not None:
        page = page.where(placed.c.namespace == namespace)
    order_of_lines = (placed.c.never_fits, _bytewise(placed.c.queue), placed.c.position)
    if after is not None:
        last = (literal(after.never_fits), _bytewise(literal(after.queue)), literal(after.position))
        page = page.where(tuple_(*order_of_lines) > tuple_(*last))
    found = (await tx.execute(page.order_by(*order_of_lines).limit(limit), given)).all()
    items = await _lines(tx, [(key_of(row.kind, row.uid), row.position) for row in found])
    end = found[-1] if len(found) == limit and items else None
    return PendingPage(
        items=items,
        total=counted.total,
        total_everywhere=counted.everywhere,
        end=None if end is None else PendingPlace(end.queue, end.position, end.never_fits),
    )


async def place_in_queue(
    tx: AsyncConnection,
    order: Mapping[QueueName, QueueOrder],
    queue: QueueName,
    key: WorkloadKey,
    *,
    seen: Seen | None = None,
    ahead: int,
) -> PlaceInQueue | None:
    """Where a waiting workload is in its queue, and at most ``ahead`` workloads directly before it; None if it is not
    waiting, or never fits.

    Of the workloads before it only those that are ``seen`` are given.
    """
    placed = _placed(_waiting(order, workloads.c.queue == queue))
    mine = and_(placed.c.kind == str(key.kind), placed.c.uid == key.uid)
    own = select(placed.c.position).where(mine).scalar_subquery()
    length = select(func.count()).select_from(placed).where(~placed.c.never_fits).scalar_subquery()
    near = (
        select(*placed.c["kind", "uid", "position", "never_fits"], length.label("length"))
        .where(placed.c.position.between(own - ahead, own), or_(mine, may_see(placed.c, seen)))
        .order_by(placed.c.position)
    )
    rows = (await tx.execute(near, _given(order))).all()
    if not rows or rows[-1].never_fits:
        return None
    places = [(key_of(row.kind, row.uid), row.position) for row in rows[:-1]]
    return PlaceInQueue(position=rows[-1].position, length=rows[-1].length, ahead=await _lines(tx, places))


async def _lines(
    tx: AsyncConnection, places: Iterable[tuple[WorkloadKey, int]]
) -> tuple[bodies.WaitingBody, ...]:
    """These workloads with their positions, in the same order."""
    places = tuple(places)
    if not places:
        return ()
    keys = [(str(key.kind), key.uid) for key, _ in places]
    chosen = tuple_(workloads.c.kind, workloads.c.uid).in_(keys)
    evictions = await last_evictions(tx, chosen)
    rows = {key_of(row.kind, row.uid): row for row in await tx.execute(workload_lines().where(chosen))}
    return tuple(waiting_body(rows[key], evictions, position) for key, position in places)


def _waiting(order: Mapping[QueueName, QueueOrder], which: ColumnElement[bool] | None) -> CTE:
    """The narrow rows of waiting workloads, with what they are ordered by."""
    other = zip(_FACTORS, order.get(ROOT, QueueOrder()).numbers(), strict=True)
    by_created, by_priority, most_priority, by_run, unknown_run, small_first = (
        func.coalesce(_TERMS.c[name], literal(number, NUMBER)) for name, number in other
    )
    since = func.coalesce(func.nullif(backoffs.c.waiting_since, 0), workloads.c.created)
    run_time = func.least(func.coalesce(workloads.c.run_time, unknown_run), _MOST_SECONDS)
    priority = func.least(workloads.c.priority, most_priority)
    urgency = by_created * workloads.c.created + by_priority * priority + by_run * run_time
    small = since + PATIENCE * func.least(workloads.c.devices, _MOST_DEVICES)
    # As policies.rank. Most queues do not ask for it, so the log of decisions is not read for them.
    precedence = case((small_first > 0, case((comes_first(), 0), else_=small)), else_=0)
    narrow = (
        select(
            *workloads.c["kind", "uid", "queue", "namespace", "name", "username", "arrival"],
            func.coalesce(reasons.c.code.in_(sorted(NEVER)), literal(False)).label("never_fits"),
            HOLDS.label("joins"),
            urgency.label("urgency"),
            precedence.label("precedence"),
        )
        .select_from(WORKLOADS_WITH_REASONS.outerjoin(_TERMS.table, _TERMS.c.queue == workloads.c.queue))
        .where(WAITS)
    )
    return (narrow if which is None else narrow.where(which)).cte("waiting")


def _placed(rows: CTE) -> CTE:
    """The same, each with its position in its queue."""
    rank = [*rows.c[_RANK], _bytewise(rows.c.kind), _bytewise(rows.c.uid)]
    position = func.row_number().over(partition_by=rows.c.queue, order_by=rank)
    columns = rows.c["kind", "uid", "queue", "namespace", "name", "username", "never_fits"]
    return select(*columns, position.label("position")).cte("placed")


def _given(order: Mapping[QueueName, QueueOrder]) -> dict[str, list[object]]:
    return _TERMS.rows([(queue, *each.numbers()) for queue, each in order.items()])


def may_see(columns: Any, seen: Seen | None) -> ColumnElement[bool]:
    """Whether a workload may be seen."""
    if seen is None:
        return literal(True)
    kinds = {kind: names for kind, names in seen.items() if names is None or names}
    everywhere = [kind for kind, names in kinds.items() if names is None]
    return or_(
        one_of(columns.kind, everywhere),
        *(
            and_(columns.kind == kind, one_of(columns.namespace, names))
            for kind, names in kinds.items()
            if names is not None
        ),
    )


def is_chosen(columns: Any, chosen: Chosen) -> ColumnElement[bool]:
    """Whether a workload is one of those that are asked for."""
    found: list[ColumnElement[bool]] = [literal(True)]
    if chosen.user is not None:
        found.append(columns.username == chosen.user)
    if chosen.search is not None:
        names = func.concat_ws("\n", columns.name, columns.namespace, columns.queue, columns.username)
        found.append(func.strpos(func.lower(names), func.lower(literal(chosen.search))) > 0)
    return and_(*found)


def _bytewise(column: ColumnElement[str]) -> ColumnElement[str]:
    """In the order in which Python compares names, whatever the database's locale."""
    return cast(column, String).collate("C")
