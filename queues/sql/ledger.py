"""Who owns what. One short transaction per plan; only ``admission.apply`` imports this.

``fence`` comes first and gives the ``Entry`` that every other function asks for, so nothing is written without it.
Then ``free``, ``adopt``, ``admit``, ``evict`` and the records. Rows of a plan are taken as they are (protocols below).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from queues.sql.leadership import Term
from queues.workload import AdmissionId, FlavorName, NodeName, QueueName, Seat, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The right to write into the ledger until the transaction ends: proof that the fence was passed."""

    term: Term
    #: Sequence number of this transaction; the next one is fenced with it.
    seq: int
    #: Seconds since the epoch, from the plan.
    now: int


class Wanted(Protocol):
    """Seats for a workload (``admission.engine.plan.Admit``)."""

    @property
    def workload(self) -> WorkloadKey: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def queue(self) -> QueueName: ...
    @property
    def priority(self) -> int: ...
    @property
    def generation(self) -> str: ...
    @property
    def seats(self) -> tuple[Seat, ...]: ...


class Found(Protocol):
    """Pods that run already (``admission.engine.plan.Adopt``)."""

    @property
    def admit(self) -> Wanted: ...
    @property
    def pods(self) -> Mapping[str, int]: ...


class GivenBack(Protocol):
    """Seats of an admission that are free (``admission.engine.plan.Free``)."""

    @property
    def admission(self) -> AdmissionId: ...
    @property
    def seats(self) -> frozenset[int]: ...


class TakenBack(Protocol):
    """An admission to take back whole (``admission.engine.plan.Evict``)."""

    @property
    def admission(self) -> AdmissionId: ...
    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def not_before(self) -> int: ...
    @property
    def beneficiary(self) -> WorkloadKey | None: ...


class Because(Protocol):
    """Why a workload waits (``admission.engine.plan.Reason``)."""

    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why the ledger refused a gang: the first limit that it would break."""

    #: QueueLimit | NodeFull | UnknownQueue | AlreadySeated | InvalidSeat
    code: str
    message: str
    queue: QueueName | None = None
    node: NodeName | None = None
    flavor: FlavorName | None = None
    resource: str | None = None
    limit: int | None = None
    #: Counted before this gang.
    used: int | None = None
    asked: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
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
    """Where a Volcano Job is in its life, as ``admission.jobs`` writes it (phase, version, retryCount, …)."""

    key: WorkloadKey
    state: Mapping[str, Any]


async def fence(tx: AsyncConnection, term: Term, *, ledger_seq: int, now: int) -> Entry:
    """Pass only as the current leader, with the sequence number of the last write known. Raises Fenced."""
    raise NotImplementedError


async def free(tx: AsyncConnection, entry: Entry, rows: Sequence[GivenBack]) -> Freed:
    """Give seats back. A seat that ended already gives nothing; an admission closes when its last seat ends."""
    raise NotImplementedError


async def adopt(tx: AsyncConnection, entry: Entry, rows: Sequence[Found]) -> list[AdmissionId]:
    """Take running pods into the books, whatever the limits say. Ids in the order given."""
    raise NotImplementedError


async def admit(tx: AsyncConnection, entry: Entry, rows: Sequence[Wanted]) -> Verdict:
    """Give seats, gang by gang in the order given: a gang that would break a limit is dropped whole, the others stand."""
    raise NotImplementedError


async def evict(tx: AsyncConnection, entry: Entry, rows: Sequence[TakenBack]) -> frozenset[AdmissionId]:
    """Start taking admissions back; returns those that were open until now."""
    raise NotImplementedError


async def record_decisions(tx: AsyncConnection, entry: Entry, rows: Sequence[Decision]) -> None:
    """Append to the decision log."""
    raise NotImplementedError


async def record_reasons(
    tx: AsyncConnection,
    entry: Entry,
    changed: Mapping[WorkloadKey, Because],
    gone: Collection[WorkloadKey] = (),
) -> None:
    """Store changed reasons, and forget those of workloads that wait no more."""
    raise NotImplementedError


async def record_job_states(tx: AsyncConnection, entry: Entry, rows: Sequence[JobRow]) -> None:
    """Store transitions of Volcano Jobs."""
    raise NotImplementedError
