"""The answer of one turn: a delta, plain data. ``apply`` stores it, ``kube`` carries it out; neither decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from queues.admissions import Admission, Claim, Seat
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, QueueName, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a workload waits: a code with its sentence and numbers."""

    code: ReasonCode
    #: Sentence with the numbers filled in; the same text everywhere.
    message: str
    #: The numbers themselves, JSON-able: asked, free, limit, used, by (queue), resource, level, domain.
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """Give these seats to a workload: the whole gang, or further members of one that runs."""

    workload: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    priority: int
    generation: str
    seats: tuple[Seat, ...]
    #: True: joins a gang that is admitted already.
    elastic: bool = False

    def opened(self, id_: AdmissionId, at: int) -> Admission:
        """The possession that this opens, at this time (seconds since the epoch)."""
        return Admission(
            id=id_,
            workload=self.workload,
            namespace=self.namespace,
            name=self.name,
            queue=self.queue,
            priority=self.priority,
            seats=self.seats,
            opened_at=at,
            generation=self.generation,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """Take pods that run already into the books, whatever the limits say."""

    admit: Admit
    #: Pod uid → index into the seats.
    pods: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """Give back seats of an admission (indices); ``closes`` when none is left."""

    admission: AdmissionId
    seats: frozenset[int]
    closes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Take an admission back whole: its pods are removed, then the seats are freed."""

    admission: AdmissionId
    code: ReasonCode
    message: str
    #: The workload may be tried again from this time on (seconds since the epoch).
    not_before: int = 0
    #: For whom (preemption, reclaim); None: not for anybody.
    beneficiary: WorkloadKey | None = None
    #: The numbers it was decided on, JSON-able.
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What changes. Every pending workload of the snapshot is in ``admits`` or has a reason."""

    now: int
    ledger_seq: int
    frees: tuple[Free, ...] = ()
    adopts: tuple[Adopt, ...] = ()
    #: Admissions whose every seat has a bound pod now.
    starts: tuple[AdmissionId, ...] = ()
    evicts: tuple[Evict, ...] = ()
    #: New claims.
    claims: tuple[Claim, ...] = ()
    #: Beneficiaries whose claims end: used, or no longer good.
    dropped: tuple[WorkloadKey, ...] = ()
    admits: tuple[Admit, ...] = ()
    #: Reason of every pending workload that is not admitted now.
    reasons: Mapping[WorkloadKey, Reason] = field(default_factory=dict)
    #: Transitions of Volcano Jobs (filled in by admission.volcano_jobs.lifecycle in the same turn).
    jobs: tuple[Any, ...] = ()

    def changes_ledger(self) -> bool:
        """Whether there is anything to commit but reasons."""
        return bool(
            self.frees
            or self.adopts
            or self.starts
            or self.evicts
            or self.claims
            or self.dropped
            or self.admits
            or self.jobs
        )
