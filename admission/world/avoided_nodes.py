"""Nodes on which the stock scheduler refused a gang's pods: for a while the gang is seated elsewhere.

Why it refuses need not be in any books (a port of the node, a volume, somebody's anti-affinity), so the same
place would look as good as before. Not stored: a new leader tries once more where it failed.
"""

from collections.abc import Iterable

from admission.facts import PodFact
from admission.workloads.seats import SeatMap
from queues.workload import NodeName, WorkloadKey


class AvoidedNodes:
    """Which nodes to leave out for whom, and until when (seconds)."""

    def __init__(self) -> None:
        self._until: dict[WorkloadKey, dict[NodeName, int]] = {}

    def note(self, key: WorkloadKey, occupancies: Iterable[SeatMap], until: int) -> bool:
        """The gang's pods that are refused now are not to be seated there again before this time.

        Whether that is news.
        """
        known = self.nodes(key)
        refusing = {node for place in occupancies for node in _refusing(place)}
        if refusing:
            self._until.setdefault(key, {}).update(dict.fromkeys(refusing, until))
        return not refusing <= known

    def nodes(self, key: WorkloadKey) -> frozenset[NodeName]:
        """Nodes to leave out."""
        return frozenset(self._until.get(key, ()))

    def expire(self, now: int) -> set[WorkloadKey]:
        """Forget what is over; the workloads that this concerns."""
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
        """The second takes the place of the first."""
        if before in self._until:
            self._until[after] = self._until.pop(before)


def _refusing(place: SeatMap) -> set[NodeName]:
    seats = place.admission.seats
    nodes = {seats[index].node for index, pod in place.sitting.items() if _is_refused(pod)}
    if any(_is_refused(pod) for pod in place.standing):
        # Pods of a directed Job may use any vacant seat.
        nodes |= {seats[index].node for index in place.vacant()}
    return nodes


def _is_refused(pod: PodFact) -> bool:
    return pod.refused is not None and pod.node is None
