"""What a leader saw that no object shows: when things happened, and how workloads ended. Pure.

Not stored: a new leader begins anew.

When admissions were released, bound and running is kept until a ledger transaction stores it. Nothing is written for it
alone: the times go with the start, the readiness, the eviction or the end of the admission.
A leader that takes over knows what the pods show: when they were made, bound and ready.

How workloads ended is known also after their objects or pods are gone. Of pods with devices of admitted gangs it is
kept until the recovery of nodes asks.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from admission.engine.nodes.levels import HOST
from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import WorkloadFact
from admission.volcano_jobs.state import JobState
from admission.workloads.kinds import is_told_by_pods
from admission.workloads.seats import SeatMap, is_live
from admission.workloads.state import WorkloadState
from admission.workloads.workload import end_of
from admission.world.pods import PodIndex
from queues.admissions import Admission, StageTimes
from queues.plan import Plan
from queues.resources import Resources
from queues.workload import AdmissionId, NodeFilter, NodeName, Result, WorkloadKey


class SeenTimes:
    """Seconds since the epoch, by workload."""

    def __init__(self) -> None:
        #: When a bound pod of a workload was last seen to go.
        self.pod_left: dict[WorkloadKey, int] = {}
        #: When a Job had last been suspended, as its status said when it was seen resumed: no sync of its controller
        #: had reported that by then.
        self.suspended_before: dict[WorkloadKey, int] = {}
        self._lost_a_pod: set[WorkloadKey] = set()

    def lose_pod(self, key: WorkloadKey) -> None:
        """A bound pod of a workload is gone; ``tell_time`` says when."""
        self._lost_a_pod.add(key)

    def tell_time(self, now: int) -> None:
        """What was noted since the last time is seen now."""
        self.pod_left.update(dict.fromkeys(self._lost_a_pod, now))
        self._lost_a_pod.clear()

    def note_object(self, key: WorkloadKey, fact: WorkloadFact | None) -> None:
        """The object of a workload appeared, changed or went away. Call it for each of its versions."""
        if fact is None or not fact.suspended_at:
            self.suspended_before.pop(key, None)
        elif not fact.suspended:
            self.suspended_before[key] = fact.suspended_at

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone."""
        self.pod_left.pop(key, None)


#: Seconds after which a pod is not seen to be bound but was so for a while, as a new leader finds it.
_LATE: Final = 2


class AdmissionStages:
    """What is known of admissions and not stored yet."""

    def __init__(self) -> None:
        self._released: dict[AdmissionId, float] = {}
        self._running: dict[AdmissionId, float] = {}

    def note_released(self, ids: Iterable[AdmissionId], now: float) -> None:
        """A pod of each of these admissions was handed to the scheduler. The last pod before the start counts."""
        self._released.update(dict.fromkeys(ids, now))

    def note_state(self, state: WorkloadState) -> None:
        """The pods of some of its admissions are ready together; the first time counts."""
        for id_, since in state.running.items():
            self._running.setdefault(id_, since)

    def of(
        self,
        plan: Plan,
        admissions: Mapping[AdmissionId, Admission],
        states: Mapping[WorkloadKey, WorkloadState],
        now: float,
    ) -> dict[AdmissionId, StageTimes]:
        """The times of the admissions that a plan changes, as far as the ledger lacks them. ``now``: by its clock."""
        found = {}
        for id_ in plan.starts:
            place = _place(id_, admissions[id_], states)
            found[id_] = StageTimes(
                released=self._released.get(id_, _made_at(place)),
                bound=_bound_at(place, now),
                running=self._running.get(id_),
            )
        for id_ in plan.ready:
            found.setdefault(id_, StageTimes(running=self._running.get(id_)))
        leaving = [each.admission for each in plan.evicts]
        leaving += [each.admission for each in plan.frees if each.closes]
        for id_ in leaving:
            known = StageTimes(
                released=None if admissions[id_].started else self._released.get(id_),
                running=None if admissions[id_].ready else self._running.get(id_),
            )
            if id_ not in found and known != StageTimes():
                found[id_] = known
        return found

    def forget(self, plan: Plan) -> None:
        """A plan is stored, with the times of the admissions that it changes."""
        for id_ in plan.ready:
            self._running.pop(id_, None)
        for free in plan.frees:
            if free.closes:
                self._running.pop(free.admission, None)
                self._released.pop(free.admission, None)


def _place(
    id_: AdmissionId, admission: Admission, states: Mapping[WorkloadKey, WorkloadState]
) -> SeatMap | None:
    state = states.get(admission.workload)
    places = () if state is None else state.seat_maps
    return next((place for place in places if place.admission.id == id_), None)


def _made_at(place: SeatMap | None) -> float | None:
    """When the last pod was made, if that was for the admission; None if the pods were there before."""
    created = [] if place is None else [pod.created for pod in place.seated.values()]
    if place is None or not created or place.admission.adopted or min(created) < place.admission.opened_at:
        return None
    return max(created)


def _bound_at(place: SeatMap | None, now: float) -> float:
    """When the last pod was bound: now, or, if that was seen late, when the pods say."""
    said = max((pod.bound_at for pod in place.seated.values()), default=0) if place is not None else 0
    return said if said and said + _LATE < now else now


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
        if not is_live(pod) and is_told_by_pods(key):
            self.note_object_leaves(key)

    def note_pod(self, key: WorkloadKey, pod: PodFact) -> None:
        """A pod of a workload came or changed: with one that lives it goes on."""
        if key in self._seen and is_live(pod) and not pod.deleting:
            del self._seen[key]

    def forget(self, key: WorkloadKey) -> None:
        """The workload has left, or its object is there again."""
        self._seen.pop(key, None)

    def _end(self, key: WorkloadKey) -> Result:
        job, pods = self._jobs.get(key.uid), self._pod_index.unsorted(key) if is_told_by_pods(key) else ()
        end = end_of(key, self._pod_index.facts.get(key), pods, None if job is None else job.result())
        return end if end in _ENDS else Result.UNKNOWN


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

    node: NodeName
    #: By which it ran.
    admission: Admission
    #: When it was bound (seconds).
    bound_at: int
    failed: bool


class EndedPods:
    """Part of the world: ends of pods since they were last taken."""

    def __init__(self) -> None:
        self._ended: deque[EndedPod] = deque(maxlen=_MOST)

    def observe(self, before: PodFact | None, after: PodFact, admission: Admission | None) -> None:
        """A pod changed. ``admission``: the open one by which it runs; None if there is none.

        Pods that were deleted show nothing of their node; nor do those that had ended when they were first seen, and
        those that failed on a node that they named. Pods without devices show nothing either: any user can start so
        many of them, on every node.
        """
        if before is None or before.phase is after.phase or after.deleting or not has_devices(after):
            return
        if after.phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED) or not after.node or admission is None:
            return
        failed = after.phase is PodPhase.FAILED
        if not (failed and _names_nodes(after.shape.nodes)):
            self._ended.append(EndedPod(after.node, admission, after.bound_at, failed))

    def take(self) -> list[EndedPod]:
        """What has ended since the last call."""
        found = list(self._ended)
        self._ended.clear()
        return found


def _names_nodes(nodes: NodeFilter) -> bool:
    """Whether a filter requires nodes by their names."""
    required = (each for term in nodes.affinity for each in term if each.operator == "In")
    return any(key == HOST for key, _ in nodes.selector) or any(
        each.field or each.key == HOST for each in required
    )
