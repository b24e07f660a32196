"""The worlds of one turn of ``preemption``, made when they are first needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from admission.engine import reasons
from admission.engine.claims import HeldClaims
from admission.engine.preemption.candidate_arrays import CandidateArrays
from admission.engine.preemption.candidates import HeldAdmission, VictimCandidates, victim_candidates
from admission.engine.preemption.pruning import PreemptionProspects
from admission.engine.preemption.victim_set import Victim
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.admissions import Claim, Seat
from queues.plan import Evict, Reason
from queues.quota.accounts import charges
from queues.resources import Resources
from queues.workload import AdmissionId, NodeFilter, QueueName, Workload, WorkloadKey

#: A claim whose beneficiary is not in by then is given up.
CLAIM_SECONDS = 600


@dataclass(slots=True, eq=False)
class PreemptionResult:
    """What a turn does for those it refused."""

    evicts: list[Evict] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    #: Better reasons for those who wait for victims now.
    reasons: dict[WorkloadKey, Reason] = field(default_factory=dict)
    #: The second from which on the answer may be another though nothing else changed: a protection or a claim
    #: ends, somebody has starved for long enough. For ``Memo.until``; None: never.
    until: int | None = None

    def no_later_than(self, second: int | None) -> None:
        """The answer may be another from that second on."""
        if second is not None:
            self.until = second if self.until is None else min(self.until, second)


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """Pods of one shape for which nobody could go."""

    queue: QueueName
    nodes: NodeFilter
    takes: Resources
    count: int
    priority: int
    #: Waited long, so that others may be brought below their shares.
    long: bool

    def asks_no_less_than(self, other: "FailedRequest") -> bool:
        """Whether the other's failing tells that this one fails too."""
        return (
            self.nodes == other.nodes
            and self.count >= other.count
            and self.priority <= other.priority
            and self.long <= other.long
            and all(units <= self.takes.get(name) for name, units in other.takes.items())
        )


class PreemptionContext:
    """The worlds of one turn, made when they are first needed."""

    def __init__(
        self,
        snapshot: Snapshot,
        held: HeldClaims,
        prospects: PreemptionProspects,
        room: PreemptionResult,
        parts: Mapping[AdmissionId, HeldAdmission],
    ) -> None:
        self.snapshot = snapshot
        self.held = held
        self.prospects = prospects
        self.trial = prospects.trial
        self.room = room
        self._parts = parts
        #: Admissions taken back in this turn so far.
        self.gone: set[AdmissionId] = set()
        self._later: Trial | None = None
        self._herd: VictimCandidates | None = None
        self._roll: CandidateArrays | None = None
        #: For whom nobody could go, by queue.
        self.failures: dict[QueueName, list[FailedRequest]] = {}

    @property
    def later(self) -> Trial:
        """The world when all that leaves is gone, and every claim is used."""
        if self._later is None:
            self._later = self.held.after_draining(self.trial)
        return self._later

    @property
    def herd(self) -> VictimCandidates:
        """Who may be taken back."""
        if self._herd is None:
            self._herd = victim_candidates(self.snapshot, self.trial.tree, self._parts)
            self.room.no_later_than(self._herd.until)
        return self._herd

    @property
    def roll(self) -> CandidateArrays:
        """The same as arrays."""
        if self._roll is None:
            self._roll = CandidateArrays(self.herd, self.later)
        return self._roll

    @cached_property
    def has_singles(self) -> bool:
        """Whether any admission is a single pod, or one of its pods is all that has not ended: a quick look."""
        ended = self.snapshot.ended
        return any(len(part.seats) - len(ended.get(number, ())) == 1 for number, part in self._parts.items())

    def in_vain(self, failure: "FailedRequest") -> bool:
        """Whether somebody of the same queue and rights who asked no more got nothing in this turn."""
        return any(failure.asks_no_less_than(other) for other in self.failures.get(failure.queue, ()))

    def name_of(self, number: AdmissionId) -> str:
        """Whose admission it is."""
        admission = self.snapshot.admissions[number]
        return f"{admission.workload.kind}/{admission.namespace}/{admission.name}"

    def promise(self, workload: Workload, taken: Sequence[Victim], seats: tuple[Seat, ...]) -> None:
        """These are taken back, and the seats are kept for the one it is done for."""
        parts = [(part.admission.id, each) for each in taken for part in each.parts]
        for number, each in parts:
            message, facts = each.why
            self.room.evicts.append(
                Evict(
                    admission=number,
                    code=each.rule.code,
                    message=message,
                    beneficiary=workload.key,
                    facts=facts,
                )
            )
        self.gone.update(number for number, _ in parts)
        self.roll.left([number for number, _ in parts])
        self.room.claims.append(
            Claim(
                workload=workload.key,
                queue=workload.queue,
                generation=workload.generation,
                seats=seats,
                victims=tuple(sorted(number for number, _ in parts)),
                until=self.snapshot.now + CLAIM_SECONDS,
            )
        )
        self.room.reasons[workload.key] = reasons.making_room(
            pods=sum(len(part.seats) for each in taken for part in each.parts),
            names=[str(each.unit.workload) for each in taken],
        )

    def give_up(self, claim: Claim) -> None:
        """All of it is free and the beneficiary does not fit: the place is not what it was."""
        if self._later is not None:
            books, ports = charges(claim.seats), self.held.ports.get(claim.workload, ())
            self._later.remove_seats(claim.queue, books, claim.seats, ports)
        self.held.drop(claim.workload, self.trial)
