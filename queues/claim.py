"""Space that is promised to one workload while others leave it."""

from dataclasses import dataclass

from queues.workload import AdmissionId, QueueName, Seat, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Space promised to a beneficiary while victims drain (preemption, reclaim, clearing).

    It holds amounts on nodes and in the books of the beneficiary's queue against everybody else; the
    beneficiary itself is placed anew, with this space given back to it first.
    """

    workload: WorkloadKey
    queue: QueueName
    #: Generation of the workload it was promised to; another one drops it.
    generation: str
    seats: tuple[Seat, ...]
    #: Admissions whose end makes the room.
    victims: tuple[AdmissionId, ...]
    #: Seconds since the epoch; dropped after this.
    until: int
