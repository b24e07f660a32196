"""What ``queues.sql.read.views`` answers: queues, waiting workloads and their history, as people see them."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from queues.admissions import Admission, LastEviction
from queues.quota.queue import HIGHEST_USER_PRIORITY
from queues.workload import AdmissionId, QueueName, Result, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Why an admission is being evicted."""

    code: str
    message: str
    #: Seconds since the epoch.
    at: int
    beneficiary: WorkloadKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReason:
    """Why a workload waits, as last written."""

    code: str
    message: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    #: Seconds since the epoch: since when with this code.
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLine:
    """One account of a queue with its limits; ``None``: not set."""

    flavor: str
    resource: str
    guarantee: int = 0
    deserved: int | None = None
    capability: int | None = None
    used: int = 0
    counted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """One queue as people see it."""

    name: QueueName
    parent: QueueName | None
    paused: bool
    closed: bool
    #: Part of a cycle or below a parent that does not exist, or removed.
    broken: bool
    changed_by: str
    #: False: its object was deleted while something of it was held.
    present: bool = True
    #: As its administrator wrote it: ``{"spec": …}``.
    document: Mapping[str, Any] = field(default_factory=dict)
    accounts: tuple[AccountLine, ...] = ()
    #: Workloads of the queue itself.
    pending: int = 0
    admitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingLine:
    """One waiting workload."""

    key: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    priority: int
    arrival: int
    created: int
    minimum: int
    pods: int
    asks: Mapping[str, int]
    reason: StoredReason | None
    #: Whole devices that the gang needs to start.
    devices: int = 0
    #: Declared, in seconds; None if none is.
    run_time: int | None = None
    #: Of a pod that waits alone: kind and name of what controls it; "": nothing does.
    owner: str = ""
    #: Values that it states and that cannot be read, a sentence a line; "": none.
    ignored_values: str = ""
    #: Second (since the epoch) of its last eviction for another workload; 0: there was none.
    waiting_since: int = 0
    #: It has seats, and further members wait.
    joins: bool = False
    #: Its last eviction for another workload; None if it was admitted since, or never evicted.
    last_eviction: LastEviction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatTotals:
    """What the seats of a workload are together."""

    #: Seconds since the epoch: when the first of their admissions was opened.
    opened: int
    seats: int
    takes: Mapping[str, int]
    nodes: frozenset[str]

    def plus(self, other: "SeatTotals") -> "SeatTotals":
        """The same with further seats."""
        return SeatTotals(
            opened=min(self.opened, other.opened),
            seats=self.seats + other.seats,
            takes=Counter(self.takes) + Counter(other.takes),
            nodes=self.nodes | other.nodes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedLine:
    """A workload of a list, whether it waits, runs or has ended."""

    workload: PendingLine
    #: pending | admitted | evicting | finished
    state: str
    #: The user that created it; "": unknown.
    user: str = ""
    result: Result = Result.UNKNOWN
    #: Seconds since the epoch: when it ended; 0: it has not.
    ended: int = 0
    #: Its object is gone.
    is_gone: bool = False
    #: What it holds; of one that has ended: what it held last. None for nothing.
    seats: SeatTotals | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLine:
    """What the work of one user holds and waits for."""

    #: "": unknown.
    user: str
    #: Amounts that are held now, by resource.
    used: Mapping[str, int]
    #: Workloads that wait, and that hold seats.
    pending: int
    admitted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTerms:
    """What the order of a queue is made of: urgency = Σ factor × column, smaller is earlier."""

    by_created: int = 0
    by_priority: int = 0
    #: The highest priority that counts.
    most_priority: int = HIGHEST_USER_PRIORITY
    by_run: int = 0
    #: Seconds that count where no run time is declared.
    unknown_run: int = 0
    #: Of equal urgency large workloads give way to small ones.
    small_first: bool = False


class KindIn(NamedTuple):
    """Workloads of a kind in a namespace."""

    kind: str
    namespace: str


#: Kind of workload → namespaces in which a user may see it; None for all.
Seen = Mapping[str, Collection[str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPage:
    """A part of the waiting workloads."""

    #: With their 1-based positions in their queues.
    lines: tuple[tuple[PendingLine, int], ...]
    #: All that match, also beyond the page; and the same in every namespace.
    total: int
    total_everywhere: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceInQueue:
    """Where a workload is in its queue."""

    #: 1-based.
    position: int
    #: How many workloads wait in the queue.
    length: int
    #: Workloads right before it with their positions, the nearest last.
    ahead: tuple[tuple[PendingLine, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionLine:
    """One line of a workload's history."""

    #: Seconds since the epoch.
    at: int
    kind: str
    code: str
    message: str
    admission: AdmissionId | None = None
    beneficiary: WorkloadKey | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCount:
    """How many pods of a workload ended alike."""

    #: Succeeded | Failed
    phase: str
    #: None if not known.
    exit_code: int | None
    pods: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionTimes:
    """When an admission reached each stage, in seconds since the epoch. None if it has not, or if that is not known."""

    admitted: float
    released: float | None = None
    bound: float | None = None
    running: float | None = None
    #: Whole seconds.
    closed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationRows:
    """All about one workload."""

    workload: PendingLine
    #: pending | admitted | evicting | finished
    state: str
    not_before: int
    rollbacks: int
    admissions: tuple[Admission, ...] = ()
    evictions: Mapping[AdmissionId, Eviction] = field(default_factory=dict)
    history: tuple[DecisionLine, ...] = ()
    #: Seconds since the epoch: older decisions were dropped; 0: none ever was.
    history_begins: int = 0
    #: The user that created it; "": unknown.
    user: str = ""
    result: Result = Result.UNKNOWN
    #: Seconds since the epoch: when it ended; 0: it has not.
    ended: int = 0
    #: Its object is gone.
    is_gone: bool = False
    #: When Muster first stored it, in seconds since the epoch; None if not known.
    seen: float | None = None
    times: Mapping[AdmissionId, AdmissionTimes] = field(default_factory=dict)
    #: What its seats took of devices until now, in units × seconds by resource.
    device_seconds: Mapping[str, int] = field(default_factory=dict)
    #: How its pods ended, as far as that is stored: of Volcano Jobs.
    outcomes: tuple[OutcomeCount, ...] = ()
