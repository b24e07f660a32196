"""What the status of each queue counts, kept up to date with every change: workloads by standing, amounts allocated."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from admission.facts.pods import PodPhase
from admission.workloads.kinds import StatusForm, support_of
from admission.workloads.seats import is_live
from admission.workloads.state import WorkloadState
from queues.admissions import Admission, AdmissionState
from queues.resources import NOTHING, Resources
from queues.workload import QueueName, WorkloadKey

#: Workloads for which there is a PodGroup.
_WITH_GROUP: Final = (StatusForm.POD_GROUP, StatusForm.VOLCANO_JOB)


class Standing(StrEnum):
    """How far a workload is, in the words of Volcano's queue status."""

    PENDING = "pending"
    #: Admitted; not every pod has been bound yet.
    INQUEUE = "inqueue"
    RUNNING = "running"
    #: Pods run, but no longer as a gang; of workloads that have a PodGroup.
    UNKNOWN = "unknown"
    COMPLETED = "completed"


class QueueTotals:
    """Part of the world: sums over workloads and admissions, by queue."""

    def __init__(self, ended: Mapping[WorkloadKey, QueueName]) -> None:
        """``ended``: as Postgres has it, until each workload was looked at."""
        #: Queue of each workload that has ended and has no state.
        self.ended = dict(ended)
        #: Workloads by queue and standing.
        self.workloads = Counter((queue, Standing.COMPLETED) for queue in ended.values())
        self._allocated: dict[QueueName, Resources] = {}
        #: Queues whose sums may have changed since ``take_changed``.
        self._changed: set[QueueName] = set()

    def allocated(self, queue: QueueName) -> Resources:
        """What the seats of a queue's own admissions take."""
        return self._allocated.get(queue, NOTHING)

    def allocations(self) -> Iterable[tuple[QueueName, Resources]]:
        """The same of all queues in which something was admitted in this term."""
        return self._allocated.items()

    def take_changed(self) -> set[QueueName]:
        """Queues whose sums may be others than at the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def replace_state(
        self, key: WorkloadKey, before: WorkloadState | None, after: WorkloadState | None
    ) -> None:
        """One state of a workload takes another's place. None if there was, or is, none."""
        self.end(key, before, None)
        if after is not None:
            self._count(after.workload.queue, standing(after), 1)

    def end(self, key: WorkloadKey, before: WorkloadState | None, queue: QueueName | None) -> None:
        """A workload has ended in this queue, and has no state any more; None if nothing is left of it."""
        if before is not None:
            self._count(before.workload.queue, standing(before), -1)
        if (ended_in := self.ended.pop(key, None)) is not None:
            self._count(ended_in, Standing.COMPLETED, -1)
        if queue is not None:
            self.ended[key] = queue
            self._count(queue, Standing.COMPLETED, 1)

    def _count(self, queue: QueueName, standing: Standing, more: int) -> None:
        self.workloads[queue, standing] += more
        self._changed.add(queue)

    def replace_admission(self, before: Admission | None, after: Admission) -> None:
        """An admission was opened (``before`` is None) or changed."""
        self._changed.update(each.queue for each in (before, after) if each is not None)
        if before is not None:
            self._allocated[before.queue] = self.allocated(before.queue) - before.holds()
        if after.state is not AdmissionState.CLOSED:
            self._allocated[after.queue] = self.allocated(after.queue) + after.holds()


def standing(state: WorkloadState) -> Standing:
    """How far a workload is."""
    if state.is_over:
        return Standing.COMPLETED
    open_ = [place.admission for place in state.seat_maps if place.admission.state is AdmissionState.OPEN]
    if _is_broken_gang(state, open_):
        return Standing.UNKNOWN
    if not open_:
        return Standing.PENDING if state.needs_seats else Standing.COMPLETED
    return Standing.RUNNING if any(admission.started for admission in open_) else Standing.INQUEUE


def _is_broken_gang(state: WorkloadState, open_: Sequence[Admission]) -> bool:
    """Whether its PodGroup is in the phase Unknown (``WorkloadStatus.phase``): pods run without seats, or a gang that
    had started lacks members."""
    if support_of(state.key).status not in _WITH_GROUP:
        return False
    if open_ and not any(admission.started for admission in open_):
        return False
    phases = Counter(pod.phase for pod in state.pods)
    if not phases[PodPhase.RUNNING]:
        return False
    if not open_:
        return True
    there = phases[PodPhase.FAILED] + sum(pod.node is not None and is_live(pod) for pod in state.pods)
    if not support_of(state.key).is_group:
        # Of a PodGroup the workload's minimum leaves them out already.
        there += phases[PodPhase.SUCCEEDED]
    return there < state.workload.minimum
