"""Admissions are opened, freed and evicted; claims on what their victims leave are stored and dropped.

Gangs get seats as far as the limits allow, each checked against the books as the gangs before it left them; running
pods are adopted whatever the limits say. An admission closes when its last seat is given back, and moves to the
history. An eviction keeps the seats, and notes what it means for the next try of the workload. A claim is space that is
promised to a beneficiary while its victims leave.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern

from sqlalchemy import any_, bindparam, case, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.admissions import Claim, Seat, StageTimes, Unready
from queues.kind_names import KindName
from queues.plan import NO_USERS, Admit, Adopt, Evict, Free, Setback, setbacks_of
from queues.quota.posting import Posting, Rejection
from queues.reason_codes import ReasonCode
from queues.sql.leadership import LedgerTransaction
from queues.sql.ledger.balances import open_books, store_books
from queues.sql.ledger.journal import NO_STAGES, STAGES, STAGES_TOLD, post, stage_rows
from queues.sql.seat_columns import SEAT_NAMES, held_seats, to_columns
from queues.sql.statements import (
    KEYS,
    MOMENT,
    NUMBER,
    PLAIN,
    TEXT,
    JsonRows,
    UnnestRows,
    attributes,
    insert_rows,
    key_rows,
    moment,
    same,
    upsert_rows,
)
from queues.sql.tables import admissions, backoffs, claims, closed_admissions, workloads
from queues.workload import AdmissionId, QueueName, WorkloadKey

#: Users by workload; absent: unknown.
Users = Mapping[WorkloadKey, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerOutcome:
    """What became of the rows given to ``admit`` or ``adopt``, by their index there."""

    accepted: Mapping[int, AdmissionId] = field(default_factory=dict)
    rejected: Mapping[int, Rejection] = field(default_factory=dict)
    #: Since when the workloads of the accepted rows hold seats without a break (seconds since the epoch).
    starts: Mapping[WorkloadKey, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """What ``free`` really gave back; what was free already is absent."""

    #: By admission: indices that ended now.
    seats: Mapping[AdmissionId, frozenset[int]]
    closed: frozenset[AdmissionId]


async def admit(
    tx: AsyncConnection, transaction: LedgerTransaction, rows: Sequence[Admit], users: Users = NO_USERS
) -> LedgerOutcome:
    """Give seats to gangs, in the order given. A gang that would break a limit, has left, or has a seat twice is
    rejected whole, and no other gang with it: also its elastic parts, which are too few to run alone.
    """
    if not rows:
        return LedgerOutcome()
    taken = await _taken(tx, {row.workload for row in rows})
    each = [Posting.of(row.queue, row.seats) for row in rows]
    books = await open_books(tx, each)
    accepted: list[int] = []
    rejected: dict[int, Rejection] = {}
    gangs_rejected: dict[WorkloadKey, Rejection] = {}
    for index, (row, posting) in enumerate(zip(rows, each, strict=True)):
        held = taken.get(row.workload)
        rejection = gangs_rejected.get(row.workload) if row.elastic else None
        rejection = rejection or _wrong_seats(row, held) or books.try_post(posting)
        if rejection is not None:
            rejected[index] = rejection
            if not row.elastic:
                gangs_rejected[row.workload] = rejection
            continue
        accepted.append(index)
        if held is not None:
            held.update((seat.pod_set, seat.ordinal) for seat in row.seats)
    await store_books(tx, books, checked=True)
    admitted = [rows[index] for index in accepted]
    ids, starts = await _open(tx, transaction, admitted, [{} for _ in admitted], users)
    await post(tx, transaction, "admit", _with_seats(ids, admitted, users))
    return LedgerOutcome(accepted=dict(zip(accepted, ids, strict=True)), rejected=rejected, starts=starts)


def _wrong_seats(row: Admit, held: Collection[tuple[str, int]] | None) -> Rejection | None:
    places = [(seat.pod_set, seat.ordinal) for seat in row.seats]
    if held is None:
        return Rejection(code=ReasonCode.DEPARTED, message=f"{row.workload} is not there any more")
    if not places or len(set(places)) != len(places):
        return Rejection(
            code=ReasonCode.INVALID_SEAT, message=f"{row.workload} asks for no seat, or for one twice"
        )
    if any(units < 0 for takes in {seat.takes for seat in row.seats} for units in takes.values()):
        return Rejection(
            code=ReasonCode.INVALID_SEAT, message=f"a seat of {row.workload} takes less than nothing"
        )
    if twice := set(places) & set(held):
        pod_set, ordinal = min(twice)
        return Rejection(
            code=ReasonCode.ALREADY_SEATED, message=f"{row.workload} has seat {pod_set}/{ordinal} already"
        )
    return None


_SELECT_TAKEN_SEATS = (
    select(*KEYS.c, *admissions.c["pod_sets", "ordinals", "ended"])
    .join(workloads, same(workloads, KEYS))
    .outerjoin(admissions, same(admissions, KEYS))
)


async def _taken(
    tx: AsyncConnection, keys: Collection[WorkloadKey]
) -> dict[WorkloadKey, set[tuple[str, int]]]:
    """Seats that workloads hold, as (pod set, ordinal). Absent: the workload never arrived, or has left."""
    result = await tx.execute(_SELECT_TAKEN_SEATS, KEYS.rows(key_rows(keys)))
    taken: dict[WorkloadKey, set[tuple[str, int]]] = {}
    for kind, uid, pod_sets, ordinals, ended in result:
        seats = taken.setdefault(WorkloadKey(KindName(intern(kind)), uid), set())
        if pod_sets is not None:
            every = enumerate(zip(pod_sets, ordinals, strict=True))
            seats.update(seat for index, seat in every if index not in ended)
    return taken


async def adopt(
    tx: AsyncConnection, transaction: LedgerTransaction, rows: Sequence[Adopt], users: Users = NO_USERS
) -> LedgerOutcome:
    """Open admissions for running pods, whatever the limits say."""
    if not rows:
        return LedgerOutcome()
    wanted = [row.admit for row in rows]
    each = [Posting.of(row.queue, row.seats) for row in wanted]
    books = await open_books(tx, each)
    for posting in each:
        books.post(posting)
    await store_books(tx, books, checked=False)
    ids, starts = await _open(tx, transaction, wanted, [row.pods for row in rows], users)
    await post(tx, transaction, "adopt", _with_seats(ids, wanted, users))
    return LedgerOutcome(accepted=dict(enumerate(ids)), starts=starts)


_OPENING = JsonRows(
    *admissions.c[
        "kind", "uid", "namespace", "name", "queue", "priority", "generation", "username", "started", "ready"
    ],
    *admissions.c["minimum", "adopted_pods", "adopted_seats", *SEAT_NAMES],
    place=PLAIN,
    since=NUMBER,
)

_OPENING_COLUMNS = [column for column in _OPENING.c if column.key not in ("place", "since")]
_OPENED_AT = func.least(bindparam("now", type_=MOMENT), func.to_timestamp(func.nullif(_OPENING.c.since, 0)))
#: Of what its workload holds already, and of what it gets with this one.
_HELD_SINCE = func.least(
    func.min(_OPENED_AT).over(partition_by=_OPENING.c["kind", "uid"]),
    select(func.min(admissions.c.held_since)).where(same(admissions, _OPENING)).scalar_subquery(),
)

_INSERT_ADMISSIONS = (
    insert(admissions)
    .from_select(
        [*(column.key for column in _OPENING_COLUMNS), "opened_at", "held_since", "term", "admitted_at"],
        select(
            *_OPENING_COLUMNS,
            _OPENED_AT,
            _HELD_SINCE,
            bindparam("term", type_=NUMBER),
            func.clock_timestamp(),
        ).order_by(_OPENING.c.place),
    )
    .returning(*admissions.c["id", "kind", "uid", "held_since"])
)


async def _open(
    tx: AsyncConnection,
    transaction: LedgerTransaction,
    rows: Sequence[Admit],
    pods: Sequence[Mapping[str, int]],
    users: Users,
) -> tuple[list[AdmissionId], dict[WorkloadKey, int]]:
    """The ids of new admissions, in the order given, and since when their workloads hold seats."""
    if not rows:
        return [], {}
    new = [
        {
            "place": place,
            **attributes(row.workload, "kind", "uid"),
            **attributes(row, "namespace", "name", "queue", "priority", "generation", "minimum", "since"),
            "username": users.get(row.workload, ""),
            "started": bool(adopted),
            "ready": bool(adopted),
            "adopted_pods": list(adopted),
            "adopted_seats": list(adopted.values()),
            **to_columns(row.seats),
        }
        for place, (row, adopted) in enumerate(zip(rows, pods, strict=True))
    ]
    stamp = {"now": moment(transaction.now), "term": transaction.term.number}
    result = (await tx.execute(_INSERT_ADMISSIONS, _OPENING.rows(new) | stamp)).all()
    starts = {
        WorkloadKey(KindName(intern(kind)), uid): int(held_since.timestamp())
        for _, kind, uid, held_since in result
    }
    # Ids are given in the order of the rows, so the smallest belongs to the first row.
    return sorted(row.id for row in result), starts


def _with_seats(
    ids: Sequence[AdmissionId], rows: Sequence[Admit], users: Users
) -> list[tuple[AdmissionId, QueueName, str, Sequence[Seat]]]:
    return [
        (id_, row.queue, users.get(row.workload, ""), row.seats) for id_, row in zip(ids, rows, strict=True)
    ]


async def free(tx: AsyncConnection, transaction: LedgerTransaction, rows: Sequence[Free]) -> Freed:
    """Give seats back. A seat that ended already changes nothing; an admission closes when its last seat ends."""
    if not rows:
        return Freed(seats={}, closed=frozenset())
    asked: dict[AdmissionId, frozenset[int]] = {}
    for row in rows:
        asked[row.admission] = asked.get(row.admission, frozenset()) | row.seats
    ending: dict[AdmissionId, frozenset[int]] = {}
    closed: set[AdmissionId] = set()
    moves: list[tuple[AdmissionId, QueueName, str, list[Seat]]] = []
    kept: dict[AdmissionId, list[int]] = {}
    for id_, queue, user, ended, seats in await held_seats(tx, sorted(asked)):
        now_ended = asked[id_] & frozenset(range(len(seats))) - ended
        everything = len(ended) + len(now_ended) == len(seats)
        if not now_ended and not everything:
            continue
        moves.append((id_, queue, user, [seats[index] for index in sorted(now_ended)]))
        kept[id_] = sorted(ended | now_ended)
        ending[id_] = now_ended
        if everything:
            closed.add(id_)
    if kept:
        books_of = [Posting.of(queue, seats, sign=-1) for _, queue, _, seats in moves]
        books = await open_books(tx, books_of)
        for posting in books_of:
            books.post(posting)
        await store_books(tx, books, checked=False)
        staying = [{"id": id_, "ended": indices} for id_, indices in kept.items() if id_ not in closed]
        if staying:
            await tx.execute(_STORE_ENDED, _ENDED.rows(staying))
        if closed:
            await tx.execute(_CLOSE, {"ids": sorted(closed), "now": moment(transaction.now)})
        await post(tx, transaction, "free", moves)
    return Freed(seats=ending, closed=frozenset(closed))


_ENDED = JsonRows(*admissions.c["id", "ended"])
_STORE_ENDED = update(admissions).where(admissions.c.id == _ENDED.c.id).values(ended=_ENDED.c.ended)

#: Columns that both tables have: ``admissions`` has what is held, and no more.
_KEPT = tuple(column.key for column in closed_admissions.c if column.key != "closed_at")
_gone = (
    delete(admissions)
    .where(admissions.c.id == any_(bindparam("ids", type_=ARRAY(NUMBER))))
    .returning(*admissions.c[_KEPT])
    .cte("gone")
)
_CLOSE = insert(closed_admissions).from_select(
    [*_KEPT, "closed_at"], select(*_gone.c[_KEPT], bindparam("now", type_=MOMENT))
)


_EVICTIONS = UnnestRows(id=NUMBER, code=TEXT, message=TEXT, beneficiary_kind=TEXT, beneficiary_uid=TEXT)

_EVICT = (
    update(admissions)
    .where(admissions.c.id == _EVICTIONS.c.id, admissions.c.state == "open")
    .values(
        state="evicting",
        evicted_at=bindparam("now", type_=MOMENT),
        cause_code=_EVICTIONS.c.code,
        cause_message=_EVICTIONS.c.message,
        beneficiary_kind=_EVICTIONS.c.beneficiary_kind,
        beneficiary_uid=_EVICTIONS.c.beneficiary_uid,
    )
    .returning(*admissions.c["id", "kind", "uid"])
)


async def evict(
    tx: AsyncConnection, transaction: LedgerTransaction, rows: Sequence[Evict]
) -> frozenset[AdmissionId]:
    """Begin to evict admissions; returns the ids that were open until now.

    Their seats stay held until they are freed. A workload that must wait before its next try counts one rollback
    more; a victim counts one eviction more, and its waiting time starts again: once each, however many admissions it
    loses.
    """
    if not rows:
        return frozenset()
    leaving = [
        (
            row.admission,
            row.code,
            row.message,
            row.beneficiary.kind if row.beneficiary else None,
            row.beneficiary.uid if row.beneficiary else None,
        )
        for row in {row.admission: row for row in rows}.values()
    ]
    result = await tx.execute(_EVICT, _EVICTIONS.rows(leaving) | {"now": moment(transaction.now)})
    owners = {AdmissionId(id_): WorkloadKey(KindName(intern(kind)), uid) for id_, kind, uid in result}
    lost = ((owners[row.admission], row) for row in rows if row.admission in owners)
    await _back_off(tx, transaction, setbacks_of(lost))
    return frozenset(owners)


_START = update(admissions).where(admissions.c.id == STAGES.c.id).values(started=True, **STAGES_TOLD)


async def start(
    tx: AsyncConnection,
    transaction: LedgerTransaction,
    ids: Collection[AdmissionId],
    stages: Mapping[AdmissionId, StageTimes] = NO_STAGES,
) -> None:
    """Mark admissions as started: every seat has had a bound pod. ``stages``: when they came so far."""
    if ids:
        await tx.execute(_START, stage_rows(ids, stages))


_marked = (
    update(admissions)
    .where(admissions.c.id == STAGES.c.id)
    .values(ready=True, **STAGES_TOLD)
    .returning(*admissions.c["kind", "uid"])
    .cte("marked")
)
_NOTE_READY = (
    update(backoffs)
    .where(same(backoffs, _marked), or_(backoffs.c.rollbacks > 0, backoffs.c.unready > 0))
    .values(rollbacks=0, unready=0, unready_revision="", unready_message="")
)


async def note_ready(
    tx: AsyncConnection,
    transaction: LedgerTransaction,
    ids: Collection[AdmissionId],
    stages: Mapping[AdmissionId, StageTimes] = NO_STAGES,
) -> None:
    """Mark admissions as ready: what failed of their workloads before does not count any more.

    ``stages``: when they came so far.
    """
    if ids:
        await tx.execute(_NOTE_READY, stage_rows(ids, stages))


_SETBACKS = UnnestRows(
    *backoffs.c["kind", "uid", "not_before", "rollbacks", "evictions", "waiting_since"],
    *backoffs.c["unready", "unready_revision", "unready_message"],
)

_new_backoffs = insert_rows(backoffs, _SETBACKS)
_counts_nothing = _new_backoffs.excluded.unready == 0
_counts_for_the_same = or_(
    _counts_nothing, backoffs.c.unready_revision == _new_backoffs.excluded.unready_revision
)

_ADD_SETBACKS = _new_backoffs.on_conflict_do_update(
    index_elements=list(backoffs.primary_key),
    set_={
        "not_before": func.greatest(backoffs.c.not_before, _new_backoffs.excluded.not_before),
        "rollbacks": backoffs.c.rollbacks + _new_backoffs.excluded.rollbacks,
        "evictions": backoffs.c.evictions + _new_backoffs.excluded.evictions,
        "waiting_since": func.greatest(backoffs.c.waiting_since, _new_backoffs.excluded.waiting_since),
        "unready": case(
            (_counts_for_the_same, backoffs.c.unready + _new_backoffs.excluded.unready),
            else_=_new_backoffs.excluded.unready,
        ),
        "unready_revision": case(
            (_counts_nothing, backoffs.c.unready_revision), else_=_new_backoffs.excluded.unready_revision
        ),
        "unready_message": case(
            (_counts_nothing, backoffs.c.unready_message), else_=_new_backoffs.excluded.unready_message
        ),
    },
)


async def _back_off(
    tx: AsyncConnection,
    transaction: LedgerTransaction,
    setbacks: Mapping[WorkloadKey, Setback],
) -> None:
    rows = [
        (
            key.kind,
            key.uid,
            each.not_before,
            int(each.not_before > 0),
            int(each.displaced),
            transaction.now if each.displaced else 0,
            *_unready_columns(each.unready),
        )
        for key, each in sorted(setbacks.items())
    ]
    if rows:
        await tx.execute(_ADD_SETBACKS, _SETBACKS.rows(rows))


def _unready_columns(unready: Unready | None) -> tuple[int, str, str]:
    return (0, "", "") if unready is None else (unready.times, unready.revision, unready.message)


_CLAIMS = JsonRows(
    *claims.c["kind", "uid", "queue", "generation", "until", "victims"],
    *(claims.c[name] for name in SEAT_NAMES),
)

_UPSERT_CLAIMS = upsert_rows(claims, _CLAIMS)

_DELETE_CLAIMS = delete(claims).where(same(claims, KEYS))


async def claim(tx: AsyncConnection, transaction: LedgerTransaction, rows: Sequence[Claim]) -> None:
    """Store claims; a later claim of the same beneficiary replaces the earlier one."""
    new = [
        {
            **attributes(row.workload, "kind", "uid"),
            **attributes(row, "queue", "generation", "until", "victims"),
            **to_columns(row.seats),
        }
        for row in rows
    ]
    if new:
        await tx.execute(_UPSERT_CLAIMS, _CLAIMS.rows(new))


async def drop_claims(
    tx: AsyncConnection, transaction: LedgerTransaction, keys: Collection[WorkloadKey]
) -> None:
    """Delete the claims of these beneficiaries."""
    if keys:
        await tx.execute(_DELETE_CLAIMS, KEYS.rows(key_rows(keys)))
