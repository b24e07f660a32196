"""The leader: one lease row, renewed by its exact term.

A term is (holder, number). The number grows with every election, so a holder that comes back after a long
sleep is recognised, and so is a process that was elected again under the same name. All times are the database's
``clock_timestamp()``; the leader itself trusts only its monotonic clock (``LeaseTrust``). The rules are the ones
of river's leader election: renewing and resigning need the exact term, and a notification only wakes.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Interval, and_, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from queues.errors import Fenced
from queues.sql.tables import leases

#: Name of the lease that the controller holds.
CONTROLLER = "controller"
#: Seconds a lease lasts. Lease plus one retry is the longest time without a leader; it must stay below 15 s.
LEASE_SECONDS = 8.0
#: Seconds between two attempts to be elected, or (of the leader) to renew.
RETRY_SECONDS = 2.0
#: Seconds the leader stops trusting its lease before the database does.
MARGIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One period of leadership."""

    holder: str
    number: int
    lease: str = CONTROLLER


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


async def elect(
    tx: AsyncConnection, holder: str, lease_seconds: float = LEASE_SECONDS, *, lease: str = CONTROLLER
) -> Term | None:
    """Take the lease if it is free; None: another process holds it.

    ``holder`` must be unique to this process: a lease that has not ended is never taken, whatever the name.
    """
    # Read without a lock first, so that waiting replicas do not disturb the leader.
    held = await tx.scalar(
        select(leases.c.name).where(leases.c.name == lease, leases.c.expires > func.clock_timestamp())
    )
    if held is not None:
        return None
    first = insert(leases).values(name=lease, holder=holder, term=1, expires=_end(lease_seconds))
    number = await tx.scalar(
        first.on_conflict_do_update(
            index_elements=[leases.c.name],
            set_={"holder": holder, "term": leases.c.term + 1, "expires": _end(lease_seconds)},
            where=leases.c.expires <= func.clock_timestamp(),
        ).returning(leases.c.term)
    )
    return None if number is None else Term(holder=holder, number=number, lease=lease)


async def renew(tx: AsyncConnection, term: Term, lease_seconds: float = LEASE_SECONDS) -> Term | None:
    """Hold on for another ``lease_seconds``; ``None``: the term is over (ended or taken)."""
    number = await tx.scalar(
        update(leases)
        .where(_exactly(term), leases.c.expires > func.clock_timestamp())
        .values(expires=_end(lease_seconds))
        .returning(leases.c.term)
    )
    return None if number is None else term


async def resign(tx: AsyncConnection, term: Term) -> bool:
    """End the term now, so that the next leader need not wait; false: it was over already."""
    number = await tx.scalar(
        update(leases)
        .where(_exactly(term), leases.c.expires > func.clock_timestamp())
        .values(expires=func.clock_timestamp())
        .returning(leases.c.term)
    )
    return number is not None


async def holder(tx: AsyncConnection, *, lease: str = CONTROLLER) -> str | None:
    """Name of the process that leads now; None: none does."""
    found = await tx.scalar(
        select(leases.c.holder).where(leases.c.name == lease, leases.c.expires > func.clock_timestamp())
    )
    return None if found is None else str(found)


_CHECK = (
    select(leases.c.expires > func.clock_timestamp())
    .where(
        leases.c.name == bindparam("lease"),
        leases.c.holder == bindparam("leader"),
        leases.c.term == bindparam("number"),
    )
    .with_for_update(read=True)
)


async def check_term(tx: AsyncConnection, term: Term) -> None:
    """Hold off elections and ledger writes until this transaction ends. Raises Fenced: the term is over."""
    alive = await tx.scalar(_CHECK, {"lease": term.lease, "leader": term.holder, "number": term.number})
    if alive is None:
        raise Fenced(term=term.number, holder=term.holder, reason="a later term has begun")
    if not alive:
        raise Fenced(term=term.number, holder=term.holder, reason="its lease has ended")


def _exactly(term: Term) -> ColumnElement[bool]:
    """Condition on the lease row: this very term."""
    return and_(leases.c.name == term.lease, leases.c.holder == term.holder, leases.c.term == term.number)


def _end(lease_seconds: float) -> ColumnElement[object]:
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, lease_seconds, type_=Interval)
