"""Kueue's fair sharing (KEP-1714), which the product does not offer: its cases check the choice of victims too.

Two queues that both use more than they deserve are compared by how much more.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

from admission.engine.preemption.candidates import Candidate
from admission.engine.preemption.rules import EvictionRule, PreemptionRights, QueuePair
from admission.engine.preemption.victim_set import Victim, VictimSet
from queues.quota.accounts import Account
from queues.quota.usage import Usage
from queues.workload import NO_FLAVOR, QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRule:
    """Reclaim between queues that both use more than they deserve, by how much more."""

    #: The victim's side exceeds it by at least as much as the beneficiary's side, after the eviction.
    final: bool = True
    #: The victim's side exceeded it by more before. Together with ``final``: for one victim of each queue.
    initial: bool = True


class ExcessShare(NamedTuple):
    """How far a queue is above what it deserves; greater is farther."""

    #: It borrows and has no weight: above every queue that has one.
    weightless: bool
    #: Largest over resources: borrowed ÷ what the parent can lend ÷ weight of the queue.
    share: Fraction


def excess_share(usage: Usage, queue: QueueName, more: Mapping[Account, int]) -> ExcessShare:
    """How far a queue is above what it deserves when it uses so much more."""
    tree = usage.tree
    weight = tree.queues[queue].weight
    parent = tree.paths[queue][1]
    largest = Fraction(0)
    used = {*usage.book(queue), *more}
    for resource in sorted({account.resource for account in used}):
        borrowed = sum(
            max(0, usage.counted(queue, each) + more.get(each, 0) - tree.deserved(queue, each))
            for each in _accounts_of(resource, used)
        )
        if borrowed > 0:
            largest = max(largest, Fraction(borrowed, max(1, _lendable(usage, parent, resource))))
    if weight <= 0:
        return ExcessShare(largest > 0, largest)
    return ExcessShare(False, largest / weight)


def _lendable(usage: Usage, queue: QueueName, resource: str) -> int:
    """What a queue deserves of a resource, over all flavors, less the guarantees below it, which are never lent."""
    tree = usage.tree
    return sum(
        tree.deserved(queue, each) - tree.idle[queue].get(each, 0)
        for each in _accounts_of(resource, tree.own_deserved[queue])
    )


def _accounts_of(resource: str, accounts: Iterable[Account]) -> list[Account]:
    """The accounts of a resource by flavor; the one over all flavors where none is by flavor."""
    flavored = [each for each in accounts if each.resource == resource and each.flavor != NO_FLAVOR]
    return flavored or [Account(NO_FLAVOR, resource)]


@dataclass(eq=False)
class FairSharingRights(PreemptionRights):
    """What a beneficiary may take where shares are compared."""

    #: None: they are not.
    share_rule: ShareRule | None = None
    #: The last answer of ``rule`` rests on ``ShareRule.initial`` alone.
    by_initial_share: bool = False
    #: Number of victims of a queue that were taken by ``ShareRule.initial`` alone.
    initial_share_victims: Callable[[QueueName], int] = field(default=lambda queue: 0)

    def rule(self, candidate: Candidate) -> EvictionRule | None:
        self.by_initial_share = False
        return super().rule(candidate)

    def _may_reclaim(self, pair: QueuePair, candidate: Candidate) -> bool:
        if super()._may_reclaim(pair, candidate):
            return True
        policy = self.usage.tree.policy(self.workload.queue)
        lower = candidate.priority < self.workload.priority
        if self.share_rule is None or policy.reclaim == "never":
            return False
        return (policy.reclaim != "lower-priority" or lower) and self._may_reclaim_by_share(
            self.share_rule, pair, candidate
        )

    def _may_reclaim_by_share(self, rule: ShareRule, pair: QueuePair, candidate: Candidate) -> bool:
        """True if the victim's side is farther above what it deserves than the beneficiary's side will be."""
        mine, theirs = pair.beneficiary_side[-1], pair.victim_side[-1]
        after = excess_share(self.usage, mine, self._added_to_last(pair.beneficiary_side, self.asked))
        freed = {account: -candidate.charged(account) for account in self.asked}
        if rule.final and after <= excess_share(
            self.usage, theirs, self._added_to_last(pair.victim_side, freed)
        ):
            return True
        spent = rule.final and self.initial_share_victims(candidate.queue) > 0
        self.by_initial_share = rule.initial and not spent and after < excess_share(self.usage, theirs, {})
        return self.by_initial_share

    def _added_to_last(self, side: Sequence[QueueName], more: Mapping[Account, int]) -> Mapping[Account, int]:
        """What the last queue of a side counts more when the first one uses more."""
        for name in side[:-1]:
            more = self._added_above(name, more)
        return more


@dataclass(eq=False)
class FairSharingVictims(VictimSet):
    """Victims taken by their shares after the eviction first, then by their shares before (Kueue's two strategies)."""

    rights: FairSharingRights
    #: Every victim so far, by identity, and whether ``ShareRule.initial`` alone allowed it.
    _known: dict[int, tuple[Victim, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rights.initial_share_victims = lambda queue: sum(
            self._known[id(each)][1] for each in self.victims if each.candidate.queue == queue
        )

    def _enter(self, victim: Victim) -> None:
        self._known.setdefault(id(victim), (victim, self.rights.by_initial_share))
        super()._enter(victim)

    def _may_borrow_from(self, queue: QueueName) -> bool:
        return self.rights.share_rule is not None or super()._may_borrow_from(queue)

    def take_until_fits(self, candidates: Sequence[Candidate]) -> bool:
        share_rule = self.rights.share_rule
        if self.fits() or share_rule is None or not (share_rule.final and share_rule.initial):
            return super().take_until_fits(candidates)
        for in_order in (self._take_once, super().take_until_fits):
            self.rights.share_rule = replace(share_rule, initial=False)
            fits = in_order(candidates)
            self.rights.share_rule = share_rule
            if fits or self._take_one_of_each_queue(candidates):
                return True
            self.put_all_back()
        return False

    def _take_once(self, candidates: Sequence[Candidate]) -> bool:
        """As ``VictimSet.take_until_fits``, but no candidate is asked again."""
        for candidate in candidates:
            if self._helps(candidate) and not self.has(candidate) and self.take(candidate) and self.fits():
                return True
        return False

    def _take_one_of_each_queue(self, candidates: Sequence[Candidate]) -> bool:
        """Take the first candidate of each queue, of the queue farthest above what it deserves first."""
        first: dict[QueueName, Candidate] = {}
        for candidate in sorted(candidates, key=lambda each: each.sort_key[2:]):  # whatever its cost
            if self._helps(candidate) and not self.has(candidate):
                first.setdefault(candidate.queue, candidate)
        while first:
            queue = max(first, key=lambda queue: (self._excess_share(queue), queue))
            if self.take(first.pop(queue)) and self.fits():
                return True
        return False

    def _excess_share(self, queue: QueueName) -> ExcessShare:
        """How far the victim's side of the common ancestor is above what it deserves."""
        pair = self.rights.pair(queue)
        return excess_share(self.rights.usage, pair.victim_side[-1] if pair is not None else queue, {})
