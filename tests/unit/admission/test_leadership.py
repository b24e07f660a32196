"""Who leads goes on as long as it may, stops at once when it may not, and leaves the lease to the next."""

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, cast
from weakref import ReferenceType, ref

import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from admission import leadership as leaderships
from admission.containment.repeated_failures import RepeatedFailures
from admission.kube.client.client import Client
from admission.kube.cluster_ledger import ClusterLedger
from admission.leadership import LOOP_LOST, LeaderLease, Leadership, LeaseTiming, LedgerGuard, lease_clock
from queues.errors import DatabaseError, DatabaseUnavailable, Fenced, NoRootQueue
from queues.ledger_record import LedgerRecord, require_same
from queues.sql.database import Database
from queues.sql.leadership import LeaseTrust, Term, database_time, elect, resign
from queues.sql.ledger_identity import read_identity
from tests.fakes.fake_api_server import FakeApiServer
from tests.waiting import eventually, in_background, until

#: Soon over; and longer than any test waits, so that no busy machine ends it.
QUICK, STEADY = LeaseTiming(lease=2.0, retry=0.1), LeaseTiming(lease=3600.0, retry=0.05)


class Flaky:
    """A Postgres that can be taken away."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.away = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        if self.away:
            raise DatabaseUnavailable(reason="it is away")
        async with self._database.transaction() as tx:
            yield tx

    def another(self, pool_size: int) -> "Flaky":
        """Away whenever this one is."""
        return _Another(self._database.another(pool_size), self)

    async def close(self) -> None:
        await self._database.close()


class _Another(Flaky):
    def __init__(self, database: Database, first: Flaky) -> None:
        super().__init__(database)
        self._first = first

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        self.away = self._first.away
        async with super().transaction() as tx:
            yield tx


@pytest_asyncio.fixture
async def postgres(muster: Database) -> Flaky:
    return Flaky(muster)


class Reign:
    """What a leader did: its mandates, and whether one is at work."""

    def __init__(self) -> None:
        self.mandates: list[LeaderLease] = []
        self.at_work = 0

    async def lead(self, mandate: LeaderLease) -> None:
        self.mandates.append(mandate)
        self.at_work += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.at_work -= 1


@asynccontextmanager
async def running(
    postgres: Any,
    lead: Callable[[LeaderLease], Awaitable[None]],
    *,
    holder: str = "me",
    patience: LeaseTiming = STEADY,
) -> AsyncIterator[asyncio.Task[None]]:
    async with in_background(Leadership(postgres, holder, patience).run(lead)) as task:
        yield task


def was_renewed(lease: LeaderLease) -> Callable[[], bool]:
    """Whether it was since now. It ends later then; what is left of it depends on when one looks."""
    ends = lease_clock() + lease.left()
    return lambda: lease_clock() + lease.left() > ends + 0.01


def block_this_loop_until(holds: Callable[[], bool]) -> None:
    until(holds, "what happens beside this loop")


async def run(postgres: Flaky, statement: str) -> None:
    async with postgres.transaction() as tx:
        await tx.execute(text(statement))


async def test_who_is_elected_leads_and_stays_in_office(postgres: Flaky) -> None:
    reign = Reign()
    async with running(postgres, reign.lead):
        await eventually(lambda: bool(reign.mandates), "an election")
        elected = reign.mandates[0]
        renewed = was_renewed(elected)
        await eventually(renewed, "a renewal")
        elected.check_lease()
        assert reign.at_work == 1


async def test_who_lost_the_lease_stops_at_once_and_may_not_write(postgres: Flaky) -> None:
    reign = Reign()
    async with running(postgres, reign.lead):
        await eventually(lambda: reign.at_work == 1, "an election")
        await run(
            postgres, "UPDATE leases SET holder = 'another', term = term + 1, expires = now() + '1 hour'"
        )
        await eventually(lambda: reign.at_work == 0, "the end of the term")
        with pytest.raises(Fenced):
            reign.mandates[0].check_lease()
        await run(postgres, "UPDATE leases SET expires = now()")
        await eventually(lambda: len(reign.mandates) == 2, "another term")
        assert reign.mandates[1].term.number > reign.mandates[0].term.number
        with pytest.raises(Fenced):
            reign.mandates[0].check_lease()


async def test_who_cannot_renew_stops_before_the_lease_ends(postgres: Flaky) -> None:
    reign = Reign()
    async with running(postgres, reign.lead, patience=QUICK):
        await eventually(lambda: reign.at_work == 1, "an election")
        postgres.away = True
        # The longest time in which this loop stood still is the machine's.
        since = looked = monotonic()
        stood = 0.0
        while reign.at_work:
            await asyncio.sleep(0.005)
            looked, stood = monotonic(), stood + monotonic() - looked - 0.005
        assert looked - since - stood < QUICK.lease
        with pytest.raises(Fenced):
            reign.mandates[0].check_lease()
        postgres.away = False
        await eventually(lambda: reign.at_work == 1, "another term")


async def test_one_renewal_that_fails_ends_nothing(postgres: Flaky) -> None:
    reign = Reign()
    async with running(postgres, reign.lead):
        await eventually(lambda: reign.at_work == 1, "an election")
        elected, postgres.away = reign.mandates[0], True
        low = elected.left() - 0.2
        await eventually(lambda: elected.left() < low, "a renewal missed")
        postgres.away = False
        await eventually(lambda: elected.left() > low, "the next renewal")
        assert reign.mandates == [elected]


async def test_the_lease_is_renewed_while_the_loop_stands_still(postgres: Flaky) -> None:
    reign = Reign()

    async def lead(elected: LeaderLease) -> None:
        for _ in range(3):
            block_this_loop_until(was_renewed(elected))
        await reign.lead(elected)

    async with running(postgres, lead):
        await eventually(lambda: reign.at_work == 1, "an election")
        [elected] = reign.mandates
        assert elected.term.number == 1


async def test_who_stands_still_for_too_long_resigns_so_that_another_leads(postgres: Flaky) -> None:
    stood = 0.0
    stuck, other = Reign(), Reign()
    database: Any = postgres
    leadership = Leadership(database, "stuck", STEADY, standing=lambda: stood)
    async with in_background(leadership.run(stuck.lead)):
        await eventually(lambda: stuck.at_work == 1, "an election")
        async with running(postgres, other.lead, holder="other", patience=STEADY):
            stood = LOOP_LOST + 1
            await eventually(lambda: other.at_work == 1, "the successor")
            await eventually(lambda: stuck.at_work == 0, "the end of the term")
            with pytest.raises(Fenced):
                stuck.mandates[0].check_lease()


async def test_who_is_told_to_stop_resigns_so_that_the_next_need_not_wait(postgres: Flaky) -> None:
    first, second = Reign(), Reign()
    async with running(postgres, second.lead, holder="second", patience=STEADY):
        async with running(postgres, first.lead, holder="first", patience=STEADY):
            await eventually(lambda: first.at_work + second.at_work == 1, "an election")
        if not second.mandates:
            await eventually(lambda: second.at_work == 1, "the successor")
        assert first.at_work == 0


async def test_a_term_that_must_start_afresh_is_followed_by_another(postgres: Flaky) -> None:
    terms: list[int] = []

    async def fails_once(mandate: LeaderLease) -> None:
        terms.append(mandate.term.number)
        if len(terms) == 1:
            raise DatabaseError(reason="a constraint")
        await asyncio.Event().wait()

    async with running(postgres, fails_once):
        await eventually(lambda: len(terms) == 2, "the next term")
        assert terms[1] == terms[0] + 1


async def test_a_term_whose_inner_task_fails_is_followed_by_another(postgres: Flaky) -> None:
    terms: list[int] = []

    async def work() -> None:
        await asyncio.sleep(0)
        if len(terms) == 1:
            raise DatabaseError(reason="a constraint")
        await asyncio.Event().wait()

    async def lead(mandate: LeaderLease) -> None:
        terms.append(mandate.term.number)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(work())

    async with running(postgres, lead) as task:
        await eventually(lambda: len(terms) == 2 or task.done(), "the next term")
        assert not task.done()


async def test_terms_that_fail_at_once_do_not_follow_one_another_without_a_pause(postgres: Flaky) -> None:
    begun: list[float] = []

    async def fails(mandate: LeaderLease) -> None:
        begun.append(monotonic())
        raise DatabaseError(reason="a constraint")

    async with running(postgres, fails):
        await eventually(lambda: len(begun) == 4, "four terms")
        assert begun[3] - begun[0] >= 3 * STEADY.retry


async def test_who_is_told_to_stop_just_as_the_term_fails_does_stop(postgres: Flaky) -> None:
    begun: list[int] = []

    async def fails(mandate: LeaderLease) -> None:
        begun.append(mandate.term.number)
        if len(begun) == 1:
            task.cancel()
        raise DatabaseError(reason="a constraint")

    task = asyncio.create_task(Leadership(postgres, "me", STEADY).run(fails))  # type: ignore[arg-type]
    try:
        await eventually(lambda: task.done() or len(begun) > 1, "the end")
        assert task.cancelled()
    finally:
        task.cancel()


async def test_a_defect_ends_the_term_and_not_the_process(
    postgres: Flaky, caplog: pytest.LogCaptureFixture
) -> None:
    terms: list[int] = []

    async def breaks_once(mandate: LeaderLease) -> None:
        terms.append(mandate.term.number)
        if len(terms) == 1:
            raise ZeroDivisionError("of a test")
        await asyncio.Event().wait()

    async with running(postgres, breaks_once):
        await eventually(lambda: len(terms) == 2, "the next term")
    (line,) = [record for record in caplog.records if record.message == "term ended by a defect"]
    assert line.exc_info is not None


async def test_terms_that_the_same_error_ends_follow_one_another_later_and_later(
    postgres: Flaky, caplog: pytest.LogCaptureFixture
) -> None:
    begun: list[float] = []
    failures = RepeatedFailures("terms", first=0.02, longest=0.5, grows_after=4)

    async def fails(mandate: LeaderLease) -> None:
        begun.append(monotonic())
        raise DatabaseError(reason="a constraint")

    leadership = Leadership(postgres, "me", LeaseTiming(lease=2.0, retry=0.02), failures=failures)  # type: ignore[arg-type]
    async with in_background(leadership.run(fails)):
        await eventually(lambda: len(begun) == 10, "ten terms")
    assert begun[9] - begun[8] >= 0.15
    told = failures.told()
    assert told is not None
    assert "a constraint" in told.message
    assert [record.message for record in caplog.records].count("every term fails") == 1


async def test_who_is_unfit_does_not_run_until_it_is_fit_again(
    postgres: Flaky, caplog: pytest.LogCaptureFixture
) -> None:
    asked, fit = 0, False

    async def unfit() -> str | None:
        nonlocal asked
        asked += 1
        return None if fit else "the API server does not answer"

    reign = Reign()
    leadership = Leadership(postgres, "me", STEADY, unfit=unfit)  # type: ignore[arg-type]
    async with in_background(leadership.run(reign.lead)):
        await eventually(lambda: asked > 2, "questions")
        assert reign.mandates == []
        assert [record.message for record in caplog.records] == ["cannot run for leader"]
        fit = True
        await eventually(lambda: reign.at_work == 1, "an election")


async def test_time_in_which_the_machine_was_suspended_counts_against_the_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept = 0.0
    # The monotonic clock stands still meanwhile.
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(
        time, "clock_gettime", lambda clock: 500.0 + slept if clock == time.CLOCK_BOOTTIME else 100.0
    )
    lease = LeaderLease(Term(holder="me", number=1), LeaseTrust.since(500.0, 8.0))
    lease.check_lease()
    slept = 60.0
    with pytest.raises(Fenced):
        lease.check_lease()


async def test_the_ledgers_time_goes_on_though_this_machines_clock_is_set(
    postgres: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with postgres.transaction() as tx:
        now = await database_time(tx)
    reign = Reign()
    monkeypatch.setattr(time, "time", lambda: now - 86_400)
    async with running(postgres, reign.lead):
        await eventually(lambda: bool(reign.mandates), "an election")
        lease = reign.mandates[0]
        assert abs(lease.now() - now) < 3600
        before = lease.now()
        await eventually(was_renewed(lease), "a renewal")
        assert lease.now() > before


def test_the_ledgers_time_follows_steps_and_not_the_jitter_of_answers() -> None:
    trust = LeaseTrust(until=float("inf"))
    lease = LeaderLease(Term(holder="me", number=1), trust, 1000.0)
    lease.extend(trust, 999.9)
    assert 1000.0 <= lease.now() < 1060
    lease.extend(trust, 5000.0)
    assert 5000.0 <= lease.now() < 5060


def test_a_renewal_that_comes_late_does_not_bring_back_a_term_that_has_ended() -> None:
    lease = LeaderLease(Term(holder="me", number=1), LeaseTrust(until=float("inf")))
    lease.end()
    lease.extend(LeaseTrust(until=float("inf")))
    with pytest.raises(Fenced):
        lease.check_lease()


async def test_nothing_of_an_ended_term_is_kept_in_memory(postgres: Flaky) -> None:
    class Known:
        """What a term knows of the cluster."""

    kept: list[ReferenceType[Known]] = []
    left: list[int] = []

    async def lead(lease: LeaderLease) -> None:
        known = Known()
        kept.append(ref(known))
        raise DatabaseError(reason=f"{lease.term.number} of {type(known).__name__} fails")

    def collect() -> None:
        gc.collect()
        left.append(sum(each() is not None for each in kept))

    database: Any = postgres
    leadership = Leadership(database, "me", STEADY, after_term=collect)
    async with in_background(leadership.run(lead)):
        await eventually(lambda: len(left) >= 2, "two terms that ended")
    assert set(left) == {0}


async def test_a_ledger_that_does_not_lead_the_cluster_is_not_elected_until_it_does(
    postgres: Flaky, tmp_path: Path
) -> None:
    root = {"metadata": {"name": "root", "uid": "u1"}}
    server, queues = FakeApiServer(), "/apis/scheduling.volcano.sh/v1beta1/queues"
    await server.start()
    await server.put(queues, {**root, "status": {"ledger": {"id": "another", "term": 7, "holder": "them"}}})
    reign, database = Reign(), cast(Database, postgres)
    async with await Client.connect(server.kubeconfig(tmp_path)) as client:
        guard = LedgerGuard(database, ClusterLedger(client))
        leadership = Leadership(database, "me", STEADY, unfit=guard.why_refused)
        async with in_background(leadership.run(reign.lead)):
            await eventually(lambda: guard.problem is not None, "a refusal")
            assert "muster ledger adopt-cluster" in str(guard.problem)
            assert reign.mandates == []
            await server.put(queues, root)
            await eventually(lambda: reign.at_work == 1, "an election")
            assert guard.problem is None

            assert await guard.why_refused() is None
            asked = len(server.requests)
            assert await guard.why_refused() is None
            assert len(server.requests) == asked, "while one replica leads, the others need not ask again"

            # As in a cluster whose replica has the DSN of another one, where somebody leads.
            other = {"id": "another", "term": 7, "holder": "them"}
            await server.put(queues, {**root, "status": {"ledger": other}})
            swapped = LedgerGuard(database, ClusterLedger(client))
            assert "status.ledger of queue root" in str(await swapped.why_refused())
            assert swapped.problem is not None
    await server.stop()


class Cluster(ClusterLedger):
    """What a cluster has recorded, in memory."""

    def __init__(self) -> None:
        self.record: LedgerRecord | None = None
        self.has_root = True

    async def recorded(self) -> LedgerRecord | None:
        if not self.has_root:
            raise NoRootQueue
        return self.record

    async def claim(self, own: LedgerRecord, check_lease: Callable[[], None]) -> None:
        require_same(own, self.record)
        check_lease()
        self.record = replace(own, other_nonce="")


async def test_without_a_root_queue_none_is_elected_and_no_ledger_is_said_to_be_wrong(
    postgres: Flaky, caplog: pytest.LogCaptureFixture
) -> None:
    reign, database, cluster = Reign(), cast(Database, postgres), Cluster()
    guard = LedgerGuard(database, cluster)
    cluster.record = LedgerRecord(ledger="another", term=7, holder="them")
    assert await guard.why_refused() == guard.problem is not None, "another ledger fails the readiness"
    cluster.record, cluster.has_root = None, False
    leadership = Leadership(database, "me", STEADY, unfit=guard.why_refused)
    async with in_background(leadership.run(reign.lead)):
        await eventually(lambda: _why_not_elected(caplog) != [], "a line that says why")
        assert "There is no queue root" in _why_not_elected(caplog)[0]
        assert guard.problem is None, "a replica that waits for the queue is ready"
        assert reign.mandates == []
        cluster.has_root = True
        await eventually(lambda: reign.at_work == 1, "an election")


def _why_not_elected(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.__dict__["why"] for each in caplog.records if each.message == "cannot run for leader"]


class Ledger:
    """A ledger whose leader has recorded it in a cluster, and is told when to replace the nonce."""

    def __init__(self, postgres: Flaky) -> None:
        self.postgres = postgres
        self.cluster = Cluster()
        self.guard = LedgerGuard(cast(Database, postgres), self.cluster)
        self._term = Term(holder="", number=0)

    async def lead(self, holder: str) -> LeaderLease:
        """A term begins."""
        async with self.postgres.transaction() as tx:
            elected = await elect(tx, holder)
        assert elected is not None
        self._term = elected
        lease = LeaderLease(elected, LeaseTrust(until=float("inf")))
        await self.guard.claim(lease)
        return lease

    async def end(self) -> None:
        """The term is over."""
        async with self.postgres.transaction() as tx:
            await resign(tx, self._term)

    async def stored(self) -> LedgerRecord:
        async with self.postgres.transaction() as tx:
            return await read_identity(tx)

    async def become(self, copy: LedgerRecord) -> None:
        """The DSN names a copy that was made when the ledger was so."""
        ids = f"nonce = '{copy.nonce}', next_nonce = '{copy.other_nonce}'"
        await run(self.postgres, f"UPDATE ledger_ids SET {ids}")


async def test_a_copy_is_refused_once_the_original_has_replaced_its_nonce_twice(postgres: Flaky) -> None:
    ledger = Ledger(postgres)
    lease, copies = await ledger.lead("me"), [await ledger.stored()]
    for _ in range(3):
        await ledger.guard.replace_nonce(lease)
        copies.append(await ledger.stored())
    await ledger.end()
    refused = []
    for copy in copies:
        await ledger.become(copy)
        refused.append(await ledger.guard.why_refused())
    assert [each is None for each in refused] == [False, False, True, True]
    assert "is a copy or a backup of the ledger" in str(refused[0])
    assert "muster ledger adopt-cluster" in str(refused[0])


async def test_the_ledger_itself_is_never_refused_whenever_its_leader_fails(postgres: Flaky) -> None:
    ledger = Ledger(postgres)
    for number in range(6):
        lease = await ledger.lead(f"replica-{number}")
        if number % 2:
            await ledger.guard.replace_nonce(lease)
        recorded, claim = ledger.cluster.record, ledger.cluster.claim

        async def claim_and_lose(
            own: LedgerRecord,
            check_lease: Callable[[], None],
            claim: Callable[[LedgerRecord, Callable[[], None]], Awaitable[None]] = claim,
        ) -> None:
            await claim(own, check_lease)
            postgres.away = True

        ledger.cluster.claim = claim_and_lose  # type: ignore[method-assign]
        with pytest.raises(DatabaseUnavailable):
            await ledger.guard.replace_nonce(lease)
        assert ledger.cluster.record != recorded, "the cluster has the next one, and the ledger does not know"
        ledger.cluster.claim, postgres.away = claim, False  # type: ignore[method-assign]
        await ledger.end()
        assert await ledger.guard.why_refused() is None


async def test_the_nonce_is_replaced_while_a_term_lasts_and_what_fails_is_tried_again(
    postgres: Flaky, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leaderships, "NONCE_EVERY", 0.01)
    caplog.set_level(logging.INFO)
    ledger = Ledger(postgres)
    lease = await ledger.lead("me")
    seen: set[str] = set()
    task = asyncio.create_task(ledger.guard.keep_nonce_fresh(lease))

    def replaced(times: int) -> bool:
        assert ledger.cluster.record is not None
        seen.add(ledger.cluster.record.nonce)
        return len(seen) > times

    await eventually(lambda: replaced(2), "new nonces")
    postgres.away = True
    await eventually(lambda: "nonce of the ledger not replaced" in caplog.text, "a failure")
    postgres.away = False
    await eventually(lambda: replaced(6), "more of them after an outage")
    lease.end()
    with pytest.raises(Fenced):
        await task
