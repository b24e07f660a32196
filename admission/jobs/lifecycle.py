"""A Volcano Job's life: which phase follows from what is seen, and what an action makes of a phase.

Volcano's rules (its ``pkg/controllers/job/state``), as one table that is data: ``RULES`` for what is seen,
``ACTIONS`` for what is asked. Pure: the state is stored by the plan applier, and only read here.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Self

from admission.facts import PodFact, PodPhase
from admission.jobs.job import JobSpec
from queues.workload import Admission, WorkloadKey

#: How many phases a Job's status tells of.
HISTORY: Final = 16
#: How a pod counts that is being deleted, beside the pod phases.
TERMINATING: Final = "Terminating"


class Phase(StrEnum):
    """Where a Volcano Job is, in Volcano's words."""

    PENDING = "Pending"
    RUNNING = "Running"
    #: Pods are being removed, so that all (or some) start again.
    RESTARTING = "Restarting"
    #: Pods are being removed; a resume brings the Job back.
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    #: Pods are being removed; the Job counts as a success then.
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    #: Pods are being removed, for good.
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


#: No way back from here; leftover pods are removed.
FINAL: Final = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED})
#: The Job runs nothing in these, or soon nothing.
STOPPED: Final = FINAL | {Phase.ABORTING, Phase.ABORTED, Phase.COMPLETING, Phase.TERMINATING}


