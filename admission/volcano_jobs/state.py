"""The state of a Volcano Job that the ledger keeps between turns: its phase, and how it came to that phase."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from queues.api.types.volcano_job import JobAction, JobPhase
from queues.reason_codes import ReasonCode
from queues.workload import Result, WorkloadKey

#: Phases that a Job's status lists at most.
HISTORY: Final = 16
#: Commands that a Job's state remembers at most, besides those whose objects are still there.
MOST_COMMANDS: Final = 16


Phase = JobPhase

#: Phases without a way back; pods that are left are removed.
FINAL: Final = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED})
#: Phases in which no pod of the Job runs, or soon none will.
STOPPED: Final = FINAL | {Phase.ABORTING, Phase.ABORTED, Phase.COMPLETING, Phase.TERMINATING}


Action = JobAction

#: Actions on some pods of a Job: the others run on.
TARGETED: Final = frozenset({Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION})


#: Why a Job entered its phase: what was seen, or what was asked.
Cause = ReasonCode | Action


_ACTIONS: Final = frozenset(Action)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """The state of one Job."""

    uid: str
    phase: Phase = Phase.PENDING
    #: Counts how often all pods were removed; pods of an older version are stale.
    version: int = 0
    retry_count: int = 0
    #: Uids of pods of this version that were restarted by themselves: others take their places.
    restarted: frozenset[str] = frozenset()
    #: Uids of Commands that were carried out, oldest first, the last few: each is carried out once.
    commands: tuple[str, ...] = ()
    #: Since when (seconds) what policies with a timeout wait for has been seen, by what it is.
    seen_since: Mapping[str, int] = field(default_factory=dict)
    #: Number of pods that a policy on JobUpdated has taken note of; None if there is no such policy.
    replicas: int | None = None
    #: Why the Job entered this phase; None if the phase needs no explanation.
    reason: Cause | None = None
    message: str = ""
    #: Seconds since the epoch.
    last_transition: int = 0
    #: When the Job was Running first; 0: never.
    started_at: int = 0
    #: When the Job reached a final phase; 0: not yet.
    finished_at: int = 0
    #: Phases entered and when, oldest first, the last few.
    history: tuple[tuple[Phase, int], ...] = ()

    def is_over(self) -> bool:
        """Whether the Job ended for good."""
        return self.phase in FINAL

    def is_stopped(self) -> bool:
        """Whether no pod of the Job runs, or soon none will: its seats are given back as its pods go."""
        return self.phase in STOPPED

    def result(self) -> Result | None:
        """How the Job ended, or will when its pods are gone.

        UNKNOWN if it may be resumed; None if it is not stopped.
        """
        match self.phase:
            case Phase.COMPLETING | Phase.COMPLETED:
                return Result.SUCCEEDED
            case Phase.FAILED | Phase.TERMINATING | Phase.TERMINATED:
                return Result.FAILED
        return Result.UNKNOWN if self.is_stopped() else None

    def wants_pods(self) -> bool:
        """Whether missing pods are to be created."""
        return not (self.is_stopped() or self.phase is Phase.RESTARTING)

    def entered(self, phase: Phase, now: int, reason: Cause | None = None, message: str = "") -> Self:
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
        """The state as the ledger stores it."""
        return {
            "uid": self.uid,
            "phase": self.phase.value,
            "version": self.version,
            "retryCount": self.retry_count,
            "restarted": sorted(self.restarted),
            "commands": list(self.commands),
            "seenSince": dict(sorted(self.seen_since.items())),
            "replicas": self.replicas,
            "reason": self.reason or "",
            "message": self.message,
            "lastTransition": self.last_transition,
            "startedAt": self.started_at,
            "finishedAt": self.finished_at,
            "history": [[phase.value, at] for phase, at in self.history],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """The state of a row of the ledger."""
        return cls(
            uid=row["uid"],
            phase=Phase(row["phase"]),
            version=row["version"],
            retry_count=row["retryCount"],
            restarted=frozenset(row.get("restarted", ())),
            commands=tuple(row.get("commands", ())),
            seen_since=row.get("seenSince", {}),
            replicas=row.get("replicas"),
            reason=_cause(row["reason"]),
            message=row["message"],
            last_transition=row["lastTransition"],
            started_at=row["startedAt"],
            finished_at=row["finishedAt"],
            history=tuple((Phase(phase), at) for phase, at in row["history"]),
        )


def _cause(text: str) -> Cause | None:
    if not text:
        return None
    return Action(text) if text in _ACTIONS else ReasonCode.of_row(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTransition:
    """A change of one Job's state, which the plan applier stores."""

    key: WorkloadKey
    #: None if the Job is new.
    old: JobState | None
    new: JobState
    #: States that actions led to, with their reasons. What is observed then may have led on to ``new``.
    acted: tuple[JobState, ...] = field(default=(), compare=False)

    @property
    def restarts(self) -> bool:
        """Whether the Job starts again, with pods for the seats of those that have ended too."""
        if self.old is None:
            return self.new.retry_count > 0 and not self.new.is_stopped()
        counts = self.new.retry_count > self.old.retry_count or self.new.version > self.old.version
        return (counts or self.old.is_stopped()) and not self.new.is_stopped()
