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
    """Seconds; lease and retry together are the longest time nobody leads."""

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
            raise Fenced(term=self.term.number, holder=self.term.holder, reason="its lease ran out unrenewed")

    def left(self) -> float:
        """Seconds of certainty left."""
        return self._trust.left(monotonic())

    def extend(self, trust: LeaseTrust) -> None:
        """After a renewal."""
        self._trust = trust

    def end(self) -> None:
        """The term is over, whatever time is left: whoever still works for it must not write."""
        self._trust = LeaseTrust(until=0.0)


class Leadership:
    """Runs for leader again and again, and leads whenever elected."""

    def __init__(self, database: Database, holder: str, patience: LeaseTiming) -> None:
        self._database = database
        self._holder = holder
        self._patience = patience
        #: None while somebody else leads.
        self.mandate: LeaderLease | None = None

    async def run(self, lead: Callable[[LeaderLease], Awaitable[None]]) -> NoReturn:
        """Lead whenever elected. ``lead`` runs for one term; it ends with Fenced or when it must start afresh."""
        while True:
            mandate, begun = await self._elected(), monotonic()
            self.mandate = mandate
            _log.info("elected", extra={"term": mandate.term.number})
            try:
                # A task of its own: its groups cancel the task they are in, and do not always take that back.
                await asyncio.create_task(self._serve(mandate, lead), name="term")
            except* (Fenced, DatabaseError) as errors:
                _log.warning("term ended", extra={"term": mandate.term.number, "why": str(_first(errors))})
            finally:
                mandate.end()
                self.mandate = None
                await self._resign(mandate)
            _end_if_told()
            if monotonic() - begun < self._patience.lease:
                # What ends every term at once would else read the whole cluster again and again.
                await asyncio.sleep(self._patience.retry)

    async def _serve(self, mandate: LeaderLease, lead: Callable[[LeaderLease], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            renewing = tasks.create_task(self._keep(mandate), name="renew lease")
            await lead(mandate)
            renewing.cancel()

    async def _elected(self) -> LeaderLease:
        said = ""
        while True:
            started = monotonic()
            try:
                async with self._database.transaction() as tx:
                    term = await leadership.elect(tx, self._holder, self._patience.lease)
                if term is not None:
                    return LeaderLease(term, LeaseTrust.since(started, self._patience.lease))
            except DatabaseError as error:
                if str(error) != said:
                    said = str(error)
                    _log.warning("cannot run for leader", extra={"why": said})
            await asyncio.sleep(self._patience.retry)

    async def _keep(self, mandate: LeaderLease) -> None:
        """Renew until the term is over. Raises Fenced."""
        while True:
            await asyncio.sleep(min(self._patience.retry, mandate.left()))
            started = monotonic()
            try:
                async with asyncio.timeout(max(0.1, mandate.left())), self._database.transaction() as tx:
                    term = await leadership.renew(tx, mandate.term, self._patience.lease)
            except (DatabaseError, TimeoutError) as error:
                why = str(error) or "no answer in time"
                _log.warning("lease not renewed", extra={"why": why, "left": round(mandate.left(), 1)})
                mandate.check_lease()
                continue
            if term is None:
                raise Fenced(
                    term=mandate.term.number, holder=mandate.term.holder, reason="somebody else leads"
                )
            mandate.extend(LeaseTrust.since(started, self._patience.lease))

    async def _resign(self, mandate: LeaderLease) -> None:
        """So that the next leader need not wait; if it fails, the lease runs out by itself."""
        try:
            async with asyncio.timeout(2.0), self._database.transaction() as tx:
                await leadership.resign(tx, mandate.term)
        except (DatabaseError, TimeoutError) as error:
            _log.info("not resigned", extra={"why": str(error)})


def _end_if_told() -> None:
    """A task group that fails just as it is cancelled tells of its failure only, up to Python 3.12."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _first(error: BaseException) -> BaseException:
    """What a task failed with, out of the groups around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
