"""The answer of one turn: a delta, plain data. ``admission.apply`` stores it; what is stored is then carried out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from queues.admissions import Admission, AdmissionState, Claim, Seat, Unready
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, NodeName, QueueName, WorkloadKey

#: Users by workload, where none is known.
NO_USERS: Final[Mapping[WorkloadKey, str]] = MappingProxyType({})
#: Starts by workload, where none holds anything yet.
NO_STARTS: Final[Mapping[WorkloadKey, int]] = MappingProxyType({})


#: Fact of ``NeverFits``: more nodes would help, and were refused for good.
NODES_REFUSED: Final = "nodesRefused"


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
    """Seats for a workload: for the whole gang, or for further members of one that runs."""

    workload: WorkloadKey
    namespace: str
    name: str
    queue: QueueName
    priority: int
    generation: str
    seats: tuple[Seat, ...]
    #: True: joins a gang that is admitted already.
    elastic: bool = False
    #: As ``Admission.minimum``.
    minimum: int = 0
    #: Its time runs since then (seconds since the epoch): that of the admission for which its pods were let go. 0: now.
    since: int = 0

    def opened(self, id_: AdmissionId, at: int, user: str = "", held_since: int = 0) -> Admission:
        """The admission that this opens at that second (since the epoch) for a user; "": unknown.

        ``held_since``: as ``Admission.held_since``.
        """
        return Admission(
            id=id_,
            workload=self.workload,
            namespace=self.namespace,
            name=self.name,
            queue=self.queue,
            priority=self.priority,
            seats=self.seats,
            opened_at=min(at, self.since or at),
            held_since=held_since,
            generation=self.generation,
            minimum=self.minimum,
            user=user,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """An admission for pods that run already, whatever the limits say."""

    admit: Admit
    #: Pod uid → index into the seats.
    pods: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """Seats of an admission to give back (indices); ``closes``: none is left."""

    admission: AdmissionId
    seats: frozenset[int]
    closes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """An admission to end whole: its pods are removed, then its seats are freed."""

    admission: AdmissionId
    code: ReasonCode
    message: str
    #: The workload may be tried again from this time on (seconds since the epoch).
    not_before: int = 0
    #: Its pods were not ready in time, or were refused, which counts for this revision of its object; None if it has
    #: another cause.
    revision: str | None = None
    #: Workload that gets the room (preemption, reclaim); None if none does.
    beneficiary: WorkloadKey | None = None
    #: An elastic part: its gang runs on, and is not evicted.
    elastic: bool = False
    #: The numbers it was decided on, JSON-able.
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def displaces(self) -> bool:
        """Whether a workload loses its place for others: that counts as an eviction of it."""
        for_others = self.beneficiary is not None or self.code is ReasonCode.NODES_RESERVED
        return for_others and not self.elastic


@dataclass(frozen=True, slots=True)
class Setback:
    """What the evictions of one plan mean for one workload, however many admissions it loses."""

    #: Not tried before this second (since the epoch); 0: it was not rolled back.
    not_before: int = 0
    #: It was evicted for another workload.
    displaced: bool = False
    #: Its pods were not ready in time, or were refused; None if neither.
    unready: Unready | None = None


def setbacks_of(evicts: Iterable[tuple[WorkloadKey, Evict]]) -> dict[WorkloadKey, Setback]:
    """At most one rollback and one eviction per workload, of what was evicted of it."""
    found: dict[WorkloadKey, Setback] = {}
    for key, evict in evicts:
        before = found.get(key, Setback())
        found[key] = Setback(
            not_before=max(before.not_before, evict.not_before),
            displaced=before.displaced or evict.displaces,
            unready=before.unready
            if evict.revision is None
            else Unready(revision=evict.revision, message=evict.message),
        )
    return {key: each for key, each in found.items() if each != Setback()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Changes of the ledger. Every pending workload of the snapshot is in ``admits`` or has a reason.

    A plan that has ``stopped`` is as large as one may be: the next turn decides on what it leaves out.
    """

    now: int
    ledger_seq: int
    frees: tuple[Free, ...] = ()
    adopts: tuple[Adopt, ...] = ()
    #: Admissions whose seats all have a bound pod now.
    starts: tuple[AdmissionId, ...] = ()
    #: Admissions with pods that have been ready together for a while now.
    ready: tuple[AdmissionId, ...] = ()
    evicts: tuple[Evict, ...] = ()
    #: New claims.
    claims: tuple[Claim, ...] = ()
    #: Beneficiaries of claims that end, used or no longer valid.
    dropped: tuple[WorkloadKey, ...] = ()
    admits: tuple[Admit, ...] = ()
    #: Reason of every pending workload that is not admitted now.
    reasons: Mapping[WorkloadKey, Reason] = field(default_factory=dict)
    #: Nodes of reservations that were chosen otherwise than before, by ``NodeClosure.id``. Not in the ledger: the
    #: status of the Reservation keeps them.
    chosen_nodes: Mapping[str, tuple[NodeName, ...]] = field(default_factory=dict)
    stopped: bool = False

    def admit_of(self, workload: WorkloadKey) -> Admit | None:
        """All that a workload gets, with the elastic parts of its gang; None if it gets nothing."""
        found = [each for each in self.admits if each.workload == workload]
        return (
            replace(found[0], seats=tuple(seat for each in found for seat in each.seats)) if found else None
        )

    def changes_ledger(self) -> bool:
        """True if the plan holds more than reasons."""
        return bool(
            self.frees
            or self.adopts
            or self.starts
            or self.ready
            or self.evicts
            or self.claims
            or self.dropped
            or self.admits
        )

    def changed_admissions(
        self,
        before: Mapping[AdmissionId, Admission],
        ids: Iterable[AdmissionId],
        users: Mapping[WorkloadKey, str] = NO_USERS,
        starts: Mapping[WorkloadKey, int] = NO_STARTS,
    ) -> dict[AdmissionId, Admission]:
        """Admissions that the plan changes or opens, as they are once it is committed; closed ones are among them.

        ``before``: admissions it was decided on. ``ids``: numbers of the new ones, first for ``adopts``, then for
        ``admits``. ``starts``: since when workloads with further admissions hold seats; absent: from now on.
        """
        changed: dict[AdmissionId, Admission] = {}
        for id_ in self.starts:
            changed[id_] = replace(before[id_], started=True)
        for id_ in self.ready:
            changed[id_] = replace(changed.get(id_, before[id_]), ready=True)
        for evict in self.evicts:
            admission = changed.get(evict.admission, before[evict.admission])
            changed[evict.admission] = replace(
                admission,
                state=AdmissionState.EVICTING,
                evicted_at=self.now,
                reclaimed=evict.code is ReasonCode.RECLAIMED,
            )
        for free in self.frees:
            admission = changed.get(free.admission, before[free.admission])
            changed[free.admission] = replace(
                admission,
                ended=admission.ended | free.seats,
                state=AdmissionState.CLOSED if free.closes else admission.state,
            )
        numbers = iter(ids)
        for adopt in self.adopts:
            id_ = next(numbers)
            key = adopt.admit.workload
            opened = adopt.admit.opened(id_, self.now, users.get(key, ""), starts.get(key, 0))
            changed[id_] = replace(opened, adopted=dict(adopt.pods), started=True, ready=True)
        for admit in self.admits:
            id_, key = next(numbers), admit.workload
            changed[id_] = admit.opened(id_, self.now, users.get(key, ""), starts.get(key, 0))
        return changed
