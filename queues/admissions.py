"""Possessions in the ledger: admissions with their seats, claims, and what is kept of evicted workloads and pods."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from queues.reason_codes import ReasonCode
from queues.resources import NOTHING, Resources, total
from queues.text_format import rfc3339
from queues.workload import NO_FLAVOR, AdmissionId, FlavorName, NodeName, QueueName, WorkloadKey

#: No indices of seats: most admissions share it.
NO_SEATS: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One member's place: what a pod of an admission will occupy."""

    pod_set: str
    #: 0-based position inside the pod set; an Indexed Job's completion index.
    ordinal: int
    node: NodeName
    #: Flavor of the node when the seat was given: quota is counted in it.
    flavor: FlavorName = NO_FLAVOR
    takes: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """When an admission reached each stage, in seconds since the epoch. None if it has not, or if that is not known."""

    #: The last write that handed a pod of it to the scheduler.
    released: float | None = None
    #: Every seat had a bound pod.
    bound: float | None = None
    #: All these pods were ready together.
    running: float | None = None


class AdmissionState(StrEnum):
    """The life of an admission. open → evicting → closed, or open → closed."""

    #: Holds its seats; pods are released, running or ending.
    OPEN = "open"
    #: Its pods are being removed; the seats are held until the last one is gone.
    EVICTING = "evicting"
    #: Holds nothing.
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """One possession in the ledger: seats that a workload holds. A workload may have several (elastic parts)."""

    id: AdmissionId
    workload: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    priority: int
    seats: tuple[Seat, ...]
    #: Indices into ``seats`` that are freed already.
    ended: frozenset[int] = NO_SEATS
    state: AdmissionState = AdmissionState.OPEN
    #: Every seat has had a bound pod: from now on a lost seat is repaired, and the gang is not rolled back.
    started: bool = False
    #: All its pods have been ready together for a while: from now on it does not go back for pods that are not.
    ready: bool = False
    #: Adopted pods, which ran before they were in the ledger (uid → index of the seat).
    adopted: Mapping[str, int] | None = None
    #: Seconds since the epoch; of adopted pods that were let go for another admission, when that one was.
    opened_at: int
    #: Since when its workload holds seats without a break (seconds since the epoch): the earliest opening of the
    #: admissions that it held when this one was opened. 0: it held none, so since this one was opened.
    held_since: int = 0
    #: When it began to be evicted (seconds since the epoch); 0: it did not.
    evicted_at: int = 0
    #: It is evicted because another queue gets back what it deserves.
    reclaimed: bool = False
    #: Generation of the workload that was admitted.
    generation: str = ""
    #: Pods that had to start together when the workload was admitted, also of what joined it later; 0: not known. A
    #: gang whose minimum is raised while it runs is not protected more.
    minimum: int = 0
    #: The user (``muster.dev/user``); "": unknown.
    user: str = ""

    def holding(self) -> tuple[Seat, ...]:
        """Seats that still hold quota and node space."""
        if not self.ended:
            return self.seats
        return tuple(seat for index, seat in enumerate(self.seats) if index not in self.ended)

    @property
    def start(self) -> int:
        """Since when its workload holds seats without a break (seconds since the epoch)."""
        return self.held_since or self.opened_at

    def asks_budgets(self) -> bool:
        """Whether PodDisruptionBudgets have a say in the removal of its pods, as it is evicted.

        Not for a gang that never got ready: there is nothing yet that they could protect.
        """
        return self.state is AdmissionState.EVICTING and self.ready

    def holds(self) -> Resources:
        """The sum of what these seats take."""
        return total(seat.takes for seat in self.holding()) if self.seats else NOTHING


