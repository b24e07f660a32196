"""How workloads were seen to end, also after their objects or pods are gone. Pure.

Of pods with devices of admitted gangs it is kept until the recovery of nodes asks, and not stored.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from admission.facts.pods import PodFact, PodPhase
from admission.volcano_jobs.state import JobState
from admission.workloads.kinds import support_of
from admission.workloads.seats import is_live
from admission.workloads.workload import end_of
from admission.world.pods import PodIndex
from queues.admissions import Admission
from queues.resources import Resources
from queues.workload import AdmissionId, NodeFilter, NodeName, QueueName, Result, WorkloadKey

_ENDS: Final = (Result.SUCCEEDED, Result.FAILED)


class SeenEnds:
    """Part of the world: ends that only the history has. Kept until the workload has left."""

    def __init__(self, pod_index: PodIndex, jobs: Mapping[str, JobState]) -> None:
        self._pod_index = pod_index
        self._jobs = jobs
        self._seen: dict[WorkloadKey, Result] = {}

    def of(self, key: WorkloadKey) -> Result:
        """How a workload ended by itself; UNKNOWN: it was not seen to."""
        return self._seen.get(key) or self._end(key)

    def note_object_leaves(self, key: WorkloadKey) -> None:
        """The object is about to go, as it was seen last."""
        if key not in self._seen and (end := self._end(key)):
            self._seen[key] = end

    def note_pod_leaves(self, key: WorkloadKey, pod: PodFact) -> None:
        """A pod is about to go, and with it what it says of its workload. The first pod says how all of them ended."""
        if not is_live(pod) and _told_by_pods(key):
            self.note_object_leaves(key)

    def note_pod(self, key: WorkloadKey, pod: PodFact) -> None:
        """A pod of a workload came or changed: with one that lives it goes on."""
        if key in self._seen and is_live(pod) and not pod.deleting:
            del self._seen[key]

    def forget(self, key: WorkloadKey) -> None:
        """The workload has left, or its object is there again."""
        self._seen.pop(key, None)

    def _end(self, key: WorkloadKey) -> Result:
        job, pods = self._jobs.get(key.uid), self._pod_index.unsorted(key) if _told_by_pods(key) else ()
        end = end_of(key, self._pod_index.facts.get(key), pods, None if job is None else job.result())
        return end if end in _ENDS else Result.UNKNOWN


def _told_by_pods(key: WorkloadKey) -> bool:
    support = support_of(key)
    return support.is_pod or support.is_group


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
