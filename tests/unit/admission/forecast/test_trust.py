"""An expected start is shown where ended runs and the recorded weeks speak for it, and else as not known yet."""

from dataclasses import replace

import pytest

from admission.forecast import trust
from admission.forecast.calibration import Interval
from admission.forecast.run_times import Likeness, Run, RunTimes
from admission.forecast.trust import SIZES, as_shown
from tests.bench.synthetic_world import pods, workload

HOUR = 3600
NOT_YET = Interval(0, None, never=False, not_yet=True)


def shown(
    interval: Interval, *, gpus: int = 1, ended: int = 20, declared: int | None = None, others: int = 0
) -> Interval:
    """Of a workload of one pod, while so many like it, and so many ``others``, have ended."""
    asks = replace(workload(1, "a", pods(1, gpus)), run_time=declared)
    like, unlike = (Likeness.of_workload(workload(2, "a", pods(1, each))) for each in (gpus, gpus + 1))
    return as_shown(interval, asks, RunTimes((*[Run(like, HOUR)] * ended, *[Run(unlike, HOUR)] * others)))


@pytest.mark.parametrize("ended", [0, 7, 19])
def test_nothing_is_shown_before_twenty_runs_of_its_class_have_ended(ended: int) -> None:
    interval = Interval(HOUR, 2 * HOUR, never=False)
    assert shown(interval, ended=ended) == NOT_YET
    assert shown(interval, ended=ended, declared=60) == NOT_YET
    assert shown(interval, ended=20) == interval


def test_the_class_of_what_declares_its_run_time_is_all_that_ended() -> None:
    interval = Interval(HOUR, 2 * HOUR, never=False)
    assert shown(interval, ended=8, others=12) == NOT_YET
    assert shown(interval, ended=8, others=12, declared=60) == interval


def test_no_interval_is_shown_that_is_wider_than_tenfold() -> None:
    """A minute more or less is no difference."""
    assert shown(Interval(60, 1140, never=False)) == Interval(60, 1140, never=False)
    assert shown(Interval(60, 1141, never=False)) == NOT_YET
    assert shown(Interval(60, None, never=False)) == Interval(60, None, never=False)


def test_sizes_whose_intervals_held_too_seldom_or_too_often_are_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interval = Interval(HOUR, 2 * HOUR, never=False)
    assert all(70 <= size.held <= 90 for size in SIZES)
    held = zip(SIZES, (69, 70, 91), strict=True)
    monkeypatch.setattr(trust, "SIZES", [size._replace(held=percent) for size, percent in held])
    assert [shown(interval, gpus=gpus) == interval for gpus in (0, 1, 2, 8, 9)] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_what_never_starts_is_no_forecast_of_a_time() -> None:
    never = Interval(HOUR, None, never=True)
    assert shown(never, ended=0) == never
