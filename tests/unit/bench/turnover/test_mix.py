"""What the benchmark of a mix of gangs makes of what it saw."""

from collections import Counter

import pytest

from tests.bench.turnover import mix
from tests.bench.turnover.decision_log import DecisionLog
from tests.bench.turnover.mix import NODES, figures, sizes, turnovers
from tests.bench.turnover.recorded_load import PodRecord, Record, WorkloadRecord
from tests.bench.turnover.recorded_round import RecordedRound
from tests.bench.turnover.timeline import Span, Window, last_moment_with, share_in_use


def test_there_are_as_many_gangs_of_each_size_and_enough_for_the_time() -> None:
    gangs = sizes(120)
    assert len(set(Counter(gangs).values())) == 1
    assert sum(gangs) == pytest.approx((120 / mix.RUNS + 1) * NODES, rel=0.01)
    assert gangs == sizes(120)


def pod(gang: int, node: str, created: float, ended: float) -> PodRecord:
    """It is bound and runs a second after the other."""
    return PodRecord(
        gang=gang, created=created, node=node, bound=created + 1, running=created + 2, ended=ended
    )


def test_utilisation_counts_pods_that_run_until_too_little_waits() -> None:
    """Gangs of a node each: all nodes run from 2 to 6, and again from 10; what waits then asks for all until 8."""
    first = [pod(gang, f"n{gang}", 0, 6) for gang in range(NODES)]
    second = [pod(NODES + gang, f"n{gang}", 8, 20) for gang in range(NODES)]
    workloads = [WorkloadRecord(submitted=0, resumed=[0], finished=20) for _ in range(2 * NODES)]
    record = Record(workloads=workloads, pods=[*first, *second], cpu_seconds=0.0)
    one = figures([1] * (2 * NODES), RecordedRound(record=record))
    assert (one.window.start, one.window.end) == (2, 8)
    assert one.utilisation == pytest.approx(4 / 6)


def test_a_turnover_is_told_in_stages_that_add_up() -> None:
    pods = [pod(0, "n1", 0, 5.0), pod(0, "n2", 0, 5.5), pod(1, "n1", 6, 20)]
    log = DecisionLog(admitted={0: [0], 1: [5.75]}, freed={0: [5.625], 1: [21]})
    found = turnovers(pods, log, Window(start=1, end=10))
    assert found["the pod's end, its gang's"] == [0.5]
    assert found["the gang's end, seats given back"] == [0.125]
    assert found["seats given back, next admitted"] == [0.125]
    assert found["admitted, pod made"] == [0.25]
    assert found["all: the pod's end, next running"] == [3.0]
    assert turnovers(pods, log, Window(start=1, end=7)) == {}


# ── use over time ───────────────────────────────────────────────────────────────────────────────────────────


WINDOW = Window(start=10.0, end=20.0)


@pytest.mark.parametrize(
    ("start", "end", "share"),
    [(10, 20, 0.25), (0, 99, 0.25), (15, 99, 0.125), (0, 15, 0.125), (0, 10, 0.0), (20, 30, 0.0)],
)
def test_a_span_counts_as_far_as_it_lies_in_the_window(start: float, end: float, share: float) -> None:
    assert share_in_use([Span(start=start, end=end, amount=1)], 4, WINDOW) == share


def test_spans_that_overlap_count_together_by_their_amounts() -> None:
    spans = [Span(start=10, end=20, amount=2), Span(start=12, end=14, amount=5)]
    assert share_in_use(spans, 10, WINDOW) == pytest.approx(0.3)


def test_the_last_moment_with_enough_is_the_end_of_the_last_time_with_it() -> None:
    first = [Span(start=0, end=5, amount=3), Span(start=1, end=4, amount=3)]
    again = [Span(start=6, end=9, amount=2), Span(start=7, end=8, amount=4)]
    assert last_moment_with([*first, *again], 6) == 8
    assert last_moment_with(first, 6) == 4
    assert last_moment_with(first, 7) is None


def test_a_span_that_follows_another_at_the_same_moment_does_not_overlap_it() -> None:
    assert last_moment_with([Span(start=0, end=5), Span(start=5, end=9)], 2) is None
