"""Seats are given: to gangs as far as the limits hold them, to running pods whatever the limits say.

Every gang is held against the books as the ones before it left them.
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from sqlalchemy import and_, bindparam, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import Seat
from queues.quota.posting import Posting, Rejection
from queues.sql.balances import open_books, store_books
from queues.sql.given import FLAG, INTEGERS, MOMENT, NUMBER, PLAIN, TEXT, TEXTS, Given, GivenWide, moment
from queues.sql.handover import Entry, Found, Verdict, Wanted
from queues.sql.journal import post
from queues.sql.seats import SEAT_TYPES, to_columns
from queues.sql.tables import admissions, workloads
from queues.workload import AdmissionId, QueueName, WorkloadKey, WorkloadKind

#: Who asked for what a workload gets.
Users = Mapping[WorkloadKey, str]
NOBODY: Final[Users] = MappingProxyType({})


async def admit(tx: AsyncConnection, entry: Entry, rows: Sequence[Wanted], users: Users = NOBODY) -> Verdict:
    """Give seats, gang by gang in the order given. ``users``: who asked, as far as it is known.

    A gang that would break a limit, has left, or has a seat twice is dropped whole; the others stand.
    """
    if not rows:
        return Verdict(accepted={}, rejected={})
    taken = await _taken(tx, {row.workload for row in rows})
    each = [Posting.of(row.queue, row.seats) for row in rows]
    books = await open_books(tx, each)
    accepted: list[int] = []
    rejected: dict[int, Rejection] = {}
    for index, (row, posting) in enumerate(zip(rows, each, strict=True)):
        held = taken.get(row.workload)
        rejection = _wrong_seats(row, held) or books.try_post(posting)
        if rejection is not None:
            rejected[index] = rejection
            continue
        accepted.append(index)
        if held is not None:
            held.update((seat.pod_set, seat.ordinal) for seat in row.seats)
    await store_books(tx, books, checked=True)
    admitted = [rows[index] for index in accepted]
    ids = await _open(tx, entry, admitted, [{} for _ in admitted], users)
    await post(tx, entry, "admit", _with_seats(ids, admitted, users))
    return Verdict(accepted=dict(zip(accepted, ids, strict=True)), rejected=rejected)


def _wrong_seats(row: Wanted, held: Collection[tuple[str, int]] | None) -> Rejection | None:
    places = [(seat.pod_set, seat.ordinal) for seat in row.seats]
    if held is None:
        return Rejection(code="Departed", message=f"{row.workload} is not there any more")
    if not places or len(set(places)) != len(places):
        return Rejection(code="InvalidSeat", message=f"{row.workload} asks for no seat, or for one twice")
    if any(units < 0 for takes in {seat.takes for seat in row.seats} for units in takes.values()):
        return Rejection(code="InvalidSeat", message=f"a seat of {row.workload} takes less than nothing")
    if twice := set(places) & set(held):
        pod_set, ordinal = min(twice)
        return Rejection(code="AlreadySeated", message=f"{row.workload} has seat {pod_set}/{ordinal} already")
    return None


_ASKING = Given(kind=TEXT, uid=TEXT)
_TAKEN = (
    select(_ASKING.c.kind, _ASKING.c.uid, admissions.c.pod_sets, admissions.c.ordinals, admissions.c.ended)
    .join(workloads, and_(workloads.c.kind == _ASKING.c.kind, workloads.c.uid == _ASKING.c.uid))
    .outerjoin(
        admissions,
        and_(
            admissions.c.kind == _ASKING.c.kind,
            admissions.c.uid == _ASKING.c.uid,
            admissions.c.state != "closed",
        ),
    )
)


async def _taken(
    tx: AsyncConnection, keys: Collection[WorkloadKey]
) -> dict[WorkloadKey, set[tuple[str, int]]]:
    """Seats that workloads hold; those that never arrived or have left are absent."""
    result = await tx.execute(_TAKEN, _ASKING.rows([(key.kind, key.uid) for key in sorted(keys)]))
    taken: dict[WorkloadKey, set[tuple[str, int]]] = {}
    for kind, uid, pod_sets, ordinals, ended in result:
        seats = taken.setdefault(WorkloadKey(WorkloadKind(kind), uid), set())
        if pod_sets is not None:
            every = enumerate(zip(pod_sets, ordinals, strict=True))
            seats.update(seat for index, seat in every if index not in ended)
    return taken


async def adopt(
    tx: AsyncConnection, entry: Entry, rows: Sequence[Found], users: Users = NOBODY
) -> list[AdmissionId]:
    """Take running pods into the books, whatever the limits say. Ids in the order given."""
    if not rows:
        return []
    wanted = [row.admit for row in rows]
    each = [Posting.of(row.queue, row.seats) for row in wanted]
    books = await open_books(tx, each)
    for posting in each:
        books.post(posting)
    await store_books(tx, books, checked=False)
    ids = await _open(tx, entry, wanted, [row.pods for row in rows], users)
    await post(tx, entry, "adopt", _with_seats(ids, wanted, users))
    return ids


_NEW = GivenWide(
    place=PLAIN,
    kind=TEXT,
    uid=TEXT,
    namespace=TEXT,
    name=TEXT,
    queue=TEXT,
    priority=NUMBER,
    generation=TEXT,
    username=TEXT,
    started=FLAG,
    adopted_pods=TEXTS,
    adopted_seats=INTEGERS,
    **SEAT_TYPES,
)
_STORED = [column for column in _NEW.c if column.key != "place"]
_OPEN = (
    insert(admissions)
    .from_select(
        [*(column.key for column in _STORED), "opened_at", "term"],
        select(*_STORED, bindparam("now", type_=MOMENT), bindparam("term", type_=NUMBER)).order_by(
            _NEW.c.place
        ),
    )
    .returning(admissions.c.id)
)


async def _open(
    tx: AsyncConnection,
    entry: Entry,
    rows: Sequence[Wanted],
    pods: Sequence[Mapping[str, int]],
    users: Users,
) -> list[AdmissionId]:
    if not rows:
        return []
    new = [
        {
            "place": place,
            "kind": row.workload.kind,
            "uid": row.workload.uid,
            "namespace": row.namespace,
            "name": row.name,
            "queue": row.queue,
            "priority": row.priority,
            "generation": row.generation,
            "username": users.get(row.workload, ""),
            "started": bool(adopted),
            "adopted_pods": list(adopted),
            "adopted_seats": list(adopted.values()),
            **to_columns(row.seats),
        }
        for place, (row, adopted) in enumerate(zip(rows, pods, strict=True))
    ]
    stamp = {"now": moment(entry.now), "term": entry.term.number}
    result = await tx.execute(_OPEN, _NEW.rows(new) | stamp)
    # Ids are given in the order of the rows, so the smallest is the first one's.
    return sorted(result.scalars())


def _with_seats(
    ids: Sequence[AdmissionId], rows: Sequence[Wanted], users: Users
) -> list[tuple[AdmissionId, QueueName, str, Sequence[Seat]]]:
    return [
        (id_, row.queue, users.get(row.workload, ""), row.seats) for id_, row in zip(ids, rows, strict=True)
    ]
