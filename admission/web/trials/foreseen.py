"""Starts in a world that is only supposed: simulations like those of forecasts, fewer of them and for a short time."""

from dataclasses import replace
from time import monotonic, thread_time
from typing import Final

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


def simulations(learned: Learned, trial: DecidedTrial) -> Ensemble:
    """Of the world of a trial."""
    return replace(learned.ensemble(trial.snapshot, trial.plan, _LIMITS), draws=_DRAWS)


def simulate(made: Ensemble) -> None:
    """Make the simulations, for a bounded time."""
    ends, used = monotonic() + _LONGEST, thread_time()
    for _ in made.steps():
        if thread_time() - used >= _WORK or monotonic() >= ends:
            break
    made.stop()


def expected_starts(learned: Learned, made: Ensemble) -> dict[WorkloadKey, ExpectedStartBody]:
    """Expected starts by these simulations, as the read API tells them."""
    now, pending = made.snapshot.now, made.snapshot.pending
    return {
        key: body_of(now, interval, pending[key], made.run_times, learned.runs)
        for key, interval in learned.supposed(made).items()
    }
