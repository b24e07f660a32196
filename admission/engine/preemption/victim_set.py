"""The set of victims: candidates are taken until the beneficiary fits, then unneeded ones are put back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from admission.engine.preemption.candidate_arrays import CandidateArrays
from admission.engine.preemption.candidates import (
    Candidate,
    HeldAdmission,
    SortKey,
    VictimCandidates,
    most_alike,
)
from admission.engine.preemption.node_gains import NodeGains
from admission.engine.preemption.rules import EvictionReason, EvictionRule, PreemptionRights
from admission.engine.trial import Trial
from queues.workload import AdmissionId, QueueName


@dataclass(slots=True, eq=False)
class Victim:
    """A candidate that is taken."""

    candidate: Candidate
    rule: EvictionRule
    #: Its admissions that were not evicted for another beneficiary before.
    admissions: tuple[HeldAdmission, ...]
    reason: EvictionReason

    @property
    def pods(self) -> int:
        """Pods that are evicted with it."""
        return sum(len(held.seats) for held in self.admissions)


class VictimCost(NamedTuple):
    """What a set of victims costs."""

    lost_work: int
    #: Units that it frees of what the beneficiary counts as idle (``rules.idle_accounts``).
    freed: int
    victims: int


class FoundSet(NamedTuple):
    """Victims that are enough for the beneficiary."""

    cost: VictimCost
    victims: Sequence[Victim]


def best_of(found: Sequence[FoundSet]) -> FoundSet:
    """Of the sets whose lost work is about equal to the least, the one that frees least: fewer devices idle then."""
    most = most_alike(min(each.cost.lost_work for each in found))
    return min(
        (each for each in found if each.cost.lost_work <= most),
        key=lambda each: (each.cost.freed, each.cost.lost_work, each.cost.victims),
    )


@dataclass(slots=True, eq=False)
class VictimSet:
    """Victims taken out of a trial so far; all can be put back."""

    trial: Trial
    candidates: VictimCandidates
    rights: PreemptionRights
    #: Whether the beneficiary fits the trial as it is. Leaves the trial unchanged.
    fits: Callable[[], bool]
    #: Admissions evicted for other beneficiaries in this turn. Admissions of ``victims`` are added.
    evicted: set[AdmissionId] = field(default_factory=set)
    victims: list[Victim] = field(default_factory=list)
    _reasons: dict[tuple[EvictionRule, QueueName], EvictionReason] = field(default_factory=dict)

    def take(self, candidate: Candidate) -> bool:
        """Make a candidate a victim if rules and disruption budgets allow it now."""
        workload, queue = candidate.workload, candidate.queue
        left = tuple(held for held in candidate.admissions if held.admission.id not in self.evicted)
        if not left:
            return False
        rule = self.rights.rule(candidate)
        pods = sum(len(held.seats) for held in left)
        if rule is None:
            return False
        lent = rule is EvictionRule.RECLAIMED and workload.key in self.candidates.beyond_budgets
        if (keeping := self.candidates.keeping(workload.key, pods)) and not lent:
            return False
        self.candidates.disrupt(workload.key, pods)
        reason = self._reasons.get((rule, queue))
        if reason is None:
            reason = self._reasons[rule, queue] = self.rights.reason(rule, queue)
        if keeping:
            reason = reason.beyond(keeping)
        elastic: list[Victim] = []
        if candidate.whole and len(candidate.admissions) > 1:
            elastic = [each for each in self.victims if each.candidate.workload is workload]
        for victim in elastic:  # elastic parts that were taken alone belong to the whole gang now
            self.victims.remove(victim)
        self._give_back(queue, left)
        every = (*(held for victim in elastic for held in victim.admissions), *left)
        self._enter(Victim(candidate, rule, every, reason))
        return True

    def has(self, candidate: Candidate) -> bool:
        """True if all of a candidate is evicted."""
        return all(held.admission.id in self.evicted for held in candidate.admissions)

    def _enter(self, victim: Victim) -> None:
        self.victims.append(victim)
        self.evicted.update(held.admission.id for held in victim.admissions)

    def _give_back(self, queue: QueueName, admissions: Sequence[HeldAdmission]) -> None:
        for held in admissions:
            self.trial.remove_seats(queue, held.charges, held.seats, held.ports)

    def put_back(self, victim: Victim) -> None:
        """Take a victim out of the set: it is not evicted."""
        candidate = victim.candidate
        self.victims.remove(victim)
        for held in victim.admissions:
            self.trial.remove_seats(candidate.queue, held.charges, held.seats, held.ports, times=-1)
            self.evicted.discard(held.admission.id)
        self.candidates.disrupt(candidate.workload.key, victim.pods, times=-1)

    def take_again(self, victim: Victim) -> None:
        """Undo ``put_back``."""
        self._give_back(victim.candidate.queue, victim.admissions)
        self.candidates.disrupt(victim.candidate.workload.key, victim.pods)
        self._enter(victim)

    def put_all_back(self) -> None:
        """Undo everything since the first victim was taken."""
        for victim in reversed(list(self.victims)):
            self.put_back(victim)

    def take_until_fits(self, candidates: Sequence[Candidate]) -> bool:
        """Take candidates in this order until the beneficiary fits. False: it does not, and some may be taken.

        A candidate that was not allowed at first is asked again when others are gone.
        """
        if self.fits():
            return True
        own, progress = self.rights.workload.queue, True
        while progress:
            progress, refused = False, dict[QueueName, Candidate]()
            for candidate in candidates:
                if not self._helps(candidate) or self.has(candidate):
                    continue
                if not self.take(candidate):
                    refused.setdefault(candidate.queue, candidate)
                    continue
                progress = True
                if self.fits():
                    return True
                if candidate.queue == own and any(self.rights.rule(each) for each in refused.values()):
                    break  # the own queue has room in what it deserves now: start again with the first
        return False

    def take_cheapest(self, candidates: Sequence[Candidate]) -> bool:
        """Take victims in several orders, put back what each does not need, and keep the best set."""
        own = self.rights.workload.queue
        keys: tuple[Callable[[Candidate], tuple[object, SortKey]], ...] = (
            lambda each: (each.queue != own, each.sort_key),
            lambda each: (each.queue == own, each.sort_key),
            lambda each: (-each.size, each.sort_key),
            lambda each: (each.priority, each.sort_key),
        )
        found: list[FoundSet] = []
        for in_order in (candidates, *(sorted(candidates, key=key) for key in keys)):
            if self.take_until_fits(in_order):
                self.put_back_unneeded()
                found.append(self.found())
            self.put_all_back()
        if found:
            self.take_best(found)
        return bool(found)

    def found(self) -> FoundSet:
        """The victims that are taken now."""
        victims, accounts = list(self.victims), self.rights.idle_accounts
        return FoundSet(
            VictimCost(
                sum(each.candidate.cost for each in victims),
                sum(each.candidate.charged_in(accounts) for each in victims),
                len(victims),
            ),
            victims,
        )

    def take_best(self, found: Sequence[FoundSet]) -> None:
        """Take the best of these sets in place of what is taken now."""
        self.put_all_back()
        for victim in best_of(found).victims:
            self.take_again(victim)

    def _helps(self, candidate: Candidate) -> bool:
        """True if a candidate is charged anything that is asked."""
        return any(
            held.charges.get(account) for held in candidate.admissions for account in self.rights.asked
        )

    def put_back_unneeded(self, needed: Callable[[Sequence[Victim]], Sequence[bool]] | None = None) -> None:
        """Put back every victim without which the beneficiary fits as well, the dearest first.

        ``needed``: says quickly which of the victims are certainly needed. None if each is tried.
        """
        victims = sorted(self.victims, key=lambda each: each.candidate.sort_key, reverse=True)
        while victims:
            certain = needed(victims) if needed is not None else [False] * len(victims)
            rest = iter(list(zip(victims, certain, strict=True)))
            for victim in (each for each, is_needed in rest if not is_needed):
                self.put_back(victim)
                if self._still_allowed() and self.fits():
                    break
                self.take_again(victim)
            victims = [each for each, _ in rest]

    def _still_allowed(self) -> bool:
        """True if victims of other queues are allowed still, though one of the own queue was put back."""
        rights = self.rights
        for queue in {each.candidate.queue for each in self.victims if each.rule is EvictionRule.RECLAIMED}:
            pair = rights.pair(queue)
            if pair is not None and not (
                rights.within_deserved(pair.beneficiary_side) or self._may_borrow_from(queue)
            ):
                return False
        return True

    def _may_borrow_from(self, queue: QueueName) -> bool:
        """True if the victims of a queue are allowed though the beneficiary's side exceeds what it deserves."""
        rights = self.rights
        most = rights.usage.tree.policy(rights.workload.queue).borrow_max_priority
        return most is not None and all(
            each.candidate.priority <= most and each.candidate.priority < rights.workload.priority
            for each in self.victims
            if each.candidate.queue == queue
        )


def take_gains(victim_set: VictimSet, gains: NodeGains, pods: int, arrays: CandidateArrays) -> bool:
    """Take the victims of step after step until so many pods more have room. A step is taken whole or not at all."""
    for step in range(len(gains)):
        if pods <= 0:
            break
        before = len(victim_set.victims)
        indices = gains.candidates[gains.begins[step] : gains.ends[step]].tolist()
        candidates = [arrays.candidates[index] for index in indices]
        if all(victim_set.has(each) or victim_set.take(each) for each in candidates):
            pods -= int(gains.pods[step])
            continue
        for victim in reversed(victim_set.victims[before:]):
            victim_set.put_back(victim)
    return pods <= 0
