"""Seats are given back, and an admission closes with its last one."""

from collections.abc import Sequence

from sqlalchemy import bindparam, case, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import Seat
from queues.quota.posting import Posting
from queues.sql.balances import open_books, store_books
from queues.sql.given import FLAG, INTEGERS, MOMENT, NUMBER, GivenWide, moment
from queues.sql.handover import Entry, Freed, GivenBack
from queues.sql.journal import post
from queues.sql.seats import held_seats
from queues.sql.tables import admissions
from queues.workload import AdmissionId, QueueName


async def free(tx: AsyncConnection, entry: Entry, rows: Sequence[GivenBack]) -> Freed:
    """Give seats back. One that ended already gives nothing; an admission closes when its last seat ends."""
    asked: dict[AdmissionId, frozenset[int]] = {}
    for row in rows:
        asked[row.admission] = asked.get(row.admission, frozenset()) | row.seats
    ending: dict[AdmissionId, frozenset[int]] = {}
    closed: set[AdmissionId] = set()
    moves: list[tuple[AdmissionId, QueueName, str, list[Seat]]] = []
    kept: list[tuple[AdmissionId, list[int], bool]] = []
    for id_, queue, user, ended, seats in await held_seats(tx, sorted(asked)):
        now_ended = asked[id_] & frozenset(range(len(seats))) - ended
        everything = len(ended) + len(now_ended) == len(seats)
        if not now_ended and not everything:
            continue
        moves.append((id_, queue, user, [seats[index] for index in sorted(now_ended)]))
        kept.append((id_, sorted(ended | now_ended), everything))
        ending[id_] = now_ended
        if everything:
            closed.add(id_)
    if kept:
        books_of = [Posting.of(queue, seats, sign=-1) for _, queue, _, seats in moves]
        books = await open_books(tx, books_of)
        for posting in books_of:
            books.post(posting)
        await store_books(tx, books, checked=False)
        await _store_ended(tx, entry, kept)
        await post(tx, entry, "free", moves)
    return Freed(seats=ending, closed=frozenset(closed))


_ENDED = GivenWide(id=NUMBER, ended=INTEGERS, closed=FLAG)
_STORE_ENDED = (
    update(admissions)
    .where(admissions.c.id == _ENDED.c.id)
    .values(
        ended=_ENDED.c.ended,
        state=case((_ENDED.c.closed, "closed"), else_=admissions.c.state),
        closed_at=case((_ENDED.c.closed, bindparam("now", type_=MOMENT)), else_=None),
    )
)


async def _store_ended(
    tx: AsyncConnection, entry: Entry, kept: Sequence[tuple[AdmissionId, list[int], bool]]
) -> None:
    rows = [{"id": id_, "ended": ended, "closed": closed} for id_, ended, closed in kept]
    await tx.execute(_STORE_ENDED, _ENDED.rows(rows) | {"now": moment(entry.now)})
