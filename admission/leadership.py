"""Leadership: one replica at a time leads, and one that is unsure stops at once.

The lease is a row in Postgres; between two renewals the leader trusts its own monotonic clock only, and a little
less long than the row says. Every write, to Postgres or to the cluster, asks ``check_lease`` first. Whatever ends a
term ends nothing else: this process runs for leader again, later and later if the same error comes back.

Renewals have a thread and a connection of their own: a long step of the event loop, or a machine that gives this
process little time, ends no term. A loop that stands still for ``LOOP_LOST`` seconds does.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, TypeVar

import uvloop

from admission.containment.repeated_failures import RepeatedFailures, told_of
from admission.kube.cluster_ledger import ClusterLedger
from admission.kube.watch.lag import Lag
from queues.errors import (
    AnotherLedger,
    ApiError,
    ApiUnavailable,
    DatabaseError,
    DatabaseUnavailable,
    Fenced,
    MusterError,
    NoRootQueue,
    TooManyRequests,
)
from queues.ledger_record import NONCE_EVERY, LedgerRecord, require_same, require_same_ledger
from queues.sql import leadership, ledger_identity
from queues.sql.database import Database
from queues.sql.leadership import LeaseTrust, Term
from queues.sql.lease_times import LEASE_SECONDS, RETRY_SECONDS

_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """Seconds; lease and retry together are the longest time without a leader."""

    lease: float = LEASE_SECONDS
    retry: float = RETRY_SECONDS


#: A term that has made turns for so many seconds has got over what ended the terms before it.
PROVEN_SECONDS = 60.0
#: Seconds; the longest pause between two terms that the same error ends.
LONGEST_PAUSE = 60.0
#: Seconds for which the event loop may stand still before the leader resigns.
LOOP_LOST = 30.0


_LEASE_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: Seconds by which the database's clock must have been set before a leader follows.
CLOCK_STEP = 0.5
#: Seconds between two attempts to record the ledger in the cluster.
CLAIM_EVERY = 1.0
#: Seconds between two heartbeats.
BEAT_EVERY = 2.0


def lease_clock() -> float:
    """Seconds of a clock that cannot be set, and that goes on while the machine is suspended, where there is one."""
    return time.clock_gettime(_LEASE_CLOCK)


def terms_in_a_row(timing: "LeaseTiming") -> RepeatedFailures:
    """Terms that the same error ended, and the pauses between them."""
    return RepeatedFailures("terms of leadership", first=timing.retry, longest=LONGEST_PAUSE, grows_after=4)


async def _fit() -> str | None:
    return None


class LeaderLease:
    """The right to act as leader: a term, and how long it may be trusted without asking again."""

    def __init__(self, term: Term, trust: LeaseTrust, ledger_time: float | None = None) -> None:
        """``ledger_time``: seconds since the epoch by the database's clock, now; None for this machine's."""
        self.term = term
        self._trust = trust
        #: Renewals come from another thread, and one that is late must not bring back a term that has ended.
        self._lock = threading.Lock()
        self._is_over = False
        self._ahead = (time.time() if ledger_time is None else ledger_time) - lease_clock()

    def check_lease(self) -> None:
        """Raises Fenced once the lease is no longer certain."""
        if not self._trust.holds(lease_clock()):
            raise self.term.fenced("its lease ran out unrenewed")

    def left(self) -> float:
        """Seconds of certainty left."""
        return self._trust.left(lease_clock())

    def now(self) -> float:
        """Seconds since the epoch as the database's clock goes: setting this machine's clock moves no deadline."""
        return lease_clock() + self._ahead

    def extend(self, trust: LeaseTrust, ledger_time: float | None = None) -> None:
        """After a renewal, if the term has not ended. ``ledger_time``: what the database's clock said just now."""
        with self._lock:
            if self._is_over:
                return
            self._trust = trust
        if ledger_time is not None:
            ahead = ledger_time - lease_clock()
            # Answers take their time, and no second should come twice for it.
            if abs(ahead - self._ahead) > CLOCK_STEP:
                self._ahead = ahead

    def end(self) -> None:
        """The term is over, whatever time is left: no task of it may write any more."""
        with self._lock:
            self._is_over = True
            self._trust = LeaseTrust(until=0.0)


