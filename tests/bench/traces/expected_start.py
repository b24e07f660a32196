"""Whether forecasts of starts can be trusted: made on recorded gangs in virtual time, and compared with what then came.

``python -m tests.bench --only expected-start``, or ``python -m tests.bench.traces.expected_start [WEEK …]``. A forecast
knows what a leader would know at that moment: what has ended and started until then, and nothing of run times to come.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from time import process_time
from typing import Final

from admission.forecast.calibration import Interval
from admission.forecast.learned import Learned
from admission.web.leader.forecasts import LIMITS
from queues.resources import GPU
from queues.workload import Workload, WorkloadKey
from tests.bench.mark import Mark
from tests.bench.simulate import gang_trace, rules
from tests.bench.simulate.gangs import Simulation
from tests.bench.traces.weeks import every_week

TRACES: Final = Path(__file__).parents[4] / "shared" / "traces"
#: Weeks that are played unless others are named.
WEEKS: Final = ("philly-w9-r095-eq", "philly-w11-r10", "philly-w12-r095", "itp-w5-r10")
_HOUR: Final = 3600
#: Seconds of the case between two forecasts; the first after a day, the last after eight.
EVERY: Final = 4 * _HOUR
_FIRST: Final = 24 * _HOUR
_LAST: Final = 192 * _HOUR
#: Seconds that are added to both ends of an interval when widths are compared.
_SLACK: Final = 60
#: Names and GPUs of size classes.
_SIZES: Final = (("1 GPU", 1, 1), ("2-7 GPUs", 2, 7), ("8 GPUs", 8, 8), ("more", 9, 1 << 30))


@dataclass(slots=True)
class Forecast:
    """One workload at one moment."""

    week: str
    gpus: int
    is_gang: bool
    interval: Interval
    made: int
    #: Seconds until it started. None: it did not until the end.
    truth: int | None = None

    @property
    def is_below(self) -> bool:
        """It started earlier than it was told."""
        return self.truth is not None and self.truth < self.interval.low

    @property
    def is_above(self) -> bool:
        """It started later."""
        high = self.interval.high
        return high is not None and (self.truth is None or self.truth > high)

    @property
    def holds(self) -> bool:
        """It started as it was told."""
        return not (self.is_below or self.is_above)


@dataclass(frozen=True, slots=True)
class Played:
    """All forecasts of one week."""

    forecasts: Sequence[Forecast]
    moments: int
    #: Seconds of processor time of all forecasts.
    seconds: float


def play(folder: Path) -> Played:
    """One week."""
    case = gang_trace.load(folder)
    simulation = Simulation(case, rules.under(rules.DEFAULT, case.queues))
    limits = replace(LIMITS, grace=0)
    learned: Learned | None = None
    found: list[Forecast] = []
    open_: dict[WorkloadKey, list[Forecast]] = {}
    due, moments, seconds = gang_trace.START + _FIRST, 0, 0.0
    for snapshot, plan in simulation.turns():
        now = snapshot.now
        if now > gang_trace.START + _LAST and not open_:
            break
        learned = learned or Learned(snapshot)
        learned.observe(snapshot)
        if due <= now <= gang_trace.START + _LAST and len(plan.reasons) > 0 and not plan.evicts:
            due, moments, began = now + EVERY, moments + 1, process_time()
            ensemble = learned.ensemble(snapshot, plan, limits)
            for _ in ensemble.steps():
                pass
            intervals = learned.intervals(ensemble)
            seconds += process_time() - began
            for key, interval in intervals.items():
                each = Forecast(
                    case.name, _gpus(snapshot.pending[key]), snapshot.pending[key].minimum > 1, interval, now
                )
                found.append(each)
                open_.setdefault(key, []).append(each)
        for admit in plan.admits:
            for each in open_.pop(admit.workload, ()):
                each.truth = now - each.made
    return Played(found, moments, seconds)


def _gpus(workload: Workload) -> int:
    return workload.asks()[GPU] // 1000


def rows(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """A table in Markdown: how often intervals held, and how wide they were."""
    yield "| | forecasts | held | earlier | later | no end | median width |"
    yield "|---|---|---|---|---|---|---|"
    yield _row("all", forecasts)
    for name, least, most in _SIZES:
        yield _row(name, [each for each in forecasts if least <= each.gpus <= most])
    yield _row("gangs", [each for each in forecasts if each.is_gang])
    for week in dict.fromkeys(each.week for each in forecasts):
        yield _row(week, [each for each in forecasts if each.week == week])


def _row(name: str, of: Sequence[Forecast]) -> str:
    if not of:
        return f"| {name} | 0 | | | | | |"
    ends = [each for each in of if each.interval.high is not None]
    width = f"{median(map(_width, ends)):.1f} ×" if ends else ""
    return (
        f"| {name} | {len(of)} | {_share(of, lambda each: each.holds)} |"
        f" {_share(of, lambda each: each.is_below)} | {_share(of, lambda each: each.is_above)} |"
        f" {_share(of, lambda each: each.interval.high is None)} | {width} |"
    )


def _share(of: Sequence[Forecast], true: Callable[[Forecast], bool]) -> str:
    return f"{100 * fmean(map(true, of)):.0f} %"


def _width(each: Forecast) -> float:
    """How many times longer the high end takes than the low one."""
    assert each.interval.high is not None
    return exp(log((each.interval.high + _SLACK) / (each.interval.low + _SLACK)))


def coverage(names: Iterable[str] = WEEKS, traces: Path = TRACES, processes: int = 2) -> list[Mark]:
    """Play these weeks, print the tables, and say how often the intervals held."""
    folders = [each.recorded for each in every_week(traces, seeds=0) if each.name in set(names)]
    if not folders:
        print(
            f"expected-start: no recorded weeks in {traces}; TRACES of `make traces` are not part of Muster"
        )
        return []
    with ProcessPoolExecutor(min(processes, len(folders))) as pool:
        played = list(pool.map(play, folders))
    forecasts = [each for week in played for each in week.forecasts]
    print("\n".join(rows(forecasts)))
    moments = sum(week.moments for week in played)
    print(f"{sum(week.seconds for week in played) / max(1, moments):.1f} s of processor time a forecast")
    held = 100 * fmean(each.holds for each in forecasts)
    return [
        Mark(name="80 % intervals that held, least", unit="%", reached=held, must=75, aim=78, upwards=True),
        Mark(name="80 % intervals that held, most", unit="%", reached=held, must=85, aim=82, upwards=False),
    ]


def main() -> int:
    """Exit code 1: too few of the intervals held, or too many."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.traces.expected_start", description=__doc__)
    parser.add_argument("weeks", nargs="*", default=WEEKS, metavar="WEEK")
    parser.add_argument("--traces", type=Path, default=TRACES, metavar="DIR")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1), metavar="N")
    options = parser.parse_args()
    marks = coverage(options.weeks, options.traces, options.processes)
    print("\n".join(mark.line() for mark in marks))
    return 0 if all(mark.holds for mark in marks) else 1


if __name__ == "__main__":
    sys.exit(main())
