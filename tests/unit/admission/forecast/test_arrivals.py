"""What comes is expected to come again, about as often, at that time of day."""

from itertools import takewhile
from statistics import fmean

from admission.forecast.arrivals import LEAST, NO_ARRIVALS, WINDOW, Arrival, ArrivalHistory, RecentArrivals
from tests.bench.synthetic_world import pods, workload

NOW = 1_800_000_000
DRAWS = 16


def recent(*seconds_ago: int, since: int = NOW - WINDOW) -> RecentArrivals:
    return RecentArrivals(
        since,
        tuple(Arrival(NOW - ago, workload(ago, "a", pods(1))) for ago in sorted(seconds_ago, reverse=True)),
    )


def within(of: RecentArrivals, draw: int, seconds: int) -> list[Arrival]:
    return list(takewhile(lambda each: each.second < NOW + seconds, of.expected(NOW, draw, DRAWS, 1000)))


def test_as_many_come_on_average_at_the_same_time_of_day() -> None:
    of = recent(*range(600, 600 + 100 * 60, 60))
    counts = [len(within(of, draw, WINDOW)) for draw in range(DRAWS)]

    assert 85 <= fmean(counts) <= 115
    assert len(set(counts)) > 1
    for arrival in within(of, 0, 3 * WINDOW):
        assert any((arrival.second - NOW + ago) % WINDOW == 0 for ago in range(600, 6600, 60))


def test_they_come_in_order_after_now_and_are_others_each_time() -> None:
    found = within(recent(*range(10, WINDOW, 700)), 3, 5 * WINDOW)

    assert [each.second for each in found] == sorted(each.second for each in found)
    assert found[0].second > NOW
    assert len({each.workload.key for each in found}) == len(found)
    assert [each.workload.arrival for each in found] == list(range(1001, 1001 + len(found)))
    assert all(each.workload.created == each.workload.waiting_since == each.second for each in found)


def test_a_draw_is_the_same_each_time() -> None:
    of = recent(*range(10, WINDOW, 700))

    assert within(of, 2, WINDOW) == within(of, 2, WINDOW) != within(of, 3, WINDOW)


def test_with_less_than_an_hour_of_the_past_nothing_is_expected() -> None:
    assert within(recent(10, 20, since=NOW - LEAST + 1), 0, WINDOW) == []
    assert list(NO_ARRIVALS.expected(NOW, 0, DRAWS, 0)) == []


def test_with_some_hours_of_the_past_they_repeat_after_as_many() -> None:
    found = within(recent(100, since=NOW - 2 * LEAST), 0, 40 * LEAST)

    assert {(each.second - NOW + 100) % (2 * LEAST) for each in found} == {0}


def test_arrivals_of_the_day_before_are_forgotten() -> None:
    history = ArrivalHistory(NOW - 3 * WINDOW)
    history.add(workload(1, "a", pods(1)), NOW - WINDOW - 5)
    history.add(workload(2, "a", pods(1)), NOW - 5)
    found = history.recent(NOW)

    assert [each.workload.name for each in found.arrivals] == ["job-2"]
    assert found.since == NOW - WINDOW
