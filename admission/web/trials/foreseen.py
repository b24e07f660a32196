"""Starts in a world that is only supposed: simulations like those of forecasts, fewer of them and for a short time."""

from dataclasses import dataclass, replace
from math import inf
from time import monotonic, thread_time
from typing import Final

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.plan_limit import NO_LIMIT
from admission.engine.snapshot import Snapshot
from admission.forecast.ensemble import Ensemble
from admission.forecast.forward import SimulationBounds
from admission.forecast.learned import Learned
from admission.forecast.run_times import Likeness
from admission.trials.trial import DecidedTrial
from admission.web.lists.expected import ExpectedStartBody
from queues.plan import Plan
from queues.text_format import rfc3339
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
        return cls._of(learned, trial.snapshot, trial.plan)

    @classmethod
    def begin_at(cls, learned: Learned, snapshot: Snapshot) -> "Foreseen":
        """Of a world on which nothing is decided yet."""
        return cls._of(learned, snapshot, Plan(now=snapshot.now, ledger_seq=snapshot.ledger_seq))

    @classmethod
    def _of(cls, learned: Learned, snapshot: Snapshot, plan: Plan) -> "Foreseen":
        return cls(snapshot, replace(learned.ensemble(snapshot, plan, _LIMITS), draws=_DRAWS))

    def work(self, longest: float = inf) -> None:
        """Simulate, for a bounded time. ``longest``: seconds of all after which no simulation goes on."""
        began = monotonic()
        if not (self.made.plan and (self.made.plan.reasons or self.made.plan.admits)):
            plan, memo = decide(self.snapshot, Memo(), NO_LIMIT)
            if memo.state is not None:
                memo.state.retire()  # nothing collects what refers to itself in a circle
            self.made = replace(self.made, plan=plan)
        ends, used = min(began + longest, monotonic() + _LONGEST), thread_time()
        for _ in self.made.steps():
            if thread_time() - used >= _WORK or monotonic() >= ends:
                break
        self.made.stop()

    def expected(self, learned: Learned) -> dict[WorkloadKey, ExpectedStartBody]:
        """Expected starts, as the read API tells them."""
        now = self.snapshot.now
        found = {}
        for key, interval in learned.supposed(self.made).items():
            workload = self.snapshot.pending[key]
            likeness, run_times = Likeness.of_workload(workload), self.made.run_times
            found[key] = ExpectedStartBody(
                computed=rfc3339(now),
                earliest=rfc3339(now + interval.low),
                latest=None if interval.high is None else rfc3339(now + interval.high),
                never=interval.never,
                basis=str(run_times.expectation(likeness, workload.run_time).basis),
                run_time=run_times.median(likeness, workload.run_time),
                runs=learned.runs,
            )
        return found
