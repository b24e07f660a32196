"""The Queues that there are, and removed ones of which something is held. Pure."""

from collections.abc import Iterable, Mapping

from admission.facts.cluster import QueueFact
from queues.admissions import Admission
from queues.quota.queue import Queue, with_removed
from queues.workload import QueueName


class QueueFacts:
    """Part of the world."""

    def __init__(self, parents: Mapping[QueueName, QueueName | None]) -> None:
        """``parents``: of queues that were removed: what is held of them counts along the same path as before."""
        self.queues: dict[QueueName, QueueFact] = {}
        self._removed = dict(parents)

    def put(self, name: QueueName, fact: QueueFact | None) -> None:
        """A Queue appeared, changed, or (None) is gone."""
        before = self.queues.pop(name, None)
        if fact is not None:
            self.queues[name] = fact
            self._removed.pop(name, None)
        elif before is not None:
            self._removed[name] = before.queue.parent

    def with_removed(self, admissions: Iterable[Admission]) -> dict[QueueName, Queue]:
        """The queues that there are, and removed ones of which these hold something."""
        known = {name: fact.queue for name, fact in self.queues.items()}
        if not self._removed.keys() - known.keys():
            return known
        return with_removed(known, {each.queue for each in admissions}, self._removed)
