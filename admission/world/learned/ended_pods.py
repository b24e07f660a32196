"""How pods with devices of admitted gangs ended on their nodes, until the recovery of nodes asks. Not stored."""

from collections import deque
from typing import Final, NamedTuple

from admission.facts.pods import PodFact, PodPhase
from queues.resources import Resources
from queues.workload import AdmissionId, NodeName

#: Ends that are kept; beyond that the oldest are dropped: without a listener nobody asks.
_MOST: Final = 10_000


def has_devices(pod: PodFact) -> bool:
    """Whether a pod takes devices of its node, whole ones or parts."""
    return pod.shape.share is not None or takes_devices(pod.shape.takes)


def takes_devices(takes: Resources) -> bool:
    """Whether an extended resource is among these amounts."""
    return any("/" in resource and takes[resource] > 0 for resource in takes)


class EndedPod(NamedTuple):
    """A pod with devices that has ended by itself."""

    uid: str
    namespace: str
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
        """A pod changed. Pods that were told to end show nothing of their node; nor do those seen ended at first.

        Pods without devices show nothing either: anybody can start so many of them, on every node.
        """
        if before is None or before.phase is after.phase or after.deleting or not has_devices(after):
            return
        if after.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED) and after.node and after.admission:
            failed = after.phase is PodPhase.FAILED
            self._ended.append(
                EndedPod(after.uid, after.namespace, after.node, after.admission, after.bound_at, failed)
            )

    def take(self) -> list[EndedPod]:
        """What has ended since the last call."""
        found = list(self._ended)
        self._ended.clear()
        return found
