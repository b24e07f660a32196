"""How workloads were seen to end, also after their objects or pods are gone. Pure."""

from collections.abc import Mapping
from typing import Final

from admission.facts.pods import PodFact
from admission.volcano_jobs.state import JobState
from admission.workloads.kinds import support_of
from admission.workloads.seats import is_live
from admission.workloads.workload import end_of
from admission.world.pods import PodIndex
from queues.workload import Result, WorkloadKey

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
