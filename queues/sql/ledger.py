"""Who owns what. One short transaction per plan; only ``admission.apply`` imports this.

``fence`` comes first and gives the ``Entry`` that every other function asks for, so nothing is written without it.
Frees come before increases, so that a plan may give away what it gets back. Rows of a plan are taken as they are
(the protocols below).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    DateTime,
    Integer,
    SmallInteger,
    Text,
    case,
    delete,
    func,
    literal,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.errors import Fenced
from queues.sql.balances import open_books, store_books
from queues.sql.books import Posting, Rejection, flavored
from queues.sql.given import NUMBER, TEXT, given, given_wide
from queues.sql.leadership import Term, exactly
from queues.sql.seats import held_seats, to_columns
from queues.sql.tables import (
    admissions,
    backoffs,
    decisions,
    job_states,
    leases,
    postings,
    reasons,
    workloads,
)
from queues.workload import AdmissionId, QueueName, Seat, WorkloadKey, WorkloadKind

__all__ = [
    "Because",
    "Decision",
    "Entry",
    "Found",
    "Freed",
    "GivenBack",
    "JobRow",
    "Rejection",
    "TakenBack",
    "Verdict",
    "Wanted",
    "admit",
    "adopt",
    "evict",
    "fence",
    "free",
    "record_decisions",
    "record_job_states",
    "record_reasons",
    "start",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The right to write into the ledger until the transaction ends: proof that the fence was passed."""

    term: Term
    #: Sequence number of this transaction; the next one is fenced with it.
    seq: int
    #: Seconds since the epoch, from the plan.
    now: int


