"""The leader: one lease row, renewed by its exact term, and one fence row that its writers lock.

A term is (holder, number). The number grows with every election, so a holder that comes back after a long
sleep is recognised, and so is a process that was elected again under the same name. All times are the database's
``clock_timestamp()``; the leader itself trusts only its monotonic clock (``LeaseTrust``). The rules are the ones
of river's leader election: renewing and resigning need the exact term, and a notification only wakes.

Lease and fence are two rows, so that a renewal never waits for a transaction that writes, however long it takes:

- Renewals lock the lease row only. Writers lock the fence row only, and read the lease without a lock.
- An election changes both, the lease first: only a replica that has won the lease touches the fence. There it waits
  until the writers of the old term have ended; what they committed is there when the new term reads the ledger.
- A writer of the old term that has not ended within ``MARGIN_SECONDS`` is ended: its process may stand still between
  two messages of one statement, where none of Postgres' timeouts counts.
- A writer that comes later finds another term in the fence, and writes nothing. So what keeps a deposed leader from
  writing is the term in the locked row. That the lease has not run out either is checked once, at the beginning; a
  transaction that outlives its lease is over before a successor can read or write.
- Ledger transactions lock the fence against one another and against intake; intake's transactions share it.

The leader's heartbeat: a row that shows every replica how old the stored state of the cluster is.

All times are the database's ``clock_timestamp()``, so that the clocks of replicas do not matter.
"""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Interval, and_, bindparam, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.errors import Fenced
from queues.sql.lease_times import LEASE_SECONDS, MARGIN_SECONDS
from queues.sql.tables import fences, heartbeats, leases

#: Name of the lease that the controller holds.
CONTROLLER = "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One period of leadership."""

    holder: str
    number: int

    def fenced(self, reason: str) -> Fenced:
        """The error that ends what this term was about to write."""
        return Fenced(term=self.number, holder=self.holder, reason=reason)

    def parameters(self) -> dict[str, str | int]:
        """Of statements that find the rows of this very term by ``_OWN_LEASE`` or ``_OWN_FENCE``."""
        return {"leader": self.holder, "number": self.number}


#: Condition on the lease row: this very term, given as ``Term.parameters``.
_OWN_LEASE: Final = and_(
    leases.c.name == CONTROLLER,
    leases.c.holder == bindparam("leader"),
    leases.c.term == bindparam("number"),
)
#: Condition on the fence row: the same.
_OWN_FENCE: Final = and_(fences.c.name == CONTROLLER, fences.c.term == bindparam("number"))

_VALID: Final = leases.c.expires > func.clock_timestamp()

#: Whether the lease of the term that ``Term.parameters`` give has not ended; null: another term has begun.
_LEASE_IS_VALID: Final = select(_VALID).where(_OWN_LEASE).scalar_subquery()


@dataclass(frozen=True, slots=True)
class LeaseTrust:
    """How long a leader may believe that it leads, by its own monotonic clock (which the caller reads)."""

    until: float

    @classmethod
    def since(
        cls, attempt_started: float, lease_seconds: float, margin: float = MARGIN_SECONDS
    ) -> "LeaseTrust":
        """After an election or renewal *started* then: a slow answer costs trust and never adds to it."""
        return cls(attempt_started + lease_seconds - margin)

    def holds(self, now: float) -> bool:
        """Whether writing is still allowed."""
        return now < self.until

    def left(self, now: float) -> float:
        """Seconds of trust left, never negative."""
        return max(0.0, self.until - now)


async def elect(tx: AsyncConnection, name: str, lease_seconds: float = LEASE_SECONDS) -> Term | None:
    """Take the lease if it is free; None if another process holds it.

    ``name``: of the new holder, which no other process has; a lease that has not ended is never taken, whatever it is.
    """
    # Read without a lock first, so that waiting replicas do not disturb the leader.
    if await holder(tx) is not None:
        return None
    first = insert(leases).values(name=CONTROLLER, holder=name, term=1, expires=_end(lease_seconds))
    number = await tx.scalar(
        first.on_conflict_do_update(
            index_elements=[leases.c.name],
            set_={"holder": name, "term": leases.c.term + 1, "expires": _end(lease_seconds)},
            where=leases.c.expires <= func.clock_timestamp(),
        ).returning(leases.c.term)
    )
    if number is None:
        return None
    await tx.execute(_END_OLD_WRITERS, {"seconds": MARGIN_SECONDS})
    fence = insert(fences).values(name=CONTROLLER, term=number)
    # Waits for the writers of the last term.
    await tx.execute(
        fence.on_conflict_do_update(index_elements=[fences.c.name], set_={"term": fence.excluded.term})
    )
    return Term(holder=name, number=number)


#: Every other session that has locked rows of the fence is a writer of an old term, for the lease is locked.
_END_OLD_WRITERS: Final = text(
    """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
    AND xact_start < clock_timestamp() - make_interval(secs => CAST(:seconds AS double precision))
    AND pid IN (
        SELECT pid FROM pg_locks
        WHERE relation = 'fences'::regclass AND mode IN ('RowShareLock', 'RowExclusiveLock')
    )
    """
)


