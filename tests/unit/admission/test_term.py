"""What a term makes of errors: Postgres that cannot serve puts turns off, anything else ends the term."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC
from pathlib import Path
from typing import Any, NoReturn

import pytest
import pytest_asyncio

from admission import term as terms
from admission.containment.decision_thread import DecisionThread
from admission.containment.repeated_failures import TELL_AFTER, RepeatedFailures
from admission.kube.client.client import Client
from admission.kube.cluster_ledger import ClusterLedger
from admission.kube.watch.api_server_contact import ApiServerContact, ApiServerUnseen
from admission.leadership import LeaderLease, LedgerGuard, first_error
from admission.term import LeaderTerm, TermDependencies
from admission.volcano_jobs.pods import PodRules
from admission.workloads.inputs import Timeouts
from queues.errors import AnotherLedger, DatabaseError, DatabaseTooSlow, DatabaseUnavailable, Fenced
from queues.sql import leadership
from queues.sql import world as worlds
from queues.sql.database import Database
from queues.sql.history.retention import Retention
from queues.sql.leadership import LeaseTrust
from tests.fakes.fake_api_server import FakeApiServer
from tests.waiting import LIMIT, eventually

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


class Failing:
    """A Postgres whose transactions fail while it has an error; counts worlds that are read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.error: Exception | None = None
        #: The same for reading the world.
        self.unreadable: Exception | None = None
        self.worlds = 0

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        if self.error is not None:
            raise self.error
        return self._database.transaction()

    def snapshot(self) -> AbstractAsyncContextManager[Any]:
        if self.unreadable is not None:
            raise self.unreadable
        self.worlds += 1
        return self._database.snapshot()


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as fake:
        for name in ("root", "team"):
            await fake.put(QUEUES, {"metadata": {"name": name, "uid": f"u-{name}"}, "spec": {}})
        yield fake


@pytest_asyncio.fixture
async def postgres(muster: Database) -> Failing:
    return Failing(muster)


class Counted:
    """Turns that were put off."""

    def __init__(self) -> None:
        self.count = 0

    def note(self) -> None:
        self.count += 1


class Leader:
    """A term, and what it told."""

    def __init__(self, term: LeaderTerm, lease: LeaderLease, put_off: Counted) -> None:
        self.term = term
        self.lease = lease
        self.put_off = put_off
        self.task = asyncio.create_task(term.run())

    async def ended_by(self) -> BaseException:
        """The error that ends the term."""
        await eventually(self.task.done, "the end of the term")
        error = self.task.exception()
        assert error is not None
        return first_error(error)


def conditions(request: Any) -> list[dict[str, Any]]:
    """Conditions that a patch of a status writes."""
    found: list[dict[str, Any]] = request.body.get("status", {}).get("conditions", [])
    return found


def no_failures() -> RepeatedFailures:
    return RepeatedFailures("terms", first=1.0, longest=60.0)


@asynccontextmanager
async def leading(
    postgres: Failing,
    server: FakeApiServer,
    folder: Path,
    *,
    cut_off_after: float = 60.0,
    failed_terms: RepeatedFailures | None = None,
) -> AsyncIterator[Leader]:
    async with postgres._database.transaction() as tx:
        elected = await leadership.elect(tx, "me", 600.0)
    assert elected is not None
    lease = LeaderLease(elected, LeaseTrust(until=float("inf")))
    async with await Client.connect(server.kubeconfig(folder), request_timeout=LIMIT) as client:
        counted = Counted()
        dependencies = TermDependencies(
            database=postgres,  # type: ignore[arg-type]
            client=client,
            rules=PodRules(),
            patience=Timeouts(),
            dry_runs=True,
            retention=Retention(decisions=90, ended_work=90, postings=400),
            budget_zone=UTC,
            turn_every=0.05,
            observe=lambda report: None,
            address="",
            put_off=counted.note,
            observe_dry_run=lambda outcome, seconds: None,
            decision_thread=DecisionThread(60.0),
            keep_failed_turn=lambda snapshot: None,
            contact=ApiServerContact(client, cut_off_after),
            ledger_guard=LedgerGuard(postgres._database, ClusterLedger(client)),
            failed_terms=failed_terms or no_failures(),
            failpoint=lambda point: None,
        )
        leader = Leader(LeaderTerm(dependencies, lease), lease, counted)
        try:
            yield leader
        finally:
            leader.task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await leader.task


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "FIRST_PAUSE", 0.005)
    monkeypatch.setattr(terms, "LONGEST_PAUSE", 0.01)


async def test_turns_that_postgres_cannot_serve_are_put_off_and_no_world_is_read_again(
    postgres: Failing, server: FakeApiServer, tmp_path: Path
) -> None:
    postgres.error = DatabaseUnavailable(reason="canceling statement due to statement timeout")
    async with leading(postgres, server, tmp_path) as leader:
        await eventually(lambda: leader.put_off.count > TELL_AFTER, "turns that are put off")
        told = leader.term._failing()
        assert told is not None
        assert "statement timeout" in told.message
        assert not leader.term.ready
        postgres.error = None
        await eventually(lambda: leader.term.ready, "a turn")
        assert leader.term._failing() is None
        assert postgres.worlds == 1
        assert {informer.lists for informer in leader.term.informers.by_name.values()} == {1}
        world = leader.term.world
        assert world is not None
        assert not world.unsaved


