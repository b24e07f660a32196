"""A gang's trace is told once, when its admission is ready or has ended: from turns on a real Postgres to spans."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
import pytest_asyncio

from admission.cycle import Cycle
from admission.facts.changes import Change, Fact
from admission.facts.pods import Conduct
from admission.facts.workloads import WorkloadFact
from admission.tracing import gang_traces
from admission.tracing.context import TraceStart
from admission.tracing.gang_traces import GangTraces
from admission.tracing.sender import TraceSender
from admission.tracing.spans import GangSpan
from admission.turn_report import TurnReport
from admission.web.sql_reader import SqlReader
from admission.workloads.inputs import Timeouts
from queues.errors import DatabaseUnavailable
from queues.quota.queue import ROOT
from queues.sql import leadership
from queues.sql.database import Database
from queues.sql.leadership import Term
from queues.sql.read.over_time.traced import traced_admissions
from queues.workload import AdmissionId, QueueName
from tests.builders.cycles import begun_world, cycle_over
from tests.builders.facts import NOW, VOLCANO, gone, node, queue, released, seen, volcano_job
from tests.waiting import eventually

QUEUES = (queue("root"), queue("team", parent=QueueName(ROOT)))
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@dataclass(slots=True)
class Told:
    """A leader that tells traces, and what arrived."""

    database: Database
    term: Term
    spans: list[GangSpan] = field(default_factory=list)
    taken: bool = True
    traces: GangTraces = field(init=False)
    cycle: Cycle = field(init=False)
    now: int = NOW

    def __post_init__(self) -> None:
        self.traces = GangTraces(self.database, TraceSender(self.take))

    def take(self, spans: Sequence[GangSpan]) -> bool:
        self.spans += spans
        return self.taken

    async def begin(self, *facts: Fact) -> None:
        """A leader that reads what there is."""
        self.cycle = cycle_over(
            self.database, self.term, await begun_world(self.database, facts), lambda: self.now
        )
        self.cycle.tells_traces = True

    async def turn(self, *changes: Change | Fact) -> TurnReport:
        report = await self.cycle.turn([each if isinstance(each, Change) else seen(each) for each in changes])
        while await self.cycle.store_rest():
            pass
        self.traces.note(report.completed)
        return report

    async def explained(self) -> set[str | None]:
        """Traces that ``kubectl muster explain`` names."""
        (one,) = await SqlReader(self.database).explain(namespace="ns", name="train", kind=None)
        return {each.trace for each in one.stages if each.admission is not None}


@pytest_asyncio.fixture
async def told(database: str) -> AsyncIterator[Told]:
    connected = await Database.connect(database)
    async with connected.transaction() as tx:
        term = await leadership.elect(tx, "me", 600.0)
    assert term is not None
    found = Told(connected, term)
    yield found
    await found.traces.close(2)
    await connected.close()


def ready(index: int, admission: AdmissionId, at: int) -> Fact:
    """A running pod of the gang."""
    return released(
        f"train-worker-{index}",
        f"worker/{index}",
        "n1",
        by=admission,
        owner=VOLCANO,
        bound_at=at,
        ready_since=at,
    )


async def test_a_gang_that_runs_is_told_once_with_its_stages_whoever_leads(told: Told) -> None:
    await told.begin(*QUEUES, node("n1"), replace(volcano_job(2), created=NOW - 5))
    await told.turn()
    (id_,) = told.cycle.world.admissions
    running = [ready(index, id_, NOW + 2) for index in range(2)]
    told.now += 2
    await told.turn(*running)
    assert not told.traces._ids

    # Another leader sees that the gang stays ready.
    await told.begin(*QUEUES, node("n1"), replace(volcano_job(2), created=NOW - 5), *running)
    told.now += Timeouts().ready_for
    report = await told.turn()
    assert report.completed == [id_]
    told.now += 1
    ended = [await told.turn(gone(volcano_job(2)), *map(gone, running)), await told.turn()]
    assert not told.cycle.world.admissions
    assert [each.completed for each in ended] == [[], []]

    await told.traces.close(5)
    names = [span.name for span in told.spans]
    assert names == ["admission", "decided", "applied", "bound", "running"]
    assert len({span.trace for span in told.spans}) == 1
    assert told.spans[0].attributes["muster.outcome"] == "running"
    assert told.traces.counts.sent == len(told.spans)


async def test_a_gang_that_ends_before_it_is_ready_is_told_at_its_end(told: Told) -> None:
    await told.begin(*QUEUES, node("n1"), volcano_job(2))
    await told.turn()
    (id_,) = told.cycle.world.admissions
    assert not told.traces._ids
    await told.turn(gone(volcano_job(2)))
    report = await told.turn()
    assert [*report.completed, *told.traces._ids][0] == id_
    await told.traces.close(5)
    assert [span.name for span in told.spans][-1] == "ended"


async def test_log_explain_and_spans_name_the_same_trace(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "admission.turn_report")
    await told.begin(*QUEUES, node("n1"), volcano_job(2))
    await told.turn()
    (id_,) = told.cycle.world.admissions
    trace = TraceStart(decided_at=0.0).trace(volcano_job(2).key, id_)
    assert [vars(line).get("trace") for line in caplog.records if line.message == "admitted"] == [trace]
    assert await told.explained() == {trace}
    await told.turn(gone(volcano_job(2)))
    await told.turn()
    await told.traces.close(5)
    assert {span.trace for span in told.spans} == {trace}


def submitted(sampled: str = "01") -> WorkloadFact:
    return replace(volcano_job(2), conduct=Conduct(traceparent=f"00-{TRACE}-{SPAN}-{sampled}"))


async def test_a_gang_joins_the_trace_of_whoever_submitted_it(told: Told) -> None:
    await told.begin(*QUEUES, node("n1"), submitted())
    await told.turn()
    assert await told.explained() == {TRACE}
    await told.turn(gone(submitted()))
    await told.turn()
    await told.traces.close(5)
    assert (told.spans[0].trace, told.spans[0].parent) == (TRACE, SPAN)


async def test_a_gang_of_a_trace_that_is_not_recorded_has_none(told: Told) -> None:
    await told.begin(*QUEUES, node("n1"), submitted("00"))
    await told.turn()
    assert await told.explained() == {None}
    await told.turn(gone(submitted()))
    await told.turn()
    await told.traces.close(5)
    assert told.spans == []


async def test_the_reason_of_the_wait_and_the_time_of_the_decision_are_in_the_trace(told: Told) -> None:
    await told.begin(*QUEUES, node("n2"), volcano_job(9))
    await told.turn()
    assert not told.cycle.world.admissions
    told.now += 60
    await told.turn(node("n1"))
    assert told.cycle.world.admissions
    await told.turn(gone(volcano_job(9)))
    await told.turn()
    await told.traces.close(5)
    (decided,) = (span for span in told.spans if span.name == "decided")
    assert decided.attributes["muster.wait.reason"] == "NeverFits"
    assert decided.end == NOW + 60


async def test_while_traces_are_off_nothing_is_told_of_them(told: Told) -> None:
    await told.begin(*QUEUES, node("n1"), volcano_job(2))
    told.cycle.tells_traces = False
    await told.turn()
    assert await told.explained() == {None}


async def test_a_ledger_that_cannot_be_read_is_asked_again(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    await told.begin(*QUEUES, node("n1"), volcano_job(2))
    await told.turn()
    await told.turn(gone(volcano_job(2)))
    await told.turn()
    failures = [2]

    async def stumbles(*asked: object) -> object:
        if failures[0]:
            failures[0] -= 1
            raise DatabaseUnavailable(reason="the test")
        return await traced_admissions(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(gang_traces, "traced_admissions", stumbles)
    monkeypatch.setattr(gang_traces, "AFTER_FAILURE", 0.01)
    running = asyncio.create_task(told.traces.run())
    await eventually(lambda: bool(told.spans), "the trace")
    running.cancel()
    assert told.traces.counts.dropped["ledger"] == 0


async def test_what_waits_to_be_read_is_bounded_and_counted(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang_traces, "MOST", 3)
    told.traces.note(map(AdmissionId, range(1, 6)))
    assert len(told.traces._ids) == 3
    assert told.traces.counts.dropped["queue"] > 0