async def renew(tx: AsyncConnection, term: Term, lease_seconds: float = LEASE_SECONDS) -> Term | None:
    """Hold on for another ``lease_seconds``; ``None``: the term is over (ended or taken)."""
    return term if await _set_end(tx, term, _end(lease_seconds)) else None


async def resign(tx: AsyncConnection, term: Term) -> bool:
    """End the term now, so that the next leader need not wait; false: it was over already."""
    return await _set_end(tx, term, func.clock_timestamp())


async def _set_end(tx: AsyncConnection, term: Term, end: ColumnElement[Any]) -> bool:
    """False: the term is over."""
    moved = update(leases).where(_OWN_LEASE, _VALID).values(expires=end).returning(leases.c.term)
    return await tx.scalar(moved, term.parameters()) is not None


async def database_time(tx: AsyncConnection) -> float:
    """Seconds since the epoch by the database's clock, which all terms share."""
    return float(await tx.scalar(_NOW) or 0.0)


async def holder(tx: AsyncConnection) -> str | None:
    """Name of the process that leads now; None if none does."""
    found: str | None = await tx.scalar(select(leases.c.holder).where(leases.c.name == CONTROLLER, _VALID))
    return found


_NOW = select(func.extract("epoch", func.clock_timestamp()))

_CHECK = select(_LEASE_IS_VALID).select_from(fences).where(_OWN_FENCE).with_for_update(read=True, of=fences)


async def check_term(tx: AsyncConnection, term: Term) -> None:
    """Hold off elections and ledger writes until this transaction ends. Raises Fenced: the term is over."""
    _require_valid(term, await tx.scalar(_CHECK, term.parameters()))


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTransaction:
    """The right to write into the ledger until the transaction ends: proof that the fence was passed."""

    term: Term
    #: Sequence number of this transaction; the next one is fenced with it.
    seq: int
    #: Seconds since the epoch, from the plan.
    now: int


_FENCE = (
    update(fences)
    .where(_OWN_FENCE)
    .values(ledger_seq=fences.c.ledger_seq + 1)
    # Read after the row is locked, so that the wait for the lock counts as well.
    .returning(fences.c.ledger_seq, _LEASE_IS_VALID)
)


async def fence(tx: AsyncConnection, term: Term, *, ledger_seq: int, now: int) -> LedgerTransaction:
    """Take the ledger for this transaction alone: as the current leader, knowing its last sequence number.

    Raises Fenced when the term is over, or when the ledger was written since ``ledger_seq``: read the world again.
    """
    row = (await tx.execute(_FENCE, term.parameters())).one_or_none()
    seq, is_valid = row or (0, None)
    _require_valid(term, is_valid)
    if seq != ledger_seq + 1:
        raise term.fenced(f"the ledger is at {seq - 1}, this was decided at {ledger_seq}")
    return LedgerTransaction(term=term, seq=seq, now=now)


def _require_valid(term: Term, is_valid: bool | None) -> None:
    """Raises Fenced if the lease of the term has ended, or (None) if lease or fence are of another term."""
    if not is_valid:
        raise term.fenced("a later term has begun" if is_valid is None else "its lease has ended")


def _end(lease_seconds: float) -> ColumnElement[object]:
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, lease_seconds, type_=Interval)


#: A lost heartbeat costs nothing, so it need not wait for the disk.
_UNFLUSHED = text("SET LOCAL synchronous_commit = off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The last heartbeat of a leader, as of the moment it is read."""

    holder: str
    term: int
    #: Seconds since the cluster was as the tables say.
    age: float
    #: Why that is some time ago, as a sentence; "": nothing was behind when the heartbeat was written.
    behind: str
    #: Where the holder's read API is: https://host:port; "": not known.
    address: str


async def beat(tx: AsyncConnection, term: Term, *, seconds: float, behind: str, address: str) -> None:
    """Store that the tables show how the cluster was ``seconds`` ago. A later term's heartbeat is left alone."""
    await tx.execute(_UNFLUSHED)
    current = func.clock_timestamp() - func.make_interval(0, 0, 0, 0, 0, 0, seconds, type_=Interval)
    told = {
        "holder": term.holder,
        "term": term.number,
        "current_at": current,
        "behind": behind,
        "address": address,
    }
    await tx.execute(
        insert(heartbeats)
        .values(lease=CONTROLLER, **told)
        .on_conflict_do_update(
            index_elements=[heartbeats.c.lease], set_=told, where=heartbeats.c.term <= term.number
        )
    )


async def last_heartbeat(tx: AsyncConnection) -> Heartbeat | None:
    """The last heartbeat of any leader; None if no replica has ever led."""
    age = func.extract("epoch", func.clock_timestamp() - heartbeats.c.current_at)
    columns = heartbeats.c["holder", "term", "behind", "address"]
    question = select(*columns, age.label("age")).where(heartbeats.c.lease == CONTROLLER)
    row = (await tx.execute(question)).first()
    if row is None:
        return None
    return Heartbeat(
        holder=row.holder,
        term=row.term,
        age=max(0.0, float(row.age)),
        behind=row.behind,
        address=row.address,
    )
