"""What pods asked beyond what was known of their templates when they came up. Pure.

Not stored: a new leader learns it by another rollback.
"""

from collections.abc import Mapping

from admission.facts.workloads import WorkloadFact
from queues.resources import NOTHING, Resources
from queues.workload import WorkloadKey


class LargerPods:
    """Part of the world: requests of pods that came up larger than their seats, by pod set."""

    def __init__(self) -> None:
        #: With the generation of the workload.
        self._known: dict[WorkloadKey, tuple[str, Mapping[str, Resources]]] = {}

    def note(self, fact: WorkloadFact, larger: Mapping[str, Resources]) -> None:
        """Pods of a workload came up larger: it asks for as much the next time."""
        known = self.of(fact)
        merged = {name: takes.largest(known.get(name, NOTHING)) for name, takes in larger.items()}
        self._known[fact.key] = (fact.generation, {**known, **merged})

    def of(self, fact: WorkloadFact) -> Mapping[str, Resources]:
        """What pods of a workload as it is now asked, by pod set."""
        generation, larger = self._known.get(fact.key, ("", {}))
        return larger if fact.generation == generation else {}

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone."""
        self._known.pop(key, None)
