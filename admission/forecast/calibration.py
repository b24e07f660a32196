"""What forecasts were worth: their intervals are stretched by how far earlier ones missed. Pure.

Simulations know nothing of failures, of new queues, or of users who do something else than last week. So forecasts
are kept until their workloads start, and the low and the high end of an interval are multiplied by what would have
made four of five earlier ones right (conformal prediction: Vovk et al. 2005; for what is still open, Kaplan and Meier
1958).
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import exp, log
from statistics import NormalDist
from typing import Final, NamedTuple

from admission.forecast.ensemble import LOW, RawInterval
from admission.forecast.run_times import LONGEST, survival_curve
from queues.workload import WorkloadKey

#: Seconds that are added to each time before two are compared: a minute more or less is no error.
SLACK: Final = 60
#: Forecasts of one moment that are kept to learn from: all of them miss by much the same.
_PER_MOMENT: Final = 32
#: Moments that are learned from, the latest ones.
_MOMENTS: Final = 96
#: Seconds between two moments that are learned from.
EVERY: Final = 3600
#: The part of earlier starts that the high end has to be above. It is less than 0.9: forecasts that are open count
#: as late ones, and of one moment all miss by much the same. Chosen on the public traces, where more held too many.
_HIGH_PART: Final = 0.85
#: So many forecasts count as learned at first, which miss as those on the public traces do
#: (docs/explanation/expected-start.md): by this standard deviation of the logarithm of the time that is left.
_PRIOR: Final = 19
#: With so many moments to learn from they do not count any more.
_ENOUGH: Final = 8
_PRIOR_DEVIATION: Final = 0.6
_PRIOR_SCORES: Final = tuple(NormalDist(0, _PRIOR_DEVIATION).quantiles(_PRIOR + 1))


class Interval(NamedTuple):
    """When a workload should start, four of five times: seconds after the snapshot."""

    low: int
    #: None if it starts later than the simulations went on, or never.
    high: int | None
    never: bool
    #: Nothing is shown of it: too few runs have ended, or it is too wide (``admission.forecast.trust``).
    not_yet: bool = False


@dataclass(slots=True)
class _Kept:
    """An earlier forecast."""

    made: int
    low: int
    high: int
    #: Seconds until the start. None while the workload still waits.
    truth: int | None = None
    #: The second at which its workload was gone without a start. 0: it is not.
    gone: int = 0


@dataclass(slots=True, eq=False)
class Calibration:
    """What was learned from earlier forecasts; empty at first."""

    _kept: deque[list[_Kept]] = field(default_factory=lambda: deque(maxlen=_MOMENTS))
    _open: dict[WorkloadKey, list[_Kept]] = field(default_factory=dict)
    _last: int = 0

    def note(self, now: int, intervals: Mapping[WorkloadKey, RawInterval]) -> None:
        """A forecast was made. Some of them are kept, at most every ``EVERY`` seconds."""
        if now < self._last + EVERY or not intervals:
            return
        self._last = now
        keys = sorted(key for key, each in intervals.items() if not each.never)
        kept = []
        for key in keys[:: -(-len(keys) // _PER_MOMENT) or 1]:
            each = intervals[key]
            low = each.known if each.low is None else each.low
            high = max(low, each.known) if each.high is None else each.high
            kept.append(_Kept(now, low, high))
            self._open.setdefault(key, []).append(kept[-1])
        self._kept.append(kept)

    def started(self, key: WorkloadKey, at: int) -> None:
        """A workload got its first seats at that second."""
        for each in self._open.pop(key, ()):
            each.truth = max(0, at - each.made)

    def gone(self, key: WorkloadKey, at: int) -> None:
        """A workload went away before it got any."""
        for each in self._open.pop(key, ()):
            each.gone = at

    def is_open(self) -> Iterable[WorkloadKey]:
        """Workloads with forecasts that are not known to be right or wrong yet."""
        return tuple(self._open)

    def factors(self, now: int) -> tuple[float, float | None]:
        """What the low and the high end are multiplied by. None if no high end is known that is high enough."""
        known = sum(any(each.truth is not None for each in moment) for moment in self._kept)
        prior = _PRIOR_SCORES if known < _ENOUGH else ()
        lows: list[tuple[float, bool]] = [(score, True) for score in prior]
        highs = list(lows)
        for moment in self._kept:
            for each in moment:
                seconds, is_over = _seen(each, now)
                lows.append((log((seconds + SLACK) / (each.low + SLACK)), is_over))
                highs.append((log((seconds + SLACK) / (each.high + SLACK)), is_over))
        low, high = survival_quantile(lows, LOW), survival_quantile(highs, _HIGH_PART)
        return (1.0 if low is None else exp(low)), (None if high is None else exp(high))

    def intervals(self, now: int, raw: Mapping[WorkloadKey, RawInterval]) -> dict[WorkloadKey, Interval]:
        """The intervals to show, from those that the simulations gave at ``now``."""
        low_factor, high_factor = self.factors(now)
        return {key: _stretched(each, low_factor, high_factor) for key, each in raw.items()}


def _seen(each: _Kept, now: int) -> tuple[int, bool]:
    """Seconds until the start, and whether it is known: else it is longer."""
    if each.truth is not None:
        return each.truth, True
    return max(0, (each.gone or now) - each.made), False


def _stretched(raw: RawInterval, low_factor: float, high_factor: float | None) -> Interval:
    low = raw.known if raw.low is None else _times(raw.low, low_factor)
    if raw.low is None:
        low = min(low, _times(raw.known, low_factor))
    if raw.high is None or high_factor is None:
        return Interval(low, None, raw.never)
    high = max(low, _times(raw.high, high_factor))
    return Interval(low, None if high > LONGEST else high, raw.never)


def _times(seconds: int, factor: float) -> int:
    return max(0, int((seconds + SLACK) * factor) - SLACK)


def survival_quantile(samples: Iterable[tuple[float, bool]], part: float) -> float | None:
    """The value that this part of the samples does not exceed. A sample with False is larger than its value.

    None if too many of the largest samples are of that kind. One more sample, larger than all, is counted in.
    """
    curve = zip(*survival_curve(samples), strict=True)
    return next((value for value, left in curve if 1 - left >= part - 1e-9), None)
