"""Intervals are put right by how far earlier ones missed, and by nothing that was not known by then."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.forecast import trust
from admission.forecast.calibration import EVERY, Calibration, Interval, survival_quantile
from admission.forecast.ensemble import RawInterval
from admission.forecast.run_times import Likeness, Run, RunTimes
from admission.forecast.trust import SIZES, as_shown
from queues import kind_names
from queues.workload import WorkloadKey
from tests.bench.synthetic_world import pods, workload

NOW = 1_800_000_000
HOUR = 3600


def key(number: int) -> WorkloadKey:
    return WorkloadKey(kind_names.JOB, f"{number:04}")


def raw(low: int, high: int | None, *, known: int = 10**6, never: bool = False) -> RawInterval:
    return RawInterval(low, high, known, never)


def played(times: float, moments: int = 60) -> Calibration:
    """Forecasts of which each start came so many times later than the low end, and the high end."""
    calibration = Calibration()
    for moment in range(moments):
        now = NOW + moment * EVERY
        calibration.note(now, {key(moment): raw(HOUR, HOUR)})
        calibration.started(key(moment), now + int((HOUR + 60) * times) - 60)
    return calibration


def test_what_was_right_stays_as_it_is() -> None:
    later = NOW + 1000 * EVERY
    (interval,) = played(1.0).intervals(later, {key(0): raw(1000, 5000)}).values()

    assert (interval.low, interval.high) == pytest.approx((1000, 5000), abs=1)


def test_starts_that_come_later_than_told_move_the_ends() -> None:
    later = NOW + 1000 * EVERY
    (interval,) = played(3.0).intervals(later, {key(0): raw(1000, 5000)}).values()

    assert interval.high == pytest.approx(3 * 5000, rel=0.1)
    assert interval.low == pytest.approx(3 * 1000, rel=0.1)


def test_with_little_learned_an_interval_is_wide() -> None:
    (interval,) = Calibration().intervals(NOW, {key(0): raw(1000, 5000)}).values()

    assert interval.low < 500
    assert interval.high is None or interval.high > 8000


def test_a_start_that_is_known_later_does_not_count_yet() -> None:
    calibration = Calibration()
    calibration.note(NOW, {key(number): raw(HOUR, HOUR) for number in range(30)})
    before = calibration.factors(NOW + 60)
    for number in range(30):
        calibration.started(key(number), NOW + 10 * HOUR)

    assert before[1] is None or before[1] >= 1
    assert calibration.factors(NOW + 20 * HOUR)[1] == pytest.approx(10, rel=0.1)


def test_who_waits_long_past_the_end_of_the_interval_counts_as_late() -> None:
    calibration = Calibration()
    calibration.note(NOW, {key(number): raw(HOUR, HOUR) for number in range(30)})

    assert calibration.factors(NOW + 100 * HOUR)[1] is None


def test_who_goes_away_before_a_start_counts_only_as_long_as_it_waited() -> None:
    calibration = Calibration()
    calibration.note(NOW, {key(number): raw(HOUR, HOUR) for number in range(30)})
    for number in range(30):
        calibration.gone(key(number), NOW + 60)
    high = calibration.factors(NOW + 100 * HOUR)[1]

    assert high is None or high < 10


def test_later_than_the_simulation_stays_without_an_end() -> None:
    (interval,) = played(1.0).intervals(NOW + 1000 * EVERY, {key(0): raw(1000, None, known=9000)}).values()

    assert interval.low == pytest.approx(1000, abs=1)
    assert interval.high is None


def test_moments_that_follow_at_once_teach_nothing_new() -> None:
    calibration = Calibration()
    calibration.note(NOW, {key(0): raw(HOUR, HOUR)})
    calibration.note(NOW + 1, {key(1): raw(HOUR, HOUR)})

    assert calibration.is_open() == (key(0),)


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.booleans()), max_size=40),
    st.floats(0.05, 0.95),
    st.floats(0.05, 0.95),
)
def test_a_larger_part_ends_later(samples: list[tuple[float, bool]], part: float, other: float) -> None:
    low, high = (survival_quantile(samples, each) for each in sorted((part, other)))

    assert high is None or (low is not None and low <= high)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0.2, 5))
def test_an_interval_has_its_ends_in_order_and_none_before_now(one: int, other: int, times: float) -> None:
    low, high = sorted((one, other))
    (interval,) = played(times, 12).intervals(NOW + 99 * EVERY, {key(0): raw(low, high)}).values()

    assert interval.low >= 0
    assert interval.high is None or interval.low <= interval.high


# ── when it is shown ────────────────────────────────────────────────────────────────────────────────────────


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
