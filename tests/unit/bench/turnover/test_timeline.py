"""Use over time, from spans."""

import pytest

from tests.bench.turnover.timeline import Span, Window, last_moment_with, share_in_use

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
