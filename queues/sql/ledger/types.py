"""What apply hands to the ledger, and what it gets back. Rows of a plan are taken as they are (the protocols)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from queues.admissions import Seat
from queues.quota.posting import Rejection
from queues.sql.leadership import Term
from queues.workload import AdmissionId, QueueName, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTransaction:
    """The right to write into the ledger until the transaction ends: proof that the fence was passed."""

    term: Term
    #: Sequence number of this transaction; the next one is fenced with it.
    seq: int
    #: Seconds since the epoch, from the plan.
    now: int


class Wanted(Protocol):
    """Seats for a workload (``admission.engine.plan.Admit``)."""

    @property
    def workload(self) -> WorkloadKey:
        """Who gets them."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def queue(self) -> QueueName:
        """Whose quota is taken."""

    @property
    def priority(self) -> int:
        """Value of its priority class."""

    @property
    def generation(self) -> str:
        """What was asked when this was decided."""

    @property
    def seats(self) -> tuple[Seat, ...]:
        """All of them or none."""


class Found(Protocol):
    """Pods that run already (``admission.engine.plan.Adopt``)."""

    @property
    def admit(self) -> Wanted:
        """The seats they have."""

    @property
    def pods(self) -> Mapping[str, int]:
        """Pod uid → index into the seats."""


class GivenBack(Protocol):
    """Seats of an admission that are free (``admission.engine.plan.Free``)."""

    @property
    def admission(self) -> AdmissionId:
        """Whose."""

    @property
    def seats(self) -> frozenset[int]:
        """Indices into its seats."""


class TakenBack(Protocol):
    """An admission to take back whole (``admission.engine.plan.Evict``)."""

    @property
    def admission(self) -> AdmissionId:
        """Which."""

    @property
    def code(self) -> str:
        """Why, as a code."""

    @property
    def message(self) -> str:
        """Why, as a sentence."""

    @property
    def not_before(self) -> int:
        """Seconds since the epoch until which the workload must wait; 0: it was not rolled back."""

    @property
    def beneficiary(self) -> WorkloadKey | None:
        """For whom."""


class Because(Protocol):
    """Why a workload waits (``admission.engine.plan.Reason``)."""

    @property
    def code(self) -> str:
        """Of the closed vocabulary."""

    @property
    def message(self) -> str:
        """Sentence with the numbers."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerOutcome:
    """What became of the rows given to ``admit``, by their index there."""

    accepted: Mapping[int, AdmissionId]
    rejected: Mapping[int, Rejection]


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """What ``free`` really gave back; what was free already is absent."""

    #: By admission: indices that ended now.
    seats: Mapping[AdmissionId, frozenset[int]]
    closed: frozenset[AdmissionId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One line of the decision log: who for whom, by which rule, on which numbers."""

    #: admit | adopt | evict | free | reject | claim
    kind: str
    workload: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    code: str = ""
    message: str = ""
    admission: AdmissionId | None = None
    beneficiary: WorkloadKey | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """Where a Volcano Job is in its life, as ``admission.volcano_jobs`` writes it (phase, version, retryCount, …)."""

    key: WorkloadKey
    state: Mapping[str, Any]
