"""Several simulations with different run times, and the interval of starts that they give. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt
from statistics import NormalDist
from typing import Final, NamedTuple

from admission.engine.snapshot import Snapshot
from admission.forecast.forward import Forward, SimulationBounds, Starts
from admission.forecast.run_times import SHARES, Likeness, RunTimes, share_of
from queues.admissions import Admission
from queues.plan import Plan
from queues.workload import Workload, WorkloadKey

#: Simulations of one forecast: a power of two.
DRAWS: Final = 16
#: Parts of the draws in which a workload started by the low and the high end of its interval.
LOW, HIGH = 0.1, 0.9
#: Correlation of the run times of workloads of one user, queue and shape: many are runs of one program.
ALIKE: Final = 0.5
_NORMAL: Final = NormalDist()


@dataclass(slots=True, eq=False)
class DrawnRunTimes:
    """The run times of one simulation: a total run time for each workload, out of what is likely for it."""

    run_times: RunTimes
    draw: int
    draws: int = DRAWS
    #: The image of a workload with seats; "": unknown.
    image_of: Callable[[WorkloadKey], str] = lambda key: ""
    _common: dict[Likeness, float] = field(default_factory=dict)

    def __call__(self, about: Workload | Admission, ran: int) -> int:
        """Seconds that it runs in all, if it has run for ``ran`` seconds so far."""
        if isinstance(about, Workload):
            key, declared, likeness = about.key, about.run_time, Likeness.of_workload(about)
        else:
            key, declared = about.workload, None
            likeness = Likeness.of_admission(about, self.image_of(key))
        share = self._share(key, likeness) if declared is None else 0
        return self.run_times.total(likeness, share, declared, ran)

    def _share(self, key: WorkloadKey, likeness: Likeness) -> int:
        """Half of what makes a run long or short is common to all workloads that are alike."""
        common = self._common.get(likeness)
        if common is None:
            common = self._common[likeness] = self._deviation(likeness.identity())
        together = sqrt(ALIKE) * common + sqrt(1 - ALIKE) * self._deviation(str(key))
        return min(SHARES - 1, int(_NORMAL.cdf(together) * SHARES))

    def _deviation(self, identity: str) -> float:
        return _NORMAL.inv_cdf((share_of(identity, self.draw, self.draws) + 0.5) / SHARES)


class RawInterval(NamedTuple):
    """When a workload starts in the draws: seconds after the snapshot. None if later than what was simulated."""

    low: int | None
    high: int | None
    #: Seconds up to which all of the draws went on at least.
    known: int
    #: True if in more than half of the draws nothing more happened and it did not start.
    never: bool = False


@dataclass(slots=True, eq=False)
class Ensemble:
    """Draws of one snapshot."""

    snapshot: Snapshot
    plan: Plan
    run_times: RunTimes
    limits: SimulationBounds
    draws: int = DRAWS
    #: What the draws that were made came to.
    made: list[Starts] = field(default_factory=list)
    _current: Forward | None = None

    def steps(self) -> Iterator[None]:
        """Make the draws, a decision a step; ``stop`` when there is no more time."""
        for draw in range(self.draws):
            drawn = DrawnRunTimes(self.run_times, draw, self.draws, self.snapshot.image_of_workload)
            forward = Forward(self.snapshot, self.plan, drawn, self.limits)
            self._current = forward
            for _ in forward.steps():
                yield
            self.made.append(forward.starts())
            self._current = None

    def stop(self) -> None:
        """There is no more time. With no whole draw the beginning of the first one counts."""
        if self._current is not None and not self.made:
            self.made.append(self._current.starts())
        self._current = None

    def intervals(self) -> dict[WorkloadKey, RawInterval]:
        """The interval of each pending workload that has no seats. Empty: no draw was made."""
        if not self.made:
            return {}
        now = self.snapshot.now
        every = sorted({key for starts in self.made for key in starts.waiting})
        ends = [starts.until for starts in self.made if starts.until is not None]
        known = max(0, min(ends, default=now) - now)
        return {key: self._interval(key, now, known) for key in every}

    def _interval(self, key: WorkloadKey, now: int, known: int) -> RawInterval:
        started = sorted(starts.at[key] - now for starts in self.made if key in starts.at)
        stuck = sum(starts.until is None and key not in starts.at for starts in self.made)
        never = 2 * stuck > len(self.made)
        low, high = (quantile(started, len(self.made), part) for part in (LOW, HIGH))
        return RawInterval(low, high, known, never)


def quantile(ascending: Sequence[int], count: int, part: float) -> int | None:
    """The smallest of these values that this part of ``count`` values does not exceed; missing values are larger.

    None if it is a missing value.
    """
    rank = max(1, ceil(part * count))
    return ascending[rank - 1] if rank <= len(ascending) else None
