"""What is learned from one look at the world to the next: run times, and how far forecasts missed. Pure."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from admission.engine.snapshot import Snapshot
from admission.forecast.calibration import Calibration, Interval
from admission.forecast.ensemble import Ensemble, RawInterval
from admission.forecast.forward import SimulationBounds
from admission.forecast.run_times import Likeness, Run, RunTimes
from queues.admissions import Admission, AdmissionState
from queues.plan import Plan
from queues.versioned_map import differing, rows_of
from queues.workload import AdmissionId, WorkloadKey

#: Ended runs that are kept, the latest ones.
KEPT: Final = 20_000
#: Admissions of what runs that count as well, those that have run longest first.
_RUNNING: Final = 20_000


class Learned:
    """Begins with the first look; what ended before can be added."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._runs: deque[Run] = deque(maxlen=KEPT)
        self._calibration = Calibration()
        self._seen = snapshot
        #: When admissions had ended that are not closed yet.
        self._ended: dict[AdmissionId, int] = {}
        #: Images of admissions that are not closed yet: with its object a workload may go before they are.
        self._images: dict[AdmissionId, str] = {}
        for admission in rows_of(snapshot.admissions):
            self._note_image(admission, snapshot)

    @property
    def runs(self) -> int:
        """Number of runs that are known."""
        return len(self._runs)

    def add_runs(self, runs: Iterable[Run]) -> None:
        """These were before the first look, the latest last."""
        self._runs.extend(runs)

    def observe(self, snapshot: Snapshot) -> None:
        """The world is like this now: learn from what ended and started since the last look."""
        before, self._seen = self._seen, snapshot
        now = snapshot.now
        for id_, seats in snapshot.ended.items():
            if len(seats | snapshot.admissions[id_].ended) == len(snapshot.admissions[id_].seats):
                self._ended.setdefault(id_, now)
        for id_ in sorted(differing(before.admissions, snapshot.admissions)):
            was, after = before.admissions.get(id_), snapshot.admissions.get(id_)
            if was is not None and after is None:
                # Who waits again was evicted, even if it was not seen.
                evicted = was.evicted_at or (now if was.workload in snapshot.pending else 0)
                image, ended = self._images.pop(id_, ""), self._ended.pop(id_, now)
                if was.started:  # else its pods never ran
                    ran = max(0, (evicted or ended) - was.opened_at)
                    self._runs.append(Run(Likeness.of_admission(was, image), ran, is_over=not evicted))
            elif was is None and after is not None:
                self._note_image(after, snapshot)
                self._calibration.started(after.workload, after.opened_at)
        for key in sorted(self._calibration.is_open()):
            if key not in snapshot.pending and key not in snapshot.holders:
                self._calibration.gone(key, now)

    def _note_image(self, admission: Admission, snapshot: Snapshot) -> None:
        if image := snapshot.image_of_workload(admission.workload):
            self._images[admission.id] = image

    def ensemble(self, snapshot: Snapshot, plan: Plan, limits: SimulationBounds) -> Ensemble:
        """Simulations of what comes after a decision."""
        return Ensemble(snapshot, plan, self._run_times(snapshot), limits)

    def _run_times(self, snapshot: Snapshot) -> RunTimes:
        """Run times from the runs that have ended, together with what runs in the snapshot."""
        admissions = [each for each in rows_of(snapshot.admissions) if each.state is AdmissionState.OPEN]
        admissions.sort(key=lambda each: (each.opened_at, each.id))
        running = []
        for admission in admissions[:_RUNNING]:
            likeness = Likeness.of_admission(admission, snapshot.image_of_workload(admission.workload))
            running.append(Run(likeness, max(0, snapshot.now - admission.opened_at), is_over=False))
        return RunTimes((*self._runs, *running))

    def intervals(self, made: Ensemble) -> dict[WorkloadKey, Interval]:
        """Expected starts of the workloads that wait on after the decision, from these simulations.

        They are put right by what earlier ones were worth, and are learned from in turn.
        """
        raw = _waiting_on(made)
        found = self._calibration.intervals(made.snapshot.now, raw)
        self._calibration.note(made.snapshot.now, raw)
        return found

    def supposed(self, made: Ensemble) -> dict[WorkloadKey, Interval]:
        """The same in a world that is only supposed: nothing is learned from it."""
        return self._calibration.intervals(made.snapshot.now, _waiting_on(made))


def _waiting_on(made: Ensemble) -> dict[WorkloadKey, RawInterval]:
    admitted = {admit.workload for admit in made.plan.admits}
    return {key: each for key, each in made.intervals().items() if key not in admitted}