class Wanted(Protocol):
    """Seats for a workload (``admission.engine.plan.Admit``)."""

    @property
    def workload(self) -> WorkloadKey:
        """Who gets them."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def queue(self) -> QueueName:
        """Whose quota is taken."""

    @property
    def priority(self) -> int:
        """Value of its priority class."""

    @property
    def generation(self) -> str:
        """What was asked when this was decided."""

    @property
    def seats(self) -> tuple[Seat, ...]:
        """All of them or none."""


class Found(Protocol):
    """Pods that run already (``admission.engine.plan.Adopt``)."""

    @property
    def admit(self) -> Wanted:
        """The seats they have."""

    @property
    def pods(self) -> Mapping[str, int]:
        """Pod uid → index into the seats."""


class GivenBack(Protocol):
    """Seats of an admission that are free (``admission.engine.plan.Free``)."""

    @property
    def admission(self) -> AdmissionId:
        """Whose."""

    @property
    def seats(self) -> frozenset[int]:
        """Indices into its seats."""


class TakenBack(Protocol):
    """An admission to take back whole (``admission.engine.plan.Evict``)."""

    @property
    def admission(self) -> AdmissionId:
        """Which."""

    @property
    def code(self) -> str:
        """Why, as a code."""

    @property
    def message(self) -> str:
        """Why, as a sentence."""

    @property
    def not_before(self) -> int:
        """Seconds since the epoch until which the workload must wait; 0: it was not rolled back."""

    @property
    def beneficiary(self) -> WorkloadKey | None:
        """For whom."""


class Because(Protocol):
    """Why a workload waits (``admission.engine.plan.Reason``)."""

    @property
    def code(self) -> str:
        """Of the closed vocabulary."""

    @property
    def message(self) -> str:
        """Sentence with the numbers."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of the rows given to ``admit``, by their index there."""

    accepted: Mapping[int, AdmissionId]
    rejected: Mapping[int, Rejection]


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """What ``free`` really gave back; what was free already is absent."""

    #: By admission: indices that ended now.
    seats: Mapping[AdmissionId, frozenset[int]]
    closed: frozenset[AdmissionId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One line of the decision log: who for whom, by which rule, on which numbers."""

    #: admit | adopt | evict | free | reject | claim
    kind: str
    workload: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    code: str = ""
    message: str = ""
    admission: AdmissionId | None = None
    beneficiary: WorkloadKey | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """Where a Volcano Job is in its life, as ``admission.jobs`` writes it (phase, version, retryCount, …)."""

    key: WorkloadKey
    state: Mapping[str, Any]


async def fence(tx: AsyncConnection, term: Term, *, ledger_seq: int, now: int) -> Entry:
    """Take the ledger for this transaction alone: as the current leader, knowing its last sequence number.

    Raises Fenced when the term is over, or when somebody wrote since ``ledger_seq``: then the world is to be read
    again.
    """
    row = (
        await tx.execute(
            update(leases)
            .where(exactly(term))
            .values(ledger_seq=leases.c.ledger_seq + 1)
            .returning(leases.c.ledger_seq, leases.c.expires > func.clock_timestamp())
        )
    ).one_or_none()
    if row is None:
        raise Fenced(term=term.number, holder=term.holder, reason="a later term has begun")
    seq, alive = row
    if not alive:
        raise Fenced(term=term.number, holder=term.holder, reason="its lease has ended")
    if seq != ledger_seq + 1:
        raise Fenced(
            term=term.number,
            holder=term.holder,
            reason=f"the ledger is at {seq - 1}, this was decided at {ledger_seq}",
        )
    return Entry(term=term, seq=seq, now=now)


async def free(tx: AsyncConnection, entry: Entry, rows: Sequence[GivenBack]) -> Freed:
    """Give seats back. A seat that ended already gives nothing; an admission closes when its last seat ends."""
    asked: dict[AdmissionId, frozenset[int]] = {}
    for row in rows:
        asked[row.admission] = asked.get(row.admission, frozenset()) | row.seats
    ending: dict[AdmissionId, frozenset[int]] = {}
    closed: set[AdmissionId] = set()
    moves: list[tuple[AdmissionId, QueueName, list[Seat]]] = []
    kept: list[tuple[AdmissionId, list[int], bool]] = []
    for id_, queue, ended, seats in await held_seats(tx, sorted(asked)):
        now_ended = asked[id_] & frozenset(range(len(seats))) - ended
        everything = len(ended) + len(now_ended) == len(seats)
        if not now_ended and not everything:
            continue
        moves.append((id_, queue, [seats[index] for index in sorted(now_ended)]))
        kept.append((id_, sorted(ended | now_ended), everything))
        ending[id_] = now_ended
        if everything:
            closed.add(id_)
    if kept:
        books_of = [Posting.of(queue, seats, sign=-1) for _, queue, seats in moves]
        books = await open_books(tx, books_of)
        for posting in books_of:
            books.post(posting)
        await store_books(tx, books, checked=False)
        await _store_ended(tx, entry, kept)
        await _post(tx, entry, "free", moves)
    return Freed(seats=ending, closed=frozenset(closed))


async def _store_ended(
    tx: AsyncConnection, entry: Entry, kept: Sequence[tuple[AdmissionId, list[int], bool]]
) -> None:
    now = given_wide(
        [{"id": id_, "ended": ended, "closed": closed} for id_, ended, closed in kept],
        id=BigInteger(),
        ended=ARRAY(Integer),
        closed=Boolean(),
    )
    await tx.execute(
        update(admissions)
        .where(admissions.c.id == now.c.id)
        .values(
            ended=now.c.ended,
            state=case((now.c.closed, "closed"), else_=admissions.c.state),
            closed_at=case((now.c.closed, _moment(entry.now)), else_=None),
        )
    )


async def adopt(tx: AsyncConnection, entry: Entry, rows: Sequence[Found]) -> list[AdmissionId]:
    """Take running pods into the books, whatever the limits say. Ids in the order given."""
    if not rows:
        return []
    wanted = [row.admit for row in rows]
    each = [Posting.of(row.queue, row.seats) for row in wanted]
    books = await open_books(tx, each)
    for posting in each:
        books.post(posting)
    await store_books(tx, books, checked=False)
    ids = await _open(tx, entry, wanted, [row.pods for row in rows])
    await _post(tx, entry, "adopt", _with_seats(ids, wanted))
    return ids


async def admit(tx: AsyncConnection, entry: Entry, rows: Sequence[Wanted]) -> Verdict:
    """Give seats, gang by gang in the order given.

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
    ids = await _open(tx, entry, admitted, [{} for _ in admitted])
    await _post(tx, entry, "admit", _with_seats(ids, admitted))
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


async def _taken(
    tx: AsyncConnection, keys: Collection[WorkloadKey]
) -> dict[WorkloadKey, set[tuple[str, int]]]:
    """Seats that workloads hold; those that never arrived or have left are absent."""
    asked = given([(key.kind, key.uid) for key in sorted(keys)], kind=TEXT, uid=TEXT)
    result = await tx.execute(
        select(asked.c.kind, asked.c.uid, admissions.c.pod_sets, admissions.c.ordinals, admissions.c.ended)
        .join(workloads, (workloads.c.kind == asked.c.kind) & (workloads.c.uid == asked.c.uid))
        .outerjoin(
            admissions,
            (admissions.c.kind == asked.c.kind)
            & (admissions.c.uid == asked.c.uid)
            & (admissions.c.state != "closed"),
        )
    )
    taken: dict[WorkloadKey, set[tuple[str, int]]] = {}
    for kind, uid, pod_sets, ordinals, ended in result:
        seats = taken.setdefault(WorkloadKey(WorkloadKind(kind), uid), set())
        if pod_sets is not None:
            every = enumerate(zip(pod_sets, ordinals, strict=True))
            seats.update(seat for index, seat in every if index not in ended)
    return taken


async def _open(
    tx: AsyncConnection, entry: Entry, rows: Sequence[Wanted], pods: Sequence[Mapping[str, int]]
) -> list[AdmissionId]:
    if not rows:
        return []
    new = given_wide(
        [
            {
                "place": place,
                "kind": row.workload.kind,
                "uid": row.workload.uid,
                "namespace": row.namespace,
                "name": row.name,
                "queue": row.queue,
                "priority": row.priority,
                "generation": row.generation,
                "started": bool(adopted),
                "adopted_pods": list(adopted),
                "adopted_seats": list(adopted.values()),
                **to_columns(row.seats),
            }
            for place, (row, adopted) in enumerate(zip(rows, pods, strict=True))
        ],
        place=Integer(),
        kind=Text(),
        uid=Text(),
        namespace=Text(),
        name=Text(),
        queue=Text(),
        priority=BigInteger(),
        generation=Text(),
        started=Boolean(),
        adopted_pods=ARRAY(Text),
        adopted_seats=ARRAY(Integer),
        pod_sets=ARRAY(Text),
        ordinals=ARRAY(Integer),
        nodes=ARRAY(Text),
        flavors=ARRAY(Text),
        shape_of=ARRAY(SmallInteger),
        shapes=JSONB(),
    )
    # Ids are given in the order of the sorted rows; sorted again, they are those of the rows in order.
    columns = [column for column in new.c if column.key != "place"]
    result = await tx.execute(
        insert(admissions)
        .from_select(
            [*(column.key for column in columns), "opened_at", "term"],
            select(*columns, _moment(entry.now), literal(entry.term.number, NUMBER)).order_by(new.c.place),
        )
        .returning(admissions.c.id)
    )
    return sorted(result.scalars())


def _with_seats(
    ids: Sequence[AdmissionId], rows: Sequence[Wanted]
) -> list[tuple[AdmissionId, QueueName, Sequence[Seat]]]:
    return [(id_, row.queue, row.seats) for id_, row in zip(ids, rows, strict=True)]


async def _post(
    tx: AsyncConnection,
    entry: Entry,
    kind: str,
    moves: Sequence[tuple[AdmissionId, QueueName, Sequence[Seat]]],
) -> None:
    """The journal: the queue takes from the pool, or the pool takes back."""
    lines = []
    for id_, queue, seats in moves:
        amounts = flavored(seats)
        account = f"queue/{queue}"
        debit, credit = ("pool", account) if kind == "free" else (account, "pool")
        lines.append(
            {
                "kind": kind,
                "admission": id_,
                "debit": debit,
                "credit": credit,
                "flavors": [flavor for flavor, _ in amounts],
                "resources": [resource for _, resource in amounts],
                "amounts": list(amounts.values()),
            }
        )
    if not lines:
        return
    new = given_wide(
        lines,
        kind=Text(),
        admission=BigInteger(),
        debit=Text(),
        credit=Text(),
        flavors=ARRAY(Text),
        resources=ARRAY(Text),
        amounts=ARRAY(BigInteger),
    )
    await tx.execute(
        insert(postings).from_select(
            [*new.c.keys(), "posted_at", "ledger_seq", "term"], select(*new.c, *_stamp(entry))
        )
    )


async def start(tx: AsyncConnection, entry: Entry, ids: Collection[AdmissionId]) -> None:
    """Note that every seat of these admissions has had a bound pod."""
    started = given([(id_,) for id_ in sorted(ids)], id=NUMBER)
    await tx.execute(update(admissions).where(admissions.c.id == started.c.id).values(started=True))


async def evict(tx: AsyncConnection, entry: Entry, rows: Sequence[TakenBack]) -> frozenset[AdmissionId]:
    """Start taking admissions back; returns those that were open until now. Their seats stay held until freed."""
    if not rows:
        return frozenset()
    taken = given(
        [
            (
                row.admission,
                row.code,
                row.message,
                row.not_before,
                row.beneficiary.kind if row.beneficiary else None,
                row.beneficiary.uid if row.beneficiary else None,
            )
            for row in {row.admission: row for row in rows}.values()
        ],
        id=NUMBER,
        code=TEXT,
        message=TEXT,
        not_before=NUMBER,
        beneficiary_kind=TEXT,
        beneficiary_uid=TEXT,
    )
    result = await tx.execute(
        update(admissions)
        .where(admissions.c.id == taken.c.id, admissions.c.state == "open")
        .values(
            state="evicting",
            evicted_at=_moment(entry.now),
            cause_code=taken.c.code,
            cause_message=taken.c.message,
            beneficiary_kind=taken.c.beneficiary_kind,
            beneficiary_uid=taken.c.beneficiary_uid,
        )
        .returning(admissions.c.id, admissions.c.kind, admissions.c.uid, taken.c.not_before)
    )
    evicted = result.all()
    await _back_off(tx, {(row.kind, row.uid): row.not_before for row in evicted if row.not_before > 0})
    return frozenset(AdmissionId(row.id) for row in evicted)


async def _back_off(tx: AsyncConnection, until: Mapping[tuple[str, str], int]) -> None:
    if not until:
        return
    new = given(
        [(*key, moment, 1) for key, moment in sorted(until.items())],
        kind=TEXT,
        uid=TEXT,
        not_before=NUMBER,
        rollbacks=NUMBER,
    )
    rows = insert(backoffs).from_select(new.c.keys(), select(*new.c))
    await tx.execute(
        rows.on_conflict_do_update(
            index_elements=list(backoffs.primary_key),
            set_={
                "not_before": func.greatest(backoffs.c.not_before, rows.excluded.not_before),
                "rollbacks": backoffs.c.rollbacks + 1,
            },
        )
    )


async def record_decisions(tx: AsyncConnection, entry: Entry, rows: Sequence[Decision]) -> None:
    """Append to the decision log."""
    if not rows:
        return
    lines = given_wide(
        [
            {
                "kind": row.kind,
                "workload_kind": row.workload.kind,
                "workload_uid": row.workload.uid,
                "namespace": row.namespace,
                "name": row.name,
                "queue": row.queue,
                "code": row.code,
                "message": row.message,
                "admission": row.admission,
                "beneficiary_kind": row.beneficiary.kind if row.beneficiary else None,
                "beneficiary_uid": row.beneficiary.uid if row.beneficiary else None,
                "numbers": _jsonable(row.numbers),
            }
            for row in rows
        ],
        kind=Text(),
        workload_kind=Text(),
        workload_uid=Text(),
        namespace=Text(),
        name=Text(),
        queue=Text(),
        code=Text(),
        message=Text(),
        admission=BigInteger(),
        beneficiary_kind=Text(),
        beneficiary_uid=Text(),
        numbers=JSONB(),
    )
    await tx.execute(
        insert(decisions).from_select(
            [*lines.c.keys(), "decided_at", "ledger_seq", "term"], select(*lines.c, *_stamp(entry))
        )
    )


async def record_reasons(
    tx: AsyncConnection,
    entry: Entry,
    changed: Mapping[WorkloadKey, Because],
    gone: Collection[WorkloadKey] = (),
) -> None:
    """Store changed reasons, and forget those of workloads that wait no more."""
    left = sorted(set(gone) - changed.keys())
    if left:
        keys = given([(key.kind, key.uid) for key in left], kind=TEXT, uid=TEXT)
        await tx.execute(delete(reasons).where(reasons.c.kind == keys.c.kind, reasons.c.uid == keys.c.uid))
    if not changed:
        return
    new = given_wide(
        [
            {
                "kind": key.kind,
                "uid": key.uid,
                "code": reason.code,
                "message": reason.message,
                "facts": _jsonable(reason.facts),
            }
            for key, reason in sorted(changed.items())
        ],
        kind=Text(),
        uid=Text(),
        code=Text(),
        message=Text(),
        facts=JSONB(),
    )
    rows = insert(reasons).from_select([*new.c.keys(), "since"], select(*new.c, _moment(entry.now)))
    await tx.execute(
        rows.on_conflict_do_update(
            index_elements=list(reasons.primary_key),
            set_={
                "code": rows.excluded.code,
                "message": rows.excluded.message,
                "facts": rows.excluded.facts,
                "since": case(
                    (reasons.c.code == rows.excluded.code, reasons.c.since), else_=rows.excluded.since
                ),
            },
        )
    )


async def record_job_states(tx: AsyncConnection, entry: Entry, rows: Sequence[JobRow]) -> None:
    """Store transitions of Volcano Jobs; the last row about a Job counts."""
    if not rows:
        return
    new = given_wide(
        [
            {"kind": key.kind, "uid": key.uid, "state": _jsonable(state)}
            for key, state in sorted({row.key: row.state for row in rows}.items(), key=lambda item: item[0])
        ],
        kind=Text(),
        uid=Text(),
        state=JSONB(),
    )
    insertion = insert(job_states).from_select(
        [*new.c.keys(), "changed_at"], select(*new.c, _moment(entry.now))
    )
    await tx.execute(
        insertion.on_conflict_do_update(
            index_elements=list(job_states.primary_key),
            set_={"state": insertion.excluded.state, "changed_at": insertion.excluded.changed_at},
        )
    )


def _stamp(entry: Entry) -> tuple[ColumnElement[Any], ...]:
    return _moment(entry.now), literal(entry.seq, NUMBER), literal(entry.term.number, NUMBER)


def _moment(seconds: int) -> ColumnElement[Any]:
    return literal(datetime.fromtimestamp(seconds, UTC), DateTime(timezone=True))


def _jsonable(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in facts.items()}