async def test_a_world_that_postgres_cannot_tell_now_is_asked_for_again_in_the_same_term(
    postgres: Failing, server: FakeApiServer, tmp_path: Path
) -> None:
    postgres.unreadable = DatabaseUnavailable(reason="QueuePool limit of size 8 reached")
    async with leading(postgres, server, tmp_path) as leader:
        await eventually(lambda: leader.put_off.count > TELL_AFTER, "questions")
        told = [told for each in server.seen("PATCH") for told in conditions(each)]
        assert "QueuePool limit" in told[0]["message"], "root says so"
        postgres.unreadable = None
        await eventually(lambda: leader.term.ready, "a turn")
        assert {informer.lists for informer in leader.term.informers.by_name.values()} == {1}


async def test_what_is_only_told_keeps_no_leader_from_its_first_turn(
    postgres: Failing, server: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def takes_long(*_: object) -> NoReturn:
        raise DatabaseTooSlow(reason="canceling statement due to statement timeout")

    monkeypatch.setattr(worlds, "last_evictions", takes_long)
    async with leading(postgres, server, tmp_path) as leader:
        await eventually(lambda: leader.term.ready, "a turn")
        assert leader.put_off.count == 1


async def test_any_other_error_of_postgres_ends_the_term(
    postgres: Failing, server: FakeApiServer, tmp_path: Path
) -> None:
    postgres.error = DatabaseError(reason="relation does not exist")
    async with leading(postgres, server, tmp_path) as leader:
        assert isinstance(await leader.ended_by(), DatabaseError)


async def test_a_turn_is_not_put_off_beyond_the_lease(
    postgres: Failing, server: FakeApiServer, tmp_path: Path
) -> None:
    postgres.error = DatabaseUnavailable(reason="it is away")
    async with leading(postgres, server, tmp_path) as leader:
        await eventually(lambda: leader.put_off.count > 0, "a turn that is put off")
        leader.lease.end()
        assert isinstance(await leader.ended_by(), Fenced)


async def test_a_leader_that_sees_no_api_server_resigns(
    postgres: Failing, server: FakeApiServer, tmp_path: Path
) -> None:
    async with leading(postgres, server, tmp_path, cut_off_after=0.5) as leader:
        await eventually(lambda: leader.term.ready, "a turn")
        await server.stop()
        assert isinstance(await leader.ended_by(), ApiServerUnseen)
        await server.start()


async def test_a_leader_that_never_saw_the_api_server_resigns_too(
    postgres: Failing, server: FakeApiServer, tmp_path: Path
) -> None:
    await server.stop()
    async with leading(postgres, server, tmp_path, cut_off_after=0.5) as leader:
        assert isinstance(await leader.ended_by(), ApiServerUnseen)
    await server.start()


async def test_a_term_after_five_that_failed_says_so_on_root_before_anything_else(
    postgres: Failing, server: FakeApiServer, tmp_path: Path
) -> None:
    failed_terms = no_failures()
    for _ in range(TELL_AFTER):
        failed_terms.note(DatabaseError(reason="relation does not exist"))
    postgres.error = DatabaseError(reason="relation does not exist")
    async with leading(postgres, server, tmp_path, failed_terms=failed_terms) as leader:
        await leader.ended_by()
        claimed, told = server.seen("PATCH")
        assert claimed.path == told.path == f"{QUEUES}/root/status"
        assert claimed.body["status"]["ledger"]["holder"] == "me"
        (condition,) = told.body["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("Deciding", "TurnsFail")
        assert "relation does not exist" in condition["message"]


async def test_a_term_that_makes_turns_for_a_while_ends_the_row_of_failures(
    postgres: Failing, server: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "PROVEN_SECONDS", 0.01)
    failed_terms = no_failures()
    failed_terms.note(ZeroDivisionError())
    async with leading(postgres, server, tmp_path, failed_terms=failed_terms):
        await eventually(lambda: failed_terms.count == 0, "proof")


def root(**ledger: object) -> dict[str, Any]:
    """Queue root, which says that this ledger leads."""
    return {"metadata": {"name": "root", "uid": "u-root"}, "spec": {}, "status": {"ledger": ledger}}


async def test_a_term_records_its_ledger_before_it_writes_anything_else(
    postgres: Failing, server: FakeApiServer, tmp_path: Path
) -> None:
    async with leading(postgres, server, tmp_path) as leader:
        await eventually(lambda: leader.term.ready, "a turn")
        first, *_ = [request for request in server.requests if request.verb not in ("LIST", "WATCH")]
        assert (first.verb, first.path) == ("PATCH", f"{QUEUES}/root/status")
        assert first.body["metadata"]["resourceVersion"]
        assert first.body["status"]["ledger"]["term"] == leader.lease.term.number


async def test_a_cluster_that_another_ledger_leads_is_not_written_to(
    postgres: Failing, server: FakeApiServer, tmp_path: Path
) -> None:
    await server.put(QUEUES, root(id="another", term=1, holder="them"))
    async with leading(postgres, server, tmp_path) as leader:
        error = await leader.ended_by()
        assert isinstance(error, AnotherLedger)
        assert "another" in str(error)
        assert {request.verb for request in server.requests} <= {"LIST", "WATCH"}


async def test_a_term_ends_when_another_ledger_takes_the_cluster(
    postgres: Failing, server: FakeApiServer, tmp_path: Path
) -> None:
    async with leading(postgres, server, tmp_path) as leader:
        await eventually(lambda: leader.term.ready, "a turn")
        await server.put(QUEUES, root(id="another", term=1, holder="them"))
        assert isinstance(await leader.ended_by(), Fenced)
        with pytest.raises(Fenced):
            leader.lease.check_lease()
