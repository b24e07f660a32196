"""Traces are handed on in a thread: nothing waits for the collector, and what is dropped is counted."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from admission.tracing import sender as module
from admission.tracing.sender import SPANS, TraceSender
from admission.tracing.spans import GangSpan, spans_of
from queues.sql.read.over_time.traced import TracedAdmission
from tests.unit.admission.tracing.test_spans import RAN
from tests.waiting import LIMIT, until


def gang(name: object) -> TracedAdmission:
    return replace(RAN, name=str(name))


class Collector:
    def __init__(self) -> None:
        self.took: list[str] = []
        self.batches: list[int] = []
        self.answers = threading.Event()
        self.answers.set()
        self.fails: Exception | bool = False

    def send(self, spans: Sequence[GangSpan]) -> bool:
        self.answers.wait(LIMIT)
        if isinstance(self.fails, Exception):
            raise self.fails
        if self.fails:
            return False
        self.took += [str(each.attributes["muster.workload.name"]) for each in spans]
        self.batches.append(len(spans))
        return True


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.answers.set()


def test_what_is_dropped_unmade_counts_as_the_trace_of_a_gang_that_runs() -> None:
    assert len(spans_of(RAN)) == SPANS


def test_traces_arrive_whole_and_in_their_order(collector: Collector) -> None:
    sender = TraceSender(collector.send)
    for number in range(100):
        sender.offer(gang(number))
    sender.close(10)
    assert collector.took == [str(number) for number in range(100) for _ in range(SPANS)]
    assert max(collector.batches) <= SPANS * module.BATCH
    assert sender.counts == (100 * SPANS, {"queue": 0, "collector": 0, "ledger": 0})


def test_while_the_collector_hangs_what_waits_is_bounded_and_the_rest_is_counted(
    collector: Collector,
) -> None:
    collector.answers.clear()
    sender = TraceSender(collector.send, most=5)
    sender.offer(gang("under way"))
    until(lambda: not sender._waiting, "the first one to be under way")
    for number in range(8):
        sender.offer(gang(number))
    assert sender.counts.dropped["queue"] == 3 * SPANS
    collector.answers.set()
    sender.close(10)
    assert len(collector.took) == 6 * SPANS


@pytest.mark.parametrize("fails", [True, ValueError("no such host")])
def test_what_the_collector_does_not_take_is_counted_and_told_once(
    collector: Collector, caplog: pytest.LogCaptureFixture, fails: Exception | bool
) -> None:
    caplog.set_level("INFO")
    sender = TraceSender(collector.send)
    collector.fails = fails
    for number in range(3):
        sender.offer(gang(number))
        until(lambda: sender.counts.dropped["collector"] == (number + 1) * SPANS, "it to be dropped")  # noqa: B023
    collector.fails = False
    sender.offer(gang("again"))
    until(lambda: sender.counts.sent == SPANS, "the next one to be sent")
    sender.close(10)
    assert [each.message for each in caplog.records] == ["traces are dropped", "traces arrive again"]


def test_the_end_waits_for_the_collector_for_a_limited_time(collector: Collector) -> None:
    collector.answers.clear()
    sender = TraceSender(collector.send)
    sender.offer(gang("hangs"))
    sender.close(0.05)
    sender.offer(gang("too late"))
    assert sender.counts.dropped["queue"] == SPANS


def test_a_row_of_which_no_trace_can_be_made_costs_only_itself(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    sender = TraceSender(collector.send)
    sender.offer(replace(RAN, numbers={}))
    sender.offer(gang("next"))
    sender.close(10)
    assert collector.took == ["next"] * SPANS
    assert sender.counts.dropped["ledger"] == SPANS
    assert "trace cannot be made" in caplog.messages
