"""Starts in a world that is only supposed: simulations like those of forecasts, fewer of them and for a short time."""

from dataclasses import dataclass, replace
from time import monotonic, thread_time
from typing import Final

from admission.engine.snapshot import Snapshot
from admission.forecast.ensemble import Ensemble
from admission.forecast.forward import SimulationBounds
from admission.forecast.learned import Learned
from admission.trials.trial import DecidedTrial
from admission.web.leader.forecasts import body_of
from queues.read_api.bodies import ExpectedStartBody
from queues.workload import WorkloadKey

#: Simulations, and seconds for all of them: of processor time, and in all while others use the processor.
_DRAWS: Final = 4
_WORK: Final = 1.0
_LONGEST: Final = 1.5
_LIMITS: Final = SimulationBounds(horizon=14 * 86_400, decisions=1000, precision=10, grace=30)


@dataclass(slots=True)
class Foreseen:
    """The simulations of one world. Begun and read on the loop, worked on in a thread."""

    snapshot: Snapshot
    made: Ensemble

    @classmethod
    def begin(cls, learned: Learned, trial: DecidedTrial) -> "Foreseen":
        """Of the world of a trial."""
        made = learned.ensemble(trial.snapshot, trial.plan, _LIMITS)
        return cls(trial.snapshot, replace(made, draws=_DRAWS))

    def work(self) -> None:
        """Simulate, for a bounded time."""
        ends, used = monotonic() + _LONGEST, thread_time()
        for _ in self.made.steps():
            if thread_time() - used >= _WORK or monotonic() >= ends:
                break
        self.made.stop()

    def expected(self, learned: Learned) -> dict[WorkloadKey, ExpectedStartBody]:
        """Expected starts, as the read API tells them."""
        run_times, pending = self.made.run_times, self.snapshot.pending
        return {
            key: body_of(self.snapshot.now, interval, pending[key], run_times, learned.runs)
            for key, interval in learned.supposed(self.made).items()
        }
