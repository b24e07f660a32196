"""Work of the last days as it was recorded: what came when, in which queue, what it asked for, and when it ran."""

from dataclasses import dataclass

from queues.resources import Resources
from queues.workload import QueueName, WorkloadKey


@dataclass(frozen=True, slots=True, order=True)
class PastStay:
    """An admission of a workload. Times in seconds since the epoch."""

    opened: int
    #: When its pods had to go, or its seats were given back; None: it goes on.
    ended: int | None
    evicted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPods:
    """Seats of one shape in one pod set."""

    pod_set: str
    takes: Resources
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PastWorkload:
    """A workload with its admissions."""

    key: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    user: str
    priority: int
    #: Order of arrival; 0: not known.
    arrival: int
    #: When Muster first saw it; where an older version did not store that, when its object was created.
    arrived: int
    #: Pods that start together; 0: not known.
    minimum: int
    #: Oldest first; at least one.
    stays: tuple[PastStay, ...]
    #: Of its admission with the most seats.
    pods: tuple[PastPods, ...]
