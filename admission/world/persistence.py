"""Between the world and Postgres: outcomes of pods that still count, and changes that are not stored yet."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from admission.facts import PodFact, PodPhase, QueueFact
from admission.volcano_jobs.state import JobState
from queues.admissions import PodOutcome
from queues.workload import QueueName, WorkloadKey

Outcomes = dict[tuple[str, int], PodPhase]


def current_outcomes(rows: Iterable[PodOutcome], jobs: Mapping[str, JobState]) -> dict[WorkloadKey, Outcomes]:
    """Ends of pods by workload, and there by pod set and ordinal, of the version of each Volcano Job that runs now."""
    found: dict[WorkloadKey, Outcomes] = {}
    for row in rows:
        job = jobs.get(row.workload.uid)
        if row.version == (job.version if job is not None else 0):
            found.setdefault(row.workload, {})[row.pod_set, row.ordinal] = PodPhase(row.phase)
    return found


@dataclass(slots=True)
class Unsaved:
    """Changes that are not in Postgres yet, by kind of row. Intake empties it."""

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
