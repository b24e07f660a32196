"""How much of something is in use over time, from the spans in which parts of it are.

Moments are seconds since the epoch.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An amount that is in use, or waits, from one moment to another."""

    start: float
    end: float
    amount: float = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time that a figure is about."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


def share_in_use(spans: Iterable[Span], total: float, window: Window) -> float:
    """Average over the window of what is in use, as a share of the total."""
    used = sum(
        span.amount * max(0.0, min(span.end, window.end) - max(span.start, window.start)) for span in spans
    )
    return used / (total * window.seconds)


def last_moment_with(spans: Iterable[Span], least: float) -> float | None:
    """The end of the last time in which spans with at least this amount in all overlap. None: they never do."""
    steps = sorted(step for span in spans for step in ((span.start, span.amount), (span.end, -span.amount)))
    last, amount = None, 0.0
    for moment, change in steps:
        if amount >= least > amount + change:
            last = moment
        amount += change
    return last
