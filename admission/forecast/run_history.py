"""Runs of the past, as the forecast learns from them: the latest ones, whose seats were all given back."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from admission.engine.snapshot import Snapshot
from admission.forecast.run_times import Likeness, Run, RunTimes
from queues.admissions import Admission, AdmissionState
from queues.versioned_map import rows_of

#: Runs that are kept, the latest ones.
KEPT: Final = 20_000
#: Admissions of what runs that count as well, those that have run longest first.
_RUNNING: Final = 20_000


class RunHistory:
    """Empty until past runs are handed in."""

    def __init__(self, kept: int = KEPT) -> None:
        self._runs: deque[Run] = deque(maxlen=kept)

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, admission: Admission, at: int, image: str = "") -> None:
        """An admission of a workload with that image was closed at that second (since the epoch)."""
        if (run := run_of(admission, at, image)) is not None:
            self._runs.append(run)

    def extend(self, runs: Iterable[Run]) -> None:
        """These were runs as well; the last ones are the latest."""
        self._runs.extend(runs)

    def run_times(self, snapshot: Snapshot) -> RunTimes:
        """Run times from these runs, together with what runs in the snapshot."""
        admissions = [each for each in rows_of(snapshot.admissions) if each.state is AdmissionState.OPEN]
        admissions.sort(key=lambda each: (each.opened_at, each.id))
        running = [
            Run(_likeness(each, snapshot), max(0, snapshot.now - each.opened_at), is_over=False)
            for each in admissions[:_RUNNING]
        ]
        return RunTimes((*self._runs, *running))


def _likeness(admission: Admission, snapshot: Snapshot) -> Likeness:
    return Likeness.of_admission(admission, snapshot.image_of_workload(admission.workload))


def run_of(admission: Admission, at: int, image: str = "") -> Run | None:
    """How long an admission ran that was closed at that second. None if its pods never ran."""
    if not admission.started:
        return None
    end = admission.evicted_at or at
    return Run(
        Likeness.of_admission(admission, image), max(0, end - admission.opened_at), not admission.evicted_at
    )
