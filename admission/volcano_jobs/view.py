"""What is observed of a Volcano Job now, and its pods counted by phase."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from admission.facts.pods import PodFact, PodPhase
from admission.facts.volcano_jobs import JobSpec
from admission.volcano_jobs.state import STOPPED, JobState
from queues.admissions import Admission
from queues.command import Command
from queues.workload import AdmissionId

_ENDED: Final = frozenset({PodPhase.SUCCEEDED.value, PodPhase.FAILED.value})
#: The Job's status has the version as an int32, which a restart counts up.
_BEYOND_INT32: Final = 2**31 - 1

#: Counted like a phase: pods that are being deleted.
TERMINATING: Final = "Terminating"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Pods of a Job by phase. A pod that ended and is gone still counts as ended."""

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
        """Pods that succeeded or failed."""
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
    """What is observed of a Job now."""

    spec: JobSpec
    #: That of its class; without one, that of the cluster's default class.
    priority: int = 0
    #: All pods that belong to the Job.
    pods: tuple[PodFact, ...] = ()
    #: Admissions of the Job that are not closed.
    admissions: tuple[Admission, ...] = ()
    #: Seats (indices) by admission that the next plan gives back.
    ended: Mapping[AdmissionId, frozenset[int]] = field(default_factory=dict)
    #: How seats (task, index) of the Job's present version ended; their pods may be gone.
    outcomes: Mapping[tuple[str, int], PodPhase] = field(default_factory=dict)
    #: The object is being deleted.
    deleting: bool = False
    #: A policy asks for something later, if what it waits for lasts.
    policy_waits: bool = False
    #: Commands for the Job, oldest first; those that were carried out among them, until their objects are gone.
    commands: tuple[Command, ...] = ()
    #: What a Job shows that has run for as long as its queue allows; "" if it has not.
    run_out: str = ""
    #: Admissions that are evicted, and whose pods no disruption budget keeps any more.
    beyond_budgets: frozenset[AdmissionId] = frozenset()
    #: Seats that are too small for pods of the Job as it is now, by admission: indices.
    outgrown: Mapping[AdmissionId, frozenset[int]] = field(default_factory=dict)

    def counts(self, state: JobState) -> Counts:
        """Pods by phase. Pods of an older version count as terminating."""
        tasks: dict[str, Counter[str]] = {task.name: Counter() for task in self.spec.tasks}
        replicas, totals = {task.name: task.replicas for task in self.spec.tasks}, Counter[str]()
        for (task, index), phase in self._phases(state).items():
            # What has ended of a Job that was scaled down since does not stand for pods that are still wanted.
            if phase not in _ENDED or index < replicas.get(task, 0):
                tasks.setdefault(task, Counter())[phase] += 1
                totals[phase] += 1
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

    def _phases(self, state: JobState) -> dict[tuple[str, int], str]:
        """Phase of each seat (task, index): its outcome, else of a pod that stays, else of one that goes."""
        phases: dict[tuple[str, int], str] = {}
        for pod in self.pods:
            if pod.index is None:
                continue
            seat = (pod.task, pod.index)
            phase = _phase(pod, state)
            if phase != TERMINATING or seat not in phases:
                phases[seat] = phase
        return {**phases, **{seat: outcome.value for seat, outcome in self.outcomes.items()}}


def at_version_of_pods(state: JobState, view: JobView) -> JobState:
    """The state at the version of its pods, if all that stay have a higher one: the same object else.

    So it is with pods that Volcano made, of a Job that it had restarted, and after the restore of an older ledger.
    Pods of the present version are proof that it is the right one, whatever another pod's annotation says.
    """
    versions = {pod.version for pod in view.pods if not pod.deleting}
    if not versions or min(versions) <= state.version or max(versions) >= _BEYOND_INT32:
        return state
    return replace(state, version=max(versions))


def is_stale(pod: PodFact, state: JobState) -> bool:
    """Whether a pod was restarted, by itself or with the whole Job: another one takes its place."""
    return pod.version != state.version or pod.uid in state.restarted


def _phase(pod: PodFact, state: JobState) -> str:
    ended = pod.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    if is_stale(pod, state) and not (ended and state.phase in STOPPED):
        return TERMINATING
    return TERMINATING if pod.deleting else pod.phase.value
