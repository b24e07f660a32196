"""Which expected starts are shown: those that enough ended runs and the recorded weeks speak for. Pure."""

from typing import Final, NamedTuple

from admission.forecast.calibration import SLACK, Interval
from admission.forecast.run_times import Likeness, RunTimes
from queues.resources import WHOLE, is_device
from queues.workload import Workload

#: Ended runs of the class by which a run time goes, so that an interval is shown.
LEAST_RUNS: Final = 20
#: The high end of an interval that is shown is at most so many times the low one.
WIDEST: Final = 10
#: Percent of the intervals of a size that held, so that they are shown. More held too often: they are too wide.
HELD_AT_LEAST, HELD_AT_MOST = 70, 90


class SizeClass(NamedTuple):
    """Workloads of one size, and how often their intervals held on the recorded weeks."""

    #: GPUs, or other devices, that all pods ask for together. None for any number.
    most: int | None
    #: Percent (docs/explanation/expected-start.md).
    held: int


#: The smallest first.
SIZES: Final = (SizeClass(1, 80), SizeClass(8, 78), SizeClass(None, 70))


def as_shown(interval: Interval, workload: Workload, run_times: RunTimes) -> Interval:
    """The interval of a workload's start, or one that says nothing yet.

    What never starts as far as can be foreseen is no forecast of a time, and stays. An interval without a high end is
    a lower bound, and has no width.
    """
    ended = run_times.ended(Likeness.of_workload(workload), workload.run_time)
    is_wide = interval.high is not None and interval.high + SLACK > WIDEST * (interval.low + SLACK)
    if interval.never or (ended >= LEAST_RUNS and not is_wide and _has_held(workload)):
        return interval
    return Interval(0, None, never=False, not_yet=True)


def _has_held(workload: Workload) -> bool:
    asked = (units for name, units in workload.asks().items() if "/" in name and not is_device(name))
    devices = -(-max(asked, default=0) // WHOLE)
    held = next(size.held for size in SIZES if size.most is None or devices <= size.most)
    return HELD_AT_LEAST <= held <= HELD_AT_MOST
