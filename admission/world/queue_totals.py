"""What the status of each queue counts, kept up to date with every change: workloads by standing, amounts allocated."""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from admission.workloads.state import WorkloadState
from queues.admissions import Admission, AdmissionState
from queues.resources import NOTHING, Resources
from queues.workload import QueueName, WorkloadKey


class Standing(StrEnum):
    """How far a workload is, in the words of Volcano's queue status."""

    PENDING = "pending"
    #: Admitted; not every pod has been bound yet.
    INQUEUE = "inqueue"
    RUNNING = "running"
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

    def allocated(self, queue: QueueName) -> Resources:
        """What the seats of a queue's own admissions take."""
        return self._allocated.get(queue, NOTHING)

    def replace_state(
        self, key: WorkloadKey, before: WorkloadState | None, after: WorkloadState | None
    ) -> None:
        """One state of a workload takes another's place. None: there was, or is, none."""
        self.end(key, before, None)
        if after is not None:
            self.workloads[after.workload.queue, standing(after)] += 1

    def end(self, key: WorkloadKey, before: WorkloadState | None, queue: QueueName | None) -> None:
        """A workload has ended in this queue, and has no state any more; None: nothing is left of it."""
        if before is not None:
            self.workloads[before.workload.queue, standing(before)] -= 1
        if (ended_in := self.ended.pop(key, None)) is not None:
            self.workloads[ended_in, Standing.COMPLETED] -= 1
        if queue is not None:
            self.ended[key] = queue
            self.workloads[queue, Standing.COMPLETED] += 1

    def replace_admission(self, before: Admission | None, after: Admission) -> None:
        """An admission was opened (``before`` is None) or changed."""
        if before is not None:
            self._allocated[before.queue] = self.allocated(before.queue) - before.holds()
        if after.state is not AdmissionState.CLOSED:
            self._allocated[after.queue] = self.allocated(after.queue) + after.holds()


def standing(state: WorkloadState) -> Standing:
    """How far a workload is."""
    if state.is_over:
        return Standing.COMPLETED
    open_ = [place.admission for place in state.seat_maps if place.admission.state is AdmissionState.OPEN]
    if not open_:
        return Standing.PENDING if state.needs_seats else Standing.COMPLETED
    return Standing.RUNNING if any(admission.started for admission in open_) else Standing.INQUEUE
