"""When workloads are to be looked at again though nothing of them changes. Pure."""

from heapq import heappop, heappush

from queues.workload import WorkloadKey


class Deadlines:
    """One time for each workload, of those that wait for their pods to get ready."""

    def __init__(self) -> None:
        self._at: dict[WorkloadKey, int] = {}
        #: Soonest first; what is not in ``_at`` is outdated.
        self._heap: list[tuple[int, WorkloadKey]] = []
        #: Workloads for which another outcome follows from another policy of their queue.
        self.policy_dependents: set[WorkloadKey] = set()

    def put(self, key: WorkloadKey, at: int | None, *, follows_policy: bool) -> None:
        """The second at which a workload is to be looked at again; None if not before something changes."""
        (self.policy_dependents.add if follows_policy else self.policy_dependents.discard)(key)
        if at is None:
            self._at.pop(key, None)
        elif self._at.get(key) != at:
            self._at[key] = at
            heappush(self._heap, (at, key))

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone."""
        self.put(key, None, follows_policy=False)

    def due(self, now: int) -> set[WorkloadKey]:
        """Workloads that are to be looked at now, each named once."""
        found = set()
        while self._heap and self._heap[0][0] <= now:
            at, key = heappop(self._heap)
            if self._at.get(key) == at:
                del self._at[key]
                found.add(key)
        return found
