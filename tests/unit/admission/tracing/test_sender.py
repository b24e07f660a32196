"""Traces are handed on in a thread: nothing waits for the collector, and what is dropped is counted."""

import threading
from collections.abc import Iterator, Sequence

import pytest

from admission.tracing import sender as module
from admission.tracing.sender import TraceSender
from admission.tracing.spans import GangSpan
from tests.waiting import until


def span(name: str) -> GangSpan:
    return GangSpan(name=name, trace="a" * 32, id="b" * 16, parent="", start=0.0, end=1.0, attributes={})


class Collector:
    def __init__(self) -> None:
        self.took: list[str] = []
        self.batches: list[int] = []
        self.answers = threading.Event()
        self.answers.set()
        self.fails: Exception | bool = False

    def send(self, spans: Sequence[GangSpan]) -> bool:
        self.answers.wait(30)
        if isinstance(self.fails, Exception):
            raise self.fails
        if self.fails:
            return False
        self.took += [each.name for each in spans]
        self.batches.append(len(spans))
        return True


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.answers.set()


def test_traces_arrive_whole_and_in_their_order(collector: Collector) -> None:
    sender = TraceSender(collector.send)
    for number in range(100):
        sender.offer((span(f"{number}a"), span(f"{number}b")))
    sender.close(10)
    assert collector.took == [f"{number}{part}" for number in range(100) for part in "ab"]
    assert max(collector.batches) <= 2 * module.BATCH
    assert sender.counts == (200, {"queue": 0, "collector": 0, "ledger": 0})


def test_while_the_collector_hangs_what_waits_is_bounded_and_the_rest_is_counted(
    collector: Collector,
) -> None:
    collector.answers.clear()
    sender = TraceSender(collector.send, most=5)
    sender.offer((span("under way"),))
    until(lambda: not sender._waiting, "the first one to be under way")
    for number in range(8):
        sender.offer((span(str(number)), span(str(number))))
    assert sender.counts.dropped["queue"] == 6
    collector.answers.set()
    sender.close(10)
    assert len(collector.took) == 11


@pytest.mark.parametrize("fails", [True, ValueError("no such host")])
def test_what_the_collector_does_not_take_is_counted_and_told_once(
    collector: Collector, caplog: pytest.LogCaptureFixture, fails: Exception | bool
) -> None:
    caplog.set_level("INFO")
    sender = TraceSender(collector.send)
    collector.fails = fails
    for number in range(3):
        sender.offer((span(str(number)),))
        until(lambda: sender.counts.dropped["collector"] == number + 1, "it to be dropped")  # noqa: B023
    collector.fails = False
    sender.offer((span("again"),))
    until(lambda: sender.counts.sent == 1, "the next one to be sent")
    sender.close(10)
    assert [each.message for each in caplog.records] == ["traces are dropped", "traces arrive again"]


def test_the_end_waits_for_the_collector_for_a_limited_time(collector: Collector) -> None:
    collector.answers.clear()
    sender = TraceSender(collector.send)
    sender.offer((span("hangs"),))
    sender.close(0.05)
    sender.offer((span("too late"),))
    assert sender.counts.dropped["queue"] == 1