class Leadership:
    """Runs for leader again and again, and leads whenever elected."""

    def __init__(
        self,
        database: Database,
        holder: str,
        timing: LeaseTiming,
        *,
        failures: RepeatedFailures | None = None,
        unfit: Callable[[], Awaitable[str | None]] = _fit,
        after_term: Callable[[], None] = lambda: None,
        standing: Callable[[], float] = lambda: 0.0,
        served: Callable[[Exception | None], None] = lambda error: None,
    ) -> None:
        """``failures``: how terms ended. ``unfit``: why this process must not lead now; None if it may. ``after_term``:
        called when a term has ended and nothing of it is needed any more. ``standing``: seconds for which the event
        loop has stood still by now; called from another thread. ``served``: called, from that thread too, when Postgres
        was asked for a lease, with what failed.
        """
        self._database = database
        self._holder = holder
        self._timing = timing
        self._unfit = unfit
        self._after_term = after_term
        self._standing = standing
        self._served = served
        self.failures = failures or terms_in_a_row(timing)
        #: None while another replica leads.
        self.lease: LeaderLease | None = None

    async def run(self, lead: Callable[[LeaderLease], Awaitable[None]]) -> NoReturn:
        """Lead whenever elected. ``lead`` runs for one term, which whatever it raises ends."""
        while True:
            lease, begun = await self._elected(), lease_clock()
            self.lease = lease
            _log.info("elected", extra={"term": lease.term.number})
            failure: BaseException | None = None
            try:
                # A task of its own: its groups cancel the task they are in, and do not always take that back.
                await asyncio.create_task(self._serve(lease, lead), name="term")
            except* Exception as errors:
                failure = first_error(errors)
            finally:
                lease.end()
                self.lease = None
                await self._resign(lease, self._database)
            _repeat_cancellation()
            await self._pause(lease, failure, lasted=lease_clock() - begun)

    async def _pause(self, lease: LeaderLease, failure: BaseException | None, *, lasted: float) -> None:
        """Report how a term ended, and wait: what ends every term at once would else read the whole cluster again and
        again."""
        seconds = self._timing.retry
        if failure is not None:
            seconds = self.failures.note(failure)
            _tell(lease, failure)
            _forget_frames(failure)
        self._after_term()
        if (told := self.failures.told()) is not None and self.failures.just_reached():
            _log.error("every term fails", extra={"why": told.message})
        if told is not None or lasted < self._timing.lease:
            await asyncio.sleep(seconds)

    async def _serve(self, lease: LeaderLease, lead: Callable[[LeaderLease], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            renewing = tasks.create_task(self._keep(lease), name="renew lease")
            await asyncio.sleep(0)  # the first step of the term may be a long one: renewals begin before it
            await lead(lease)
            renewing.cancel()

    async def _elected(self) -> LeaderLease:
        last = ""
        while True:
            why = await self._unfit()
            if why is None:
                started = lease_clock()
                try:
                    async with self._database.transaction() as tx:
                        term = await leadership.elect(tx, self._holder, self._timing.lease)
                        ledger_time = await leadership.database_time(tx) if term is not None else None
                    self._served(None)
                    if term is not None:
                        return LeaderLease(term, LeaseTrust.since(started, self._timing.lease), ledger_time)
                except DatabaseError as error:
                    self._served(error)
                    why = str(error)
            if why is not None and why != last:
                last = why
                _log.warning("cannot run for leader", extra={"why": why})
            await asyncio.sleep(self._timing.retry)

    async def _keep(self, lease: LeaderLease) -> NoReturn:
        """Renew until the term is over. Raises Fenced."""
        await run_in_loop_thread(lambda: self._renew(lease), name="renew lease")
        raise AssertionError("renewals end by an error")

    async def _renew(self, lease: LeaderLease) -> None:
        database = self._database.another(pool_size=1)
        try:
            while True:
                await asyncio.sleep(min(self._timing.retry, lease.left()))
                if (seconds := self._standing()) > LOOP_LOST:
                    lease.end()
                    await self._resign(lease, database)
                    raise lease.term.fenced(f"its event loop has stood still for {seconds:.0f} s")
                await self._renew_once(lease, database)
        finally:
            await database.close()

    async def _renew_once(self, lease: LeaderLease, database: Database) -> None:
        started = lease_clock()
        try:
            async with asyncio.timeout(max(0.1, lease.left())), database.transaction() as tx:
                term = await leadership.renew(tx, lease.term, self._timing.lease)
                ledger_time = await leadership.database_time(tx)
        except (DatabaseError, TimeoutError) as error:
            self._served(error)
            why = str(error) or "no answer in time"
            about = {"term": lease.term.number, "why": why, "left": round(lease.left(), 1)}
            _log.warning("lease not renewed", extra=about)
            lease.check_lease()
            return
        self._served(None)
        if term is None:
            lease.end()  # no task of the term writes while the others are being ended
            raise lease.term.fenced("another replica leads")
        lease.extend(LeaseTrust.since(started, self._timing.lease), ledger_time)

    async def _resign(self, lease: LeaderLease, database: Database) -> None:
        """So that the next leader need not wait; if it fails, the lease runs out by itself."""
        try:
            async with asyncio.timeout(2.0), database.transaction() as tx:
                await leadership.resign(tx, lease.term)
        except (DatabaseError, TimeoutError) as error:
            _log.info("not resigned", extra={"why": str(error)})


class LedgerGuard:
    """Keeps this replica from leading a cluster that another ledger leads."""

    def __init__(self, database: Database, cluster: ClusterLedger) -> None:
        self._database = database
        self._cluster = cluster
        #: What is wrong, as found before the last election. None if nothing is wrong, if another replica of this ledger
        #: leads, or if there is no root queue yet.
        self.problem: str | None = None
        #: The leader of this database under which its ledger was last found to be that of the cluster.
        self._compared: str | None = None

    async def why_refused(self) -> str | None:
        """Why this replica must not be elected: the cluster has another ledger, or cannot be asked.

        None if it may be.
        """
        try:
            async with self._database.transaction() as tx:
                leader = await leadership.holder(tx)
                if leader is not None and leader == self._compared:
                    self.problem = None
                    return None
                own = await ledger_identity.read_identity(tx)
            recorded = await self._cluster.recorded()
            if leader is None:
                require_same(own, recorded)
            else:
                # It may lead another cluster: a DSN swapped by mistake. How far the ledger has come, only that leader
                # knows.
                require_same_ledger(own, recorded)
            self._compared = leader
        except DatabaseError:
            return None  # the election finds the same, and says so
        except ApiError as error:
            return str(error)
        except NoRootQueue as error:
            # The ledger is right, and the replica serves the webhook and people. Tools that install wait until replicas
            # are ready, and make the queue afterwards.
            self.problem = None
            return str(error)
        except MusterError as error:
            self.problem = str(error)
        else:
            self.problem = None
        return self.problem

    async def claim(self, lease: LeaderLease) -> LedgerRecord:
        """Before a term writes anything: record in the cluster that it leads. The record.

        Raises AnotherLedger, NoRootQueue, ApiError, DatabaseError, Fenced.
        """
        while True:
            try:
                async with self._database.transaction() as tx:
                    stored = await ledger_identity.read_identity(tx)
                own = replace(stored, term=lease.term.number, holder=lease.term.holder)
                await self._cluster.claim(own, lease.check_lease)
                return own
            except (ApiUnavailable, DatabaseUnavailable, TooManyRequests) as error:
                lease.check_lease()
                _log.warning("ledger not recorded in the cluster", extra={"why": str(error)})
                await asyncio.sleep(CLAIM_EVERY)

    async def keep_nonce_fresh(self, lease: LeaderLease) -> NoReturn:
        """Replace the nonce in the cluster every now and then, until the term is over. Raises AnotherLedger, Fenced.

        What fails is tried again the next time: until then ledger and cluster know each other by the former one.
        """
        while True:
            await asyncio.sleep(NONCE_EVERY)
            try:
                await self.replace_nonce(lease)
            except (AnotherLedger, Fenced):
                raise
            except MusterError as error:
                _log.info("nonce of the ledger not replaced", extra={"why": str(error)})

    async def replace_nonce(self, lease: LeaderLease) -> None:
        """Give the cluster the next nonce, and the ledger the one after it. Raises MusterError."""
        async with self._database.transaction() as tx:
            stored = await ledger_identity.read_identity(tx)
        following = replace(
            stored,
            term=lease.term.number,
            holder=lease.term.holder,
            nonce=stored.other_nonce,
            other_nonce=stored.nonce,
        )
        await self._cluster.claim(following, lease.check_lease)
        async with self._database.transaction() as tx:
            await ledger_identity.replace_nonce(tx, lease.term, following.nonce)


class Heart:
    """Stores the heartbeats of one term: how old the stored state is, so that every replica can show it to users."""

    def __init__(
        self, database: Database, lease: LeaderLease, lag: Callable[[], Lag], *, address: str
    ) -> None:
        """``address``: of this replica's read API."""
        self._database = database
        self._lease = lease
        self._lag = lag
        self._address = address
        self._failed = False

    async def run(self) -> NoReturn:
        """Beat until the term is over. Raises Fenced."""
        while True:
            await asyncio.sleep(BEAT_EVERY)
            await self.beat()

    async def beat(self) -> None:
        """Store one heartbeat; a failure of Postgres only makes the answers older. Raises Fenced."""
        self._lease.check_lease()
        lag = self._lag()
        try:
            async with self._database.transaction() as tx:
                await leadership.beat(
                    tx, self._lease.term, seconds=lag.seconds, behind=lag.why, address=self._address
                )
            self._failed = False
        except DatabaseError as error:
            if not self._failed:
                _log.warning("heartbeat not stored", extra={"why": str(error)})
            self._failed = True


def _tell(lease: LeaderLease, failure: BaseException) -> None:
    about = {"term": lease.term.number, "why": told_of(failure)}
    if isinstance(failure, MusterError):
        _log.warning("term ended", extra=about)
    else:
        _log.error("term ended by a defect", extra=about, exc_info=failure)


def _forget_frames(error: BaseException | None) -> None:
    """Drop what an error keeps in memory by its frames: all that its term knew of the cluster."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _repeat_cancellation() -> None:
    """Repeat a cancellation: up to Python 3.12 a task group that fails just then raises its failure only."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def first_error(error: BaseException) -> BaseException:
    """What a task failed with, out of the groups around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def run_in_loop_thread(work: Callable[[], Coroutine[Any, Any, T]], *, name: str) -> T:
    """Run ``work`` on another event loop until it ends; what it returns or raises. ``name``: of the thread.

    Cancelled here, it is cancelled there, and has ended there before this raises. Connections and primitives of this
    loop cannot be used there.
    """
    here, there = asyncio.get_running_loop(), uvloop.new_event_loop()
    answer: asyncio.Future[T] = here.create_future()
    # The loop does not run yet, so this thread may still use it.
    task = there.create_task(work(), name=name)

    def run() -> None:
        try:
            # However it ends, the answer shows it.
            there.run_until_complete(asyncio.wait([task]))
        finally:
            there.run_until_complete(there.shutdown_asyncgens())
            there.close()
            with suppress(RuntimeError):  # the loop is closed: the process ends
                here.call_soon_threadsafe(partial(_settle, answer, task))

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        with suppress(RuntimeError):  # it has ended just now
            there.call_soon_threadsafe(task.cancel)
        await asyncio.wait([answer])
        raise


def _settle(answer: asyncio.Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        answer.cancel()
    elif (error := task.exception()) is not None:
        answer.set_exception(error)
        answer.exception()  # the caller may have been cancelled, and gets no answer
    else:
        answer.set_result(task.result())
