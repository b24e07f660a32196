"""Who leads: one lease row, renewed by its exact term.

A term is (holder, number). The number grows with every election, so a holder that comes back after a long sleep is
recognised by it, and so is one that was elected anew under the same name. All times are the database's
``clock_timestamp()``; the leader itself trusts only its monotonic clock (``Trust``). The rules are those of river's
leader election: renewals and resignations are scoped to the exact term, and a notification only wakes.
"""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

#: Name of the lease that the controller holds.
CONTROLLER = "controller"
#: Seconds a lease lasts. Lease plus one retry is the longest time nobody leads; it must stay below 15 s.
LEASE_SECONDS = 8.0
#: Seconds between two attempts: of the others to be elected, of the leader to renew.
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
class Trust:
    """How long a leader may believe that it leads, by its own monotonic clock. Pure: the caller reads the clock."""

    until: float

    @classmethod
    def since(cls, attempt_started: float, lease_seconds: float, margin: float = MARGIN_SECONDS) -> "Trust":
        """After an election or renewal that was *started* then: the answer's way back costs trust, never adds to it."""
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
    """Take the lease if nobody holds it; ``None``: somebody does. ``holder`` must be unique to this process."""
    raise NotImplementedError


async def renew(tx: AsyncConnection, term: Term, lease_seconds: float = LEASE_SECONDS) -> Term | None:
    """Hold on for another ``lease_seconds``; ``None``: the term is over (expired or taken)."""
    raise NotImplementedError


async def resign(tx: AsyncConnection, term: Term) -> bool:
    """End the term now, so that the next leader need not wait; false: it was over already."""
    raise NotImplementedError
