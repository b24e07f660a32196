"""Nodes on which the stock scheduler refused a gang's pods: for a while the gang is seated elsewhere.

Why it refuses need not be in any books (a port of the node, a volume, the anti-affinity of other pods), so the same
place would look as good as before. Not stored: a new leader tries once more where it failed.
"""

from collections.abc import Iterable

from queues.workload import NodeName, WorkloadKey


class AvoidedNodes:
    """Nodes to leave out, by workload, each until a second."""

    def __init__(self) -> None:
        self._until: dict[WorkloadKey, dict[NodeName, int]] = {}

    def note(self, key: WorkloadKey, nodes: Iterable[NodeName], until: int) -> None:
        """The workload is not to be seated on these nodes again before this time (seconds)."""
        if untils := dict.fromkeys(nodes, until):
            self._until.setdefault(key, {}).update(untils)

    def nodes(self, key: WorkloadKey) -> frozenset[NodeName]:
        """Nodes to leave out."""
        return frozenset(self._until.get(key, ()))

    def expire(self, now: int) -> set[WorkloadKey]:
        """Forget nodes after their time is over; the workloads that may use them again."""
        over = {key for key, nodes in self._until.items() if min(nodes.values()) <= now}
        for key in over:
            left = {node: until for node, until in self._until.pop(key).items() if until > now}
            if left:
                self._until[key] = left
        return over

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone."""
        self._until.pop(key, None)

    def pass_on(self, before: WorkloadKey, after: WorkloadKey) -> None:
        """The second workload takes the place of the first."""
        if before in self._until:
            self._until[after] = self._until.pop(before)
