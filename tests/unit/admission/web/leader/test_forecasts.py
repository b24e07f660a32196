"""The leader's forecast: made in slices beside its turns, told as of its moment, and gone with the term."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from typing import Any

import msgspec
import pytest

from admission.decode.fields import seconds
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from admission.forecast.calibration import Interval
from admission.reconcile.expected_starts import ExpectedStart
from admission.turn_report import Decided
from admission.web.leader import forecasts
from admission.web.leader.answers import LeaderAnswers
from admission.web.leader.forecasts import Forecasts
from queues.errors import DatabaseUnavailable
from queues.plugins.interface import OrderPolicy
from queues.read_api.bodies import ExpectedList
from queues.sql.history.ended_runs import EndedRun
from queues.text_format import rfc3339
from queues.workload import QueueName, Workload, WorkloadKey
from tests.bench.synthetic_world import SyntheticWorld, node_table, pods, queue, workload
from tests.builders.plugin_policies import known, stand_still
from tests.waiting import LIMIT


def decided(waiting: int = 6) -> Decided:
    """Two nodes that gangs of two nodes fill one after the other: one runs, and so many wait."""
    world = SyntheticWorld({QueueName("a"): queue("a")}, node_table(2))
    world.arrive(workload(number + 1, "a", pods(2, 8)) for number in range(waiting + 1))
    world.turn()
    snapshot = Snapshot(
        now=world.now,
        queues=world.queues,
        nodes=world.nodes,
        pending=world.pending.freeze(),
        admissions=world.admissions.freeze(),
        holders=world.holders.freeze(),
    )
    return Decided(snapshot=snapshot, plan=decide(snapshot, Memo())[0])


class Replica:
    """A replica that leads as long as it has a last decision."""

    def __init__(self) -> None:
        self.last: Decided | None = None
        self.asked: list[int] = []
        self.slices = 0
        self.fails: Exception | None = None
        self.told: list[Mapping[WorkloadKey, ExpectedStart]] = []
        self.unknown: frozenset[WorkloadKey] = frozenset()

    async def learn(self, limit: int) -> Iterable[EndedRun]:
        self.asked.append(limit)
        if self.fails is not None:
            raise self.fails
        takes = pods(2, 8).takes
        return [EndedRun("", QueueName("a"), ((takes, 2),), 600, False)] * 20

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        self.slices += 1
        return await asyncio.to_thread(work)

    @asynccontextmanager
    async def forecasting(self) -> AsyncIterator[Forecasts]:
        found = Forecasts(
            lambda: self.last, self.learn, self.in_thread, self.told.append, lambda: self.unknown
        )
        task = asyncio.create_task(found.run())
        try:
            yield found
        finally:
            task.cancel()


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_LOOK", 0.001), ("_EVERY", 0.001), ("_REST", 0)):
        monkeypatch.setattr(forecasts, name, value)


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT):
        while not true():  # noqa: ASYNC110 - the forecast tells nobody when it is made
            await asyncio.sleep(0.001)


def told(of: Forecasts) -> ExpectedList:
    return msgspec.json.decode(of.encoded(), type=ExpectedList)


def waiting(last: Decided) -> Mapping[str, Workload]:
    return {key.uid: each for key, each in last.snapshot.pending.items()}


async def test_those_who_wait_get_an_interval_and_those_who_run_none() -> None:
    replica = Replica()
    replica.last = decided()
    async with replica.forecasting() as of:
        await until(lambda: told(of).items)
        found = told(of)

    by_uid = {line.uid: line for line in found.items}
    assert by_uid.keys() == waiting(replica.last).keys()
    assert {line.computed for line in found.items} == {found.computed}
    assert all(line.runs == 20 for line in found.items)
    assert all(line.latest is None or line.earliest <= line.latest for line in found.items)
    key = next(iter(replica.last.snapshot.pending))
    running = next(iter(replica.last.snapshot.holders))
    expected = of.of(key)
    assert expected is not None
    assert (expected.earliest, expected.basis) == (by_uid[key.uid].earliest, "queue and shape")
    assert of.of(running) is None
    assert replica.asked == [forecasts.LEARNED]


class Tried(OrderPolicy):
    """An order of others, which answers or does not."""

    name = "tried"
    terms = None
    ends = True

    def urgency(self, workload: Workload) -> int:
        return 0 if self.ends else stand_still()


async def test_plug_ins_are_asked_elsewhere_and_one_that_never_answers_costs_the_forecast_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    replica, last = Replica(), decided()
    queues = {name: replace(each, order="tried") for name, each in last.snapshot.queues.items()}
    replica.last = replace(last, snapshot=replace(last.snapshot, queues=queues))
    with known(Tried):
        async with replica.forecasting() as of:
            await until(lambda: told(of).items)
            assert {line.uid for line in told(of).items} == waiting(replica.last).keys()
            monkeypatch.setattr(Tried, "ends", False)
            monkeypatch.setattr(forecasts, "_LONGEST", 2.0)
            await until(lambda: not told(of).items)
    assert "no starts are forecast" in caplog.text
    assert any(
        "Plug-in tried of queue a did not answer" in getattr(each, "why", "") for each in caplog.records
    )


async def test_what_waits_for_pods_of_its_own_gets_none_anywhere() -> None:
    replica = Replica()
    replica.last = decided()
    own, *others = replica.last.snapshot.pending
    replica.unknown = frozenset((own,))
    async with replica.forecasting() as of:
        await until(lambda: told(of).items)
        assert {line.uid for line in told(of).items} == {key.uid for key in others}
        assert of.of(own) is None
        assert of.of(others[0]) is not None
        assert own not in replica.told[-1]
        replica.unknown = frozenset()
        await until(lambda: of.of(own))


async def test_what_was_admitted_or_deleted_since_is_listed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "_EVERY", 1000.0)
    replica = Replica()
    replica.last = decided()
    async with replica.forecasting() as of:
        await until(lambda: told(of).items)
        gone, *others = replica.last.snapshot.pending.items()
        replica.last = replace(replica.last, snapshot=replace(replica.last.snapshot, pending=dict(others)))
        assert {line.uid for line in told(of).items} == {key.uid for key, _ in others}
        assert of.of(gone[0]) is None


async def test_nothing_is_told_once_another_replica_leads() -> None:
    replica = Replica()
    replica.last = decided()
    async with replica.forecasting() as of:
        await until(lambda: told(of).items)
        replica.last = None
        assert (told(of).items, told(of).computed) == ((), None)
        await until(lambda: of.learned is None)
        replica.last = decided(2)
        await until(lambda: len(told(of).items) == 2)
    assert len(replica.asked) == 2


async def test_objects_are_told_what_the_list_tells() -> None:
    replica = Replica()
    replica.last = last = decided()
    async with replica.forecasting() as of:
        await until(lambda: replica.told)
        assert of.of(next(iter(last.snapshot.pending))) is not None
    starts = replica.told[0]
    assert starts.keys() == last.snapshot.pending.keys()
    assert {start.as_of for start in starts.values()} == {last.snapshot.now}
    assert any(start.earliest is not None for start in starts.values())


@pytest.mark.parametrize(
    ("interval", "start"),
    [
        (Interval(600, 1800, never=False), (600, 1800)),
        # It passed while the forecast was made.
        (Interval(0, 59, never=False), (None, None)),
        (Interval(0, 60, never=False), (0, 60)),
        (Interval(600, None, never=False), (600, None)),
        (Interval(59, None, never=False), (None, None)),
        (Interval(600, None, never=True), (None, None)),
    ],
)
def test_objects_are_told_nothing_that_says_nothing(
    interval: Interval, start: tuple[int | None, int | None]
) -> None:
    assert forecasts._start(0, interval, now=60) == (0, *start)


async def test_an_interval_that_has_passed_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    replica.last = last = decided()
    async with replica.forecasting() as of:
        await until(lambda: told(of).items)
        # No further forecast is made from here on.
        monkeypatch.setattr(forecasts, "_EVERY", inf)
        made = len(replica.told)
        await until(lambda: len(replica.told) > made)
        first = {line.uid: line for line in told(of).items if line.latest is not None}
        later = max(line.latest for line in first.values() if line.latest is not None)
        now = seconds(later) + 60
        replica.last = Decided(snapshot=replace(last.snapshot, now=now), plan=last.plan)
        again = {line.uid: line for line in told(of).items}
    for uid, line in first.items():
        passed = again[uid]
        assert (passed.overdue_since, passed.latest, passed.earliest) == (line.latest, None, rfc3339(now))


async def test_without_the_past_a_forecast_is_made_all_the_same() -> None:
    replica = Replica()
    replica.last, replica.fails = decided(), DatabaseUnavailable(reason="down")
    async with replica.forecasting() as of:
        await until(lambda: told(of).items)
        assert {(line.runs, line.basis, line.not_yet) for line in told(of).items} == {(0, "prior", True)}
    assert {start.earliest for start in replica.told[0].values()} == {None}, "objects say no time either"


async def test_a_forecast_that_fails_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    replica = Replica()
    replica.last, replica.fails = decided(), ZeroDivisionError("a mistake")
    async with replica.forecasting() as of:
        await until(lambda: len(replica.asked) > 1)
        replica.fails = None
        await until(lambda: told(of).items)
    assert "the forecast of starts failed" in caplog.text


async def test_it_is_made_in_slices_and_stops_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "_SLICE", 0.0)
    monkeypatch.setattr(forecasts, "_WORK", 0.001)
    replica = Replica()
    replica.last = decided(40)
    async with replica.forecasting() as of:
        await until(lambda: told(of).items)
    assert replica.slices > 1
    assert any(line.latest is None for line in told(of).items)


async def test_when_nobody_waits_nothing_is_worked_out() -> None:
    replica = Replica()
    replica.last = decided(0)
    async with replica.forecasting() as of:
        await until(lambda: replica.asked)
        await asyncio.sleep(0.02)
        assert (told(of).items, replica.slices) == ((), 0)


async def no_metrics() -> bytes:
    return b""


async def test_a_question_of_a_user_comes_before_the_next_slice() -> None:
    answers = LeaderAnswers(lambda: None, no_metrics, identity="a")
    order: list[str] = []

    def done(what: str) -> bytes:
        order.append(what)
        return b""

    question = asyncio.create_task(
        answers._computed("alice", lambda in_thread: in_thread(lambda: done("question")))
    )
    await asyncio.sleep(0)
    await answers._beside(lambda: done("slice"))
    await question

    assert order == ["question", "slice"]
