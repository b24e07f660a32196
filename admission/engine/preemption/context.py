"""What one turn of preemption works on and brings about: the drained world, the candidates, evictions and claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from admission.engine import reasons
from admission.engine.claims import HeldClaims
from admission.engine.pending.waiting_time import soonest
from admission.engine.preemption.candidate_arrays import CandidateArrays
from admission.engine.preemption.candidates import VictimCandidates
from admission.engine.preemption.pruning import PreemptionProspects
from admission.engine.preemption.running import RunningWorkloads
from admission.engine.preemption.victim_set import Victim, VictimSet
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.admissions import Claim, Seat
from queues.plan import Evict, Reason
from queues.quota.accounts import Account, charges
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, NodeName, PodSet, QueueName, Workload, WorkloadKey

#: A claim is given up after so many seconds if its beneficiary was not admitted.
CLAIM_SECONDS = 600


@dataclass(slots=True, eq=False)
class PreemptionResult:
    """Evictions and claims of a turn."""

    evicts: list[Evict] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    #: Better reasons of beneficiaries that wait for their victims now.
    reasons: dict[WorkloadKey, Reason] = field(default_factory=dict)
    #: From this second on the result may be another though nothing else changed: a protection or a claim ends, a
    #: gang has starved for long enough. For ``Memo.until``; None if never.
    until: int | None = None


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """Pods of one shape for which no candidate could be evicted."""

    pods: PodSet
    count: int
    priority: int
    #: Waited so long that other queues may be brought below what they deserve.
    waited_long: bool

    def asks_no_less_than(self, other: "FailedRequest") -> bool:
        """True if this request must fail because the other one, of the same queue, failed."""
        return (
            self.pods.nodes == other.pods.nodes
            and self.count >= other.count
            and self.priority <= other.priority
            and self.waited_long <= other.waited_long
            and all(units <= self.pods.takes.get(name) for name, units in other.pods.takes.items())
        )


class PreemptionContext:
    """What the searches for victims of one turn share; costly things are made when they are first needed."""

    def __init__(
        self,
        snapshot: Snapshot,
        held_claims: HeldClaims,
        prospects: PreemptionProspects,
        running: RunningWorkloads,
    ) -> None:
        self.snapshot = snapshot
        self.held_claims = held_claims
        self.prospects = prospects
        self.trial = prospects.trial
        self.result = PreemptionResult()
        self._running = running
        #: Admissions evicted in this turn so far.
        self.evicted: set[AdmissionId] = set()
        #: Requests that failed in this turn: those that ask no less, of the same queue, are spared the search.
        self.failed: dict[QueueName, list[FailedRequest]] = {}
        #: Victims of this turn free more than its beneficiaries take.
        self.frees_more = False
        #: Workloads for which space is kept since this turn.
        self._claimed: set[WorkloadKey] = set()

    @cached_property
    def drained(self) -> Trial:
        """The world when everything that leaves is gone and every claim is used. Victims are chosen in it."""
        return self.held_claims.after_draining(self.trial)

    @cached_property
    def candidates(self) -> VictimCandidates:
        """Candidates that may be evicted now."""
        found = self._running.candidates(self.snapshot, self.drained.usage)
        self.revisit_at(found.until)
        return found

    @cached_property
    def arrays(self) -> CandidateArrays:
        """The candidates as arrays."""
        return CandidateArrays(self.candidates, self.drained)

    def revisit_at(self, second: int | None) -> None:
        """Say that the result may be another from a second on. None if it may not."""
        self.result.until = soonest(self.result.until, second)

    def name_of(self, number: AdmissionId) -> str:
        """Name of the workload of an admission."""
        admission = self.snapshot.admissions[number]
        return f"{admission.workload.kind}/{admission.namespace}/{admission.name}"

    def evict_and_claim(self, chosen: VictimSet, seats: tuple[Seat, ...]) -> None:
        """Evict the victims and keep the seats for the beneficiary."""
        workload, victims = chosen.rights.workload, chosen.victims
        evicted = [(held.admission.id, victim) for victim in victims for held in victim.admissions]
        part = _part_taken(victims, seats, chosen.rights.idle_accounts[0])
        self.frees_more |= bool(part)
        for number, victim in evicted:
            message, facts = victim.reason.taking(part)
            self.result.evicts.append(
                Evict(
                    admission=number,
                    code=ReasonCode(victim.rule),
                    message=message,
                    beneficiary=workload.key,
                    elastic=not victim.candidate.whole,
                    facts=facts,
                )
            )
        numbers = [number for number, _ in evicted]
        self.evicted.update(numbers)
        self.arrays.mark_evicted(numbers)
        self._claim(workload, seats, charges(seats), numbers)
        self.result.reasons[workload.key] = reasons.making_room(
            pods=sum(victim.pods for victim in victims),
            names=[str(victim.candidate.workload) for victim in victims],
        )

    def claim_freed(self, workload: Workload, seats: tuple[Seat, ...]) -> bool:
        """Keep seats that were taken in the drained world, if this turn's evictions free them. False: they do not.

        The place may be on nodes of the victims, or the quota theirs.
        """
        nodes = {seat.node for seat in seats}
        victims = [
            number
            for number in self.evicted
            if any(seat.node in nodes for seat in self.snapshot.still_held(self.snapshot.admissions[number]))
        ]
        asked = charges(seats)
        if not victims and self.trial.usage.refusal(workload.queue, asked) is not None:
            victims = [*self.evicted]
        if victims:
            admissions = (self.snapshot.admissions[number] for number in victims)
            self._claim(workload, seats, asked, victims)
            self.result.reasons[workload.key] = reasons.making_room(
                pods=sum(len(self.snapshot.still_held(admission)) for admission in admissions),
                names=[self.name_of(number) for number in victims],
            )
        return bool(victims)

    def _claim(
        self,
        workload: Workload,
        seats: tuple[Seat, ...],
        asked: Mapping[Account, int],
        victims: Sequence[AdmissionId],
    ) -> None:
        self.result.claims.append(
            Claim(
                workload=workload.key,
                queue=workload.queue,
                generation=workload.generation,
                seats=seats,
                victims=tuple(sorted(victims)),
                until=self.snapshot.now + CLAIM_SECONDS,
            )
        )
        self._claimed.add(workload.key)
        self.drained.post_to_user(workload.queue, workload.user, asked)

    def has_new_claim(self, workload: Workload) -> bool:
        """Whether space is kept for a workload since this turn."""
        return workload.key in self._claimed

    def freed_seats(self) -> list[Seat]:
        """Seats of all that is evicted in this turn so far."""
        admissions = (self.snapshot.admissions[number] for number in sorted(self.evicted))
        return [seat for admission in admissions for seat in self.snapshot.still_held(admission)]

    def give_up(self, claim: Claim) -> None:
        """Drop a claim if its beneficiary was refused though all victims are gone: the nodes have changed."""
        ports = self.held_claims.ports.get(claim.workload, ())
        self.drained.remove_seats(claim.queue, charges(claim.seats), claim.seats, ports)
        self.held_claims.drop(claim.workload, self.trial)


def _part_taken(victims: Sequence[Victim], seats: Sequence[Seat], account: Account) -> str:
    """What these seats take of what victims free, counted in this account; "": all of it."""
    resource, total, used = account.resource, 0, 0
    freed: dict[NodeName, int] = {}
    for victim in victims:
        for held in victim.admissions:
            for seat in held.seats:
                units = seat.takes.get(resource)
                freed[seat.node] = freed.get(seat.node, 0) + units
                total += units
    for seat in seats:
        left = freed.get(seat.node, 0)
        units = min(left, seat.takes.get(resource))
        freed[seat.node] = left - units
        used += units
    return "" if used >= total else f"{account.show(used)} of {account.amount(total)}"
