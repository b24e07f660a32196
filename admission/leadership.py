"""Leadership: one replica at a time leads, and one that is unsure stops at once.

The lease is a row in Postgres; between two renewals the leader trusts its own monotonic clock only, and a little
less long than the row says. Every write, to Postgres or to the cluster, asks ``check_lease`` first.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import NoReturn

from queues.errors import DatabaseError, Fenced
from queues.sql import leadership
from queues.sql.database import Database
from queues.sql.leadership import LeaseTrust, Term

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """Seconds; lease and retry together are the longest time without a leader."""

    lease: float = leadership.LEASE_SECONDS
    retry: float = leadership.RETRY_SECONDS


class LeaderLease:
    """The right to act as leader: a term, and how long it may be trusted without asking again."""

    def __init__(self, term: Term, trust: LeaseTrust) -> None:
        self.term = term
        self._trust = trust

    def check_lease(self) -> None:
        """Raises Fenced once the lease is no longer certain."""
        if not self._trust.holds(monotonic()):
            raise self.term.fenced("its lease ran out unrenewed")

    def left(self) -> float:
        """Seconds of certainty left."""
        return self._trust.left(monotonic())

    def extend(self, trust: LeaseTrust) -> None:
        """After a renewal."""
        self._trust = trust

    def end(self) -> None:
        """The term is over, whatever time is left: no task of it may write any more."""
        self._trust = LeaseTrust(until=0.0)


class Leadership:
    """Runs for leader again and again, and leads whenever elected."""

    def __init__(self, database: Database, holder: str, patience: LeaseTiming) -> None:
        self._database = database
        self._holder = holder
        self._patience = patience
        #: None while another replica leads.
        self.lease: LeaderLease | None = None

    async def run(self, lead: Callable[[LeaderLease], Awaitable[None]]) -> NoReturn:
        """Lead whenever elected. ``lead`` runs for one term; it ends with Fenced or when it must start afresh."""
        while True:
            lease, begun = await self._elected(), monotonic()
            self.lease = lease
            _log.info("elected", extra={"term": lease.term.number})
            try:
                # A task of its own: its groups cancel the task they are in, and do not always take that back.
                await asyncio.create_task(self._serve(lease, lead), name="term")
            except* (Fenced, DatabaseError) as errors:
                _log.warning("term ended", extra={"term": lease.term.number, "why": str(_first(errors))})
            finally:
                lease.end()
                self.lease = None
                await self._resign(lease)
            _repeat_cancellation()
            if monotonic() - begun < self._patience.lease:
                # What ends every term at once would else read the whole cluster again and again.
                await asyncio.sleep(self._patience.retry)

    async def _serve(self, lease: LeaderLease, lead: Callable[[LeaderLease], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            renewing = tasks.create_task(self._keep(lease), name="renew lease")
            await lead(lease)
            renewing.cancel()

    async def _elected(self) -> LeaderLease:
        last_error = ""
        while True:
            started = monotonic()
            try:
                async with self._database.transaction() as tx:
                    term = await leadership.elect(tx, self._holder, self._patience.lease)
                if term is not None:
                    return LeaderLease(term, LeaseTrust.since(started, self._patience.lease))
            except DatabaseError as error:
                if str(error) != last_error:
                    last_error = str(error)
                    _log.warning("cannot run for leader", extra={"why": last_error})
            await asyncio.sleep(self._patience.retry)

    async def _keep(self, lease: LeaderLease) -> None:
        """Renew until the term is over. Raises Fenced."""
        while True:
            await asyncio.sleep(min(self._patience.retry, lease.left()))
            started = monotonic()
            try:
                async with asyncio.timeout(max(0.1, lease.left())), self._database.transaction() as tx:
                    term = await leadership.renew(tx, lease.term, self._patience.lease)
            except (DatabaseError, TimeoutError) as error:
                why = str(error) or "no answer in time"
                _log.warning("lease not renewed", extra={"why": why, "left": round(lease.left(), 1)})
                lease.check_lease()
                continue
            if term is None:
                raise lease.term.fenced("another replica leads")
            lease.extend(LeaseTrust.since(started, self._patience.lease))

    async def _resign(self, lease: LeaderLease) -> None:
        """So that the next leader need not wait; if it fails, the lease runs out by itself."""
        try:
            async with asyncio.timeout(2.0), self._database.transaction() as tx:
                await leadership.resign(tx, lease.term)
        except (DatabaseError, TimeoutError) as error:
            _log.info("not resigned", extra={"why": str(error)})


def _repeat_cancellation() -> None:
    """Repeat a cancellation: up to Python 3.12 a task group that fails just then raises its failure only."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _first(error: BaseException) -> BaseException:
    """What a task failed with, out of the groups around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
