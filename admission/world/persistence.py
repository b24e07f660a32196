"""What goes between the world and Postgres: rows that it starts from, and what it saw that is not stored yet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from admission.facts import PodFact, PodPhase, QueueFact
from admission.volcano_jobs.state import JobState
from queues.admissions import Admission, Claim, Displacement, Recreation
from queues.plan import Reason
from queues.workload import QueueName, WorkloadKey

Outcomes = dict[tuple[str, int], PodPhase]


@dataclass(slots=True)
class Unsaved:
    """What was seen and is not in Postgres yet. Intake empties it."""

    arrivals: dict[WorkloadKey, None] = field(default_factory=dict)
    described: dict[WorkloadKey, None] = field(default_factory=dict)
    departed: dict[WorkloadKey, None] = field(default_factory=dict)
    queues: dict[QueueName, QueueFact | None] = field(default_factory=dict)
    outcomes: dict[str, tuple[WorkloadKey, PodFact]] = field(default_factory=dict)

    def saved(
        self,
        arrivals: Iterable[WorkloadKey],
        described: Iterable[WorkloadKey],
        departed: Iterable[WorkloadKey],
        queues: Mapping[QueueName, QueueFact | None],
        outcomes: Iterable[str],
    ) -> None:
        """Intake has stored these. A queue that changed meanwhile stays."""
        for rows, keys in (
            (self.arrivals, arrivals),
            (self.described, described),
            (self.departed, departed),
        ):
            for key in keys:
                rows.pop(key, None)
        for name, fact in queues.items():
            if self.queues.get(name, fact) is fact:
                self.queues.pop(name, None)
        for uid in outcomes:
            self.outcomes.pop(uid, None)

    def __bool__(self) -> bool:
        return bool(self.arrivals or self.described or self.departed or self.queues or self.outcomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRows:
    """What Postgres remembers, as the world starts from it."""

    ledger_seq: int = 0
    admissions: Sequence[Admission] = ()
    arrivals: Mapping[WorkloadKey, int] = field(default_factory=dict)
    outcomes: Mapping[WorkloadKey, Outcomes] = field(default_factory=dict)
    #: Not before (seconds since the epoch), rollbacks so far.
    backoffs: Mapping[WorkloadKey, tuple[int, int]] = field(default_factory=dict)
    #: Evictions for others so far, second of the last.
    setbacks: Mapping[WorkloadKey, tuple[int, int]] = field(default_factory=dict)
    claims: Mapping[WorkloadKey, Claim] = field(default_factory=dict)
    jobs: Mapping[str, JobState] = field(default_factory=dict)
    reasons: Mapping[WorkloadKey, Reason] = field(default_factory=dict)
    recreations: Sequence[Recreation] = ()
    #: Of those who wait for a place again since they gave theirs up to somebody.
    displacements: Mapping[WorkloadKey, Displacement] = field(default_factory=dict)
