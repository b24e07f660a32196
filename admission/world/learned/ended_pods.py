"""How pods with devices of admitted gangs ended on their nodes, until the recovery of nodes asks. Not stored."""

from collections import deque
from typing import Final, NamedTuple

from admission.facts.pods import PodFact, PodPhase
from queues.admissions import Admission
from queues.resources import Resources
from queues.workload import AdmissionId, NodeFilter, NodeName, QueueName

#: Ends that are kept; beyond that the oldest are dropped: without a listener they are not read.
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
    node: NodeName
    admission: AdmissionId
    #: Of its admission.
    queue: QueueName
    user: str
    #: When it was bound (seconds).
    bound_at: int
    failed: bool
    #: The nodes that it may use, as its owner says.
    nodes: NodeFilter


class EndedPods:
    """Part of the world: ends of pods since they were last taken."""

    def __init__(self) -> None:
        self._ended: deque[EndedPod] = deque(maxlen=_MOST)

    def observe(self, before: PodFact | None, after: PodFact, admission: Admission | None) -> None:
        """A pod changed. ``admission``: the open one by which it runs; None if there is none.

        Pods that were deleted show nothing of their node; nor do those that had ended when they were first seen.
        Pods without devices show nothing either: any user can start so many of them, on every node.
        """
        if before is None or before.phase is after.phase or after.deleting or not has_devices(after):
            return
        if after.phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED) or not after.node or admission is None:
            return
        self._ended.append(
            EndedPod(
                after.uid,
                after.node,
                admission.id,
                admission.queue,
                admission.user,
                after.bound_at,
                after.phase is PodPhase.FAILED,
                after.shape.nodes,
            )
        )

    def take(self) -> list[EndedPod]:
        """What has ended since the last call."""
        found = list(self._ended)
        self._ended.clear()
        return found