class ClosedAdmission(NamedTuple):
    """What is still of interest of an admission that the ledger has closed."""

    workload: WorkloadKey
    queue: QueueName
    #: ``Admission.start``.
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Space promised to a beneficiary while victims drain (preemption, reclaim, clearing).

    It holds amounts on nodes and in the books of the beneficiary's queue against all other workloads. The beneficiary
    itself is placed again, with this space freed for it first.

    A claim without victims and with one seat on no node holds quota for a gang whose pods are being made
    (``muster.dev/hold-min-resources``). It stays when its time is over, and holds nothing any more, until the gang has
    its pods: each gang is given quota once.
    """

    workload: WorkloadKey
    queue: QueueName
    #: Generation of the beneficiary; a change of it drops the claim.
    generation: str
    seats: tuple[Seat, ...]
    #: Admissions that must end first.
    victims: tuple[AdmissionId, ...]
    #: Seconds since the epoch; dropped after this.
    until: int

    @property
    def is_quota_only(self) -> bool:
        """Whether it holds quota for a gang whose pods are being made, and no place on a node."""
        return not any(seat.node for seat in self.seats)


#: Codes of evictions for which nothing of the workload is to blame: it comes first among equals of its queue.
COMING_FIRST: Final = frozenset((ReasonCode.GPU_UNHEALTHY, ReasonCode.NODES_RESERVED, ReasonCode.MAINTENANCE))
#: Codes of evictions whose message is shown while the workload waits again.
CAUSES_TOLD: Final = frozenset((ReasonCode.REFUSED, ReasonCode.MAX_RUN_TIME, *COMING_FIRST))

#: A second that does not come: a workload with no attempt before it is not run again.
NEVER_AGAIN: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEviction:
    """The last eviction of a workload, if it was not admitted since and its cause helps to understand the wait.

    So it was for a beneficiary; or the scheduler refused its pods, for a reason that need not be in any books; or one
    of its devices failed, or its nodes are reserved or drained, so that it comes before others of its queue now; or its
    queue did not let it run longer.
    """

    #: Seconds since the epoch.
    at: int
    #: By which rule: Preempted, Reclaimed, Cleared; Refused; GpuUnhealthy; NodesReserved; Maintenance; or MaxRunTime.
    code: ReasonCode
    #: The beneficiary, as ``kind/namespace/name``; "": none has its place.
    by: str = ""
    #: Which pod was refused, in the scheduler's words, which device failed, or how long it ran; "": none of these.
    cause: str = ""
    #: How much the beneficiary takes of what is freed (``8 of 32 nvidia.com/gpu``); "": all of it.
    takes: str = ""

    def appended_to(self, message: str) -> str:
        """The reason for which the workload waits now, with the eviction that ended its last run."""
        why = f" for {self.by}" if self.by else f": {self.cause}"
        if self.takes:
            why += (
                f", which takes {self.takes} that were freed; this workload waits until it fits whole again"
            )
        return f"{message}; evicted at {rfc3339(self.at)} ({self.code}){why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unready:
    """How often the pods of a workload did not get ready in time, or were refused by the stock scheduler, as its object
    was then. The revision says which of the two."""

    #: What the object was: the count does not hold for another one.
    revision: str
    times: int = 1
    #: Which pods were not ready the last time, and what they waited for.
    message: str

    def after(self, before: "Unready | None") -> "Unready":
        """This one, counted after those before it."""
        if before is None or before.revision != self.revision:
            return self
        return replace(self, times=before.times + self.times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setbacks:
    """How often a workload went back to waiting, and what follows for its next try: its row of ``backoffs``."""

    #: No attempt before this second (since the epoch); 0: it was never rolled back; ``NEVER_AGAIN``: it ran for as long
    #: as its queue allows.
    not_before: int = 0
    #: Times its pods did not come up and it was rolled back, since they were last ready.
    rollbacks: int = 0
    #: How often its pods did not get ready in time, or were refused, in a row.
    unready: Unready | None = None
    #: Times it was evicted for another workload.
    evictions: int = 0
    #: Second of the last of these evictions (since the epoch); 0: there was none.
    waiting_since: int = 0

    @property
    def is_run_out(self) -> bool:
        """Whether it ran for as long as its queue allows: it is not run again."""
        return self.not_before >= NEVER_AGAIN

    def rolled_back(self, not_before: int, unready: Unready | None = None) -> "Setbacks":
        """After one rollback more. ``unready``: its pods were not ready in time; None if it had another cause."""
        return replace(
            self,
            not_before=max(not_before, self.not_before),
            rollbacks=self.rollbacks + 1,
            unready=self.unready if unready is None else unready.after(self.unready),
        )

    def got_ready(self) -> "Setbacks":
        """After its pods were ready: what failed before does not count any more."""
        return replace(self, rollbacks=0, unready=None)

    def evicted(self, now: int) -> "Setbacks":
        """After one eviction more."""
        return replace(self, evictions=self.evictions + 1, waiting_since=now)


NO_SETBACKS: Final = Setbacks()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOutcome:
    """How one pod ended for good: it may disappear now."""

    workload: WorkloadKey
    pod_set: str
    ordinal: int
    pod_uid: str
    #: Succeeded | Failed
    phase: str
    exit_code: int | None = None
    #: volcano.sh/job-version of the pod.
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreation:
    """The intent to recreate a pod without an owner, stored before the pod is deleted."""

    #: Of the pod that is deleted.
    pod_uid: str
    #: The workload of the pod: its group, or the pod itself.
    workload: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    #: The new pod as canonical JSON: gated, without its seat.
    manifest: str
