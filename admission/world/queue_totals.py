"""What the status of each queue counts, kept up to date with every change: workloads by standing, amounts allocated."""

from collections import Counter
from enum import StrEnum

from admission.workloads.state import WorkloadState
from queues.admissions import Admission, AdmissionState
from queues.resources import NOTHING, Resources
from queues.workload import QueueName


class Standing(StrEnum):
    """How far a workload is, in the words of Volcano's queue status."""

    PENDING = "pending"
    #: Admitted; not every pod has been bound yet.
    INQUEUE = "inqueue"
    RUNNING = "running"
    COMPLETED = "completed"


class QueueTotals:
    """Part of the world: sums over workloads and admissions, by queue."""

    def __init__(self) -> None:
        #: Workloads by queue and standing.
        self.workloads: Counter[tuple[QueueName, Standing]] = Counter()
        self._allocated: dict[QueueName, Resources] = {}

    def allocated(self, queue: QueueName) -> Resources:
        """What the seats of a queue's own admissions take."""
        return self._allocated.get(queue, NOTHING)

    def replace_state(self, before: WorkloadState | None, after: WorkloadState | None) -> None:
        """One state takes another's place. None: there was, or is, none."""
        for state, more in ((before, -1), (after, 1)):
            if state is not None:
                self.workloads[state.workload.queue, standing(state)] += more

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
