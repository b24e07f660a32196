"""How pods of admitted gangs ended on their nodes, collected until the recovery of nodes asks. Not stored."""

from collections import deque
from typing import Final, NamedTuple

from admission.facts.pods import PodFact, PodPhase
from queues.workload import AdmissionId, NodeName

#: Ends that are kept; beyond that the oldest are dropped: without a listener nobody asks.
_MOST: Final = 10_000


class EndedPod(NamedTuple):
    """A pod that has ended by itself."""

    uid: str
    node: NodeName
    admission: AdmissionId
    #: When it was bound (seconds).
    bound_at: int
    failed: bool


class EndedPods:
    """Part of the world: ends of pods since they were last taken."""

    def __init__(self) -> None:
        self._ended: deque[EndedPod] = deque(maxlen=_MOST)

    def observe(self, before: PodFact | None, after: PodFact) -> None:
        """A pod changed. Pods that were told to end show nothing of their node; nor do those seen ended at first."""
        if before is None or before.phase is after.phase or after.deleting:
            return
        if after.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED) and after.node and after.admission:
            failed = after.phase is PodPhase.FAILED
            self._ended.append(EndedPod(after.uid, after.node, after.admission, after.bound_at, failed))

    def take(self) -> list[EndedPod]:
        """What has ended since the last call."""
        found = list(self._ended)
        self._ended.clear()
        return found
