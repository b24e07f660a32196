"""Between the world and Postgres: outcomes of pods that still count, and changes that are not stored yet."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from admission.facts import PodFact, PodPhase, QueueFact
from admission.volcano_jobs.state import JobState
from queues.admissions import PodOutcome, Recreation
from queues.workload import NodeName, QueueName, WorkloadKey

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
    #: Intents to recreate pods, by the uid of the pod that goes; None: to be forgotten.
    recreations: dict[str, Recreation | None] = field(default_factory=dict)
    #: Nodes with a changed limit.
    nodes: set[NodeName] = field(default_factory=set)

    def copy(self) -> "Unsaved":
        """The changes so far: what one transaction stores."""
        return Unsaved(**{each.name: getattr(self, each.name).copy() for each in fields(self)})

    def discard(self, stored: "Unsaved") -> None:
        """Intake has stored these. What changed meanwhile stays."""
        for rows, done in zip(self._by_key(), stored._by_key(), strict=True):
            for key, entry in done.items():
                if rows.get(key, entry) is entry:
                    rows.pop(key, None)
        self.nodes -= stored.nodes

    def __bool__(self) -> bool:
        return any(self._by_key()) or bool(self.nodes)

    def _by_key(self) -> list[dict[Any, Any]]:
        """All but the nodes."""
        return [getattr(self, each.name) for each in fields(self) if each.name != "nodes"]
