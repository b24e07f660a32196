"""Who starts earlier or later in a changed cluster, as simulations of both foresee it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

from admission.engine.snapshot import Snapshot
from admission.forecast.ensemble import Ensemble
from queues.workload import Workload, WorkloadKey

#: Seconds: later than everything that is foreseen.
_FOREVER: Final = 1 << 40
#: Seconds: less is no difference.
_SAME: Final = 60


@dataclass(frozen=True, slots=True)
class StartShift:
    """One workload that should start at another time."""

    workload: Workload
    #: Seconds from now in the middle of all simulations, without and with the changes; None: not within them.
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartShifts:
    """What changes mean for the starts of the workloads that wait."""

    #: By how much, the largest shift first.
    earlier: tuple[StartShift, ...]
    later: tuple[StartShift, ...]
    #: Seconds by which those that start in both worlds start later, in the middle; negative: earlier. None: there are
    #: none.
    median: int | None
    #: Seconds that were foreseen. None: all that happens; who has not started by then never starts.
    known: int | None


def start_shifts(snapshot: Snapshot, before: Ensemble, after: Ensemble) -> StartShifts:
    """What the simulations of two worlds come to. ``snapshot``: of the world without the changes."""
    middles, known = _middles(before), _middles(after)
    ends = [each for each in (_known(before), _known(after)) if each is not None]
    seconds = min(ends, default=_FOREVER)
    earlier, later, both = [], [], []
    for key in sorted(middles.keys() & known.keys(), key=lambda each: (snapshot.pending[each].arrival, each)):
        shift = StartShift(snapshot.pending[key], middles[key], known[key])
        if shift.before is not None and shift.after is not None:
            both.append(shift.after - shift.before)
        # What starts later than both simulations went on is not known to be different.
        first, second = (
            seconds if each is None else min(each, seconds) for each in (shift.before, shift.after)
        )
        if second < first - _SAME:
            earlier.append(shift)
        elif second > first + _SAME:
            later.append(shift)
    return StartShifts(
        earlier=tuple(sorted(earlier, key=lambda each: _by(each, seconds))),
        later=tuple(sorted(later, key=lambda each: -_by(each, seconds))),
        median=int(median(both)) if both else None,
        known=None if seconds == _FOREVER else seconds,
    )


def _known(made: Ensemble) -> int | None:
    """Seconds up to which all simulations went on; None: in all of them everything has happened that happens."""
    ends = [each.until for each in made.made if each.until is not None and not each.waiting <= each.at.keys()]
    return max(0, min(ends) - made.snapshot.now) if ends else None


def _middles(made: Ensemble) -> Mapping[WorkloadKey, int | None]:
    """The middle of the starts of each workload that waits; 0: it starts at once."""
    found: dict[WorkloadKey, int | None] = {key: each.middle for key, each in made.intervals().items()}
    for admit in made.plan.admits if made.plan is not None else ():
        found[admit.workload] = 0
    return {key: middle for key, middle in found.items() if key in made.snapshot.pending}


def _by(each: StartShift, seconds: int) -> int:
    return (seconds if each.after is None else each.after) - (seconds if each.before is None else each.before)