class Action(StrEnum):
    """What a lifecycle policy or a Command asks of a whole Job."""

    ABORT = "AbortJob"
    RESTART = "RestartJob"
    TERMINATE = "TerminateJob"
    COMPLETE = "CompleteJob"
    RESUME = "ResumeJob"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What is remembered of a Job between turns."""

    uid: str
    phase: Phase = Phase.PENDING
    #: Grows whenever all pods are removed; pods of an older version are stale.
    version: int = 0
    retry_count: int = 0
    reason: str = ""
    message: str = ""
    #: Seconds since the epoch.
    last_transition: int = 0
    #: When it was Running first; 0 = never.
    started_at: int = 0
    #: When it reached a final phase; 0 = not yet.
    finished_at: int = 0
    #: Phases entered and when, oldest first, the last few.
    history: tuple[tuple[Phase, int], ...] = ()

    def is_over(self) -> bool:
        """Whether the Job ended for good."""
        return self.phase in FINAL

    def wants_pods(self) -> bool:
        """Whether missing pods are to be made."""
        return self.phase not in STOPPED and self.phase is not Phase.RESTARTING

    def entered(self, phase: Phase, now: int, reason: str = "", message: str = "") -> Self:
        """The state after a change of phase."""
        return replace(
            self,
            phase=phase,
            reason=reason,
            message=message,
            last_transition=now,
            started_at=self.started_at or (now if phase is Phase.RUNNING else 0),
            finished_at=now if phase in FINAL else 0,
            history=(*self.history, (phase, now))[-HISTORY:],
        )

    def to_json(self) -> dict[str, Any]:
        """For the ledger."""
        return {
            "uid": self.uid,
            "phase": self.phase.value,
            "version": self.version,
            "retryCount": self.retry_count,
            "reason": self.reason,
            "message": self.message,
            "lastTransition": self.last_transition,
            "startedAt": self.started_at,
            "finishedAt": self.finished_at,
            "history": [[phase.value, at] for phase, at in self.history],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """From the ledger."""
        return cls(
            uid=row["uid"],
            phase=Phase(row["phase"]),
            version=row["version"],
            retry_count=row["retryCount"],
            reason=row["reason"],
            message=row["message"],
            last_transition=row["lastTransition"],
            started_at=row["startedAt"],
            finished_at=row["finishedAt"],
            history=tuple((Phase(phase), at) for phase, at in row["history"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTransition:
    """One Job's state changes; stored by the plan applier."""

    key: WorkloadKey
    #: None: the Job is new.
    old: JobState | None
    new: JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Pods of a Job by what they do. A seat whose pod ended and is gone still counts as ended."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    #: Task → pod phase → pods.
    tasks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def ended(self) -> int:
        """Succeeded or failed."""
        return self.succeeded + self.failed

    @property
    def left(self) -> int:
        """Pods that still exist and may run."""
        return self.pending + self.running + self.terminating + self.unknown

    def succeeded_of(self, task: str) -> int:
        """Pods of one task that succeeded."""
        return self.tasks.get(task, {}).get(PodPhase.SUCCEEDED.value, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """What is seen of a Job now."""

    spec: JobSpec
    #: All pods that belong to it.
    pods: tuple[PodFact, ...] = ()
    #: Its admissions that are not closed.
    admissions: tuple[Admission, ...] = ()
    #: How seats (task, index) ended for good in the Job's present version; the pod may be gone.
    outcomes: Mapping[tuple[str, int], PodPhase] = field(default_factory=dict)
    #: The object is being deleted.
    deleting: bool = False

    def counts(self, state: JobState) -> Counts:
        """Pods by what they do. Pods of an older version only count as on their way out."""
        tasks: dict[str, Counter[str]] = {task.name: Counter() for task in self.spec.tasks}
        for (task, _), kind in self._kinds(state).items():
            tasks.setdefault(task, Counter())[kind] += 1
        totals = sum(tasks.values(), Counter[str]())
        return Counts(
            pending=totals["Pending"],
            running=totals["Running"],
            succeeded=totals["Succeeded"],
            failed=totals["Failed"],
            terminating=totals[TERMINATING],
            tasks={
                name: {phase: number for phase, number in sorted(phases.items()) if phase != TERMINATING}
                for name, phases in tasks.items()
            },
        )

    def _kinds(self, state: JobState) -> dict[tuple[str, int], str]:
        """What each place (task, index) does: what ended has ended, then the youngest pod counts."""
        kinds: dict[tuple[str, int], str] = {}
        for pod in self.pods:
            if pod.index is None:
                continue
            place = (pod.task, pod.index)
            kind = _kind(pod, state)
            if kind != TERMINATING or place not in kinds:
                kinds[place] = kind
        return {**kinds, **{place: outcome.value for place, outcome in self.outcomes.items()}}


def _kind(pod: PodFact, state: JobState) -> str:
    ended = pod.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    if pod.version != state.version and not (ended and state.phase in STOPPED):
        return TERMINATING
    return TERMINATING if pod.deleting else pod.phase.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The phase to enter, and why."""

    phase: Phase
    reason: str = ""
    message: str = ""


Rule = Callable[[JobState, JobView, Counts], Step | None]


def enough_started(_state: JobState, view: JobView, counts: Counts) -> Step | None:
    """Pending → Running: as many pods run or have ended as must start together."""
    if counts.running + counts.ended < view.spec.minimum:
        return None
    return Step(phase=Phase.RUNNING)


def enough_succeeded(_state: JobState, view: JobView, counts: Counts) -> Step | None:
    """Running → Completed: minSuccess is reached, whatever the others do."""
    wanted = view.spec.min_success
    if wanted is None or counts.succeeded < wanted:
        return None
    return Step(
        phase=Phase.COMPLETED,
        reason="MinSuccess",
        message=f"{counts.succeeded} pods succeeded, {wanted} were needed",
    )


def all_ended(_state: JobState, view: JobView, counts: Counts) -> Step | None:
    """Running → Completed or Failed: every pod has ended."""
    spec = view.spec
    if not spec.replicas or counts.ended < spec.replicas:
        return None
    if spec.minimum >= sum(task.minimum for task in spec.tasks):
        for task in spec.tasks:
            done = counts.succeeded_of(task.name)
            if done < task.minimum:
                return Step(
                    phase=Phase.FAILED,
                    reason="TaskFailed",
                    message=f"{done} of the {task.minimum} pods that task {task.name} needs succeeded",
                )
    needed = max(spec.minimum, spec.min_success or 0)
    enough = counts.succeeded >= needed
    return Step(
        phase=Phase.COMPLETED if enough else Phase.FAILED,
        reason="AllEnded",
        message=f"{counts.succeeded} of {spec.replicas} pods succeeded, {needed} were needed",
    )


def too_few_left(_state: JobState, view: JobView, counts: Counts) -> Step | None:
    """Running → Pending: so many wait that the rest is no gang any more."""
    spec = view.spec
    missing = spec.replicas - counts.running - counts.ended
    if missing <= spec.replicas - spec.minimum or missing <= 0:
        return None
    return Step(
        phase=Phase.PENDING,
        reason="PodsMissing",
        message=f"{counts.running + counts.ended} of {spec.minimum} needed pods run",
    )


def retries_used_up(state: JobState, view: JobView, _counts: Counts) -> Step | None:
    """Restarting → Failed: it was restarted often enough."""
    if state.retry_count < view.spec.max_retry:
        return None
    return Step(phase=Phase.FAILED, reason="MaxRetry", message=f"restarted {state.retry_count} times")


def enough_cleared(_state: JobState, view: JobView, counts: Counts) -> Step | None:
    """Restarting → Pending: few enough old pods are still there."""
    if view.spec.replicas - counts.terminating < view.spec.minimum:
        return None
    return Step(phase=Phase.PENDING)


def none_left(into: Phase) -> Rule:
    """…ing → …ed: the last pod is gone."""

    def rule(_state: JobState, _view: JobView, counts: Counts) -> Step | None:
        return None if counts.left else Step(phase=into)

    return rule


#: What is seen: the first rule of a phase that says something decides.
RULES: Final[Mapping[Phase, tuple[Rule, ...]]] = {
    Phase.PENDING: (enough_started,),
    Phase.RUNNING: (enough_succeeded, all_ended, too_few_left),
    Phase.RESTARTING: (retries_used_up, enough_cleared),
    Phase.ABORTING: (none_left(Phase.ABORTED),),
    Phase.COMPLETING: (none_left(Phase.COMPLETED),),
    Phase.TERMINATING: (none_left(Phase.TERMINATED),),
    Phase.ABORTED: (),
    Phase.COMPLETED: (),
    Phase.FAILED: (),
    Phase.TERMINATED: (),
}

#: What is asked: phases in which an action means something, and the phase it leads to.
ACTIONS: Final[Mapping[tuple[Phase, Action], Phase]] = {
    **{
        (phase, action): into
        for phase in (Phase.PENDING, Phase.RUNNING)
        for action, into in (
            (Action.RESTART, Phase.RESTARTING),
            (Action.ABORT, Phase.ABORTING),
            (Action.COMPLETE, Phase.COMPLETING),
            (Action.TERMINATE, Phase.TERMINATING),
        )
    },
    (Phase.ABORTING, Action.RESUME): Phase.RESTARTING,
    (Phase.ABORTED, Action.RESUME): Phase.RESTARTING,
}


def advance(state: JobState, view: JobView, now: int) -> JobState:
    """The state that follows from what is seen; the same state if nothing does.

    Goes on until no rule says anything more (a Job whose pods all ended unseen passes through Running).
    """
    if view.deleting:
        return state
    if not state.history:
        state = state.entered(state.phase, now)
    for _ in range(len(Phase)):
        counts = view.counts(state)
        step = next((step for rule in RULES[state.phase] if (step := rule(state, view, counts))), None)
        if step is None:
            break
        state = state.entered(step.phase, now, step.reason, step.message)
    return state


def act(state: JobState, action: Action, now: int, *, reason: str = "", message: str = "") -> JobState:
    """The state after a policy or Command asked for an action; the same state if it means nothing there."""
    into = ACTIONS.get((state.phase, action))
    if into is None:
        return state
    restarts = into is Phase.RESTARTING
    # Whoever is aborted has lost its pods already: only the count goes on.
    version = state.version + (state.phase in (Phase.PENDING, Phase.RUNNING))
    return replace(
        state.entered(into, now, reason or action.value, message),
        version=version,
        retry_count=state.retry_count + restarts,
    )


def expired(state: JobState, spec: JobSpec, now: int) -> bool:
    """Whether the Job's object is to be deleted: it ended ``ttlSecondsAfterFinished`` ago."""
    return state.is_over() and spec.ttl is not None and now >= state.finished_at + spec.ttl
