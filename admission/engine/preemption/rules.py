"""The rules of preemption: which ``EvictionRule``, if any, lets a beneficiary take a candidate.

- Inside a queue the higher priority *preempts* (``preemption.withinQueue``).
- Between queues lent quota is *reclaimed* (``preemption.reclaim``). What counts is below the lowest common ancestor
  of the two queues: some queue on the beneficiary's side must have room in what it deserves for what is asked, and
  every queue on the victim's side must use more than it deserves. So lent quota comes back however far up the tree
  it was lent from.
- For a gang that starves a place is *cleared* (``starvation.clearAfter``): of single, smaller pods of no higher
  priority, in any queue. Else a gang larger than what its queue deserves would wait for ever next to small work.

Priorities are those that count in the queue of each workload (``QueueTree.counted_priority``). Candidates that are
wholly protected (``protection``) are never asked about.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from admission.engine.placement.need import is_extended_resource, size_of
from admission.engine.preemption.candidates import Candidate
from admission.engine.preemption.protection import NEVER
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.quota.usage import Usage
from queues.reason_codes import ReasonCode
from queues.resources import CPU
from queues.text_format import listed
from queues.workload import NO_FLAVOR, QueueName, Workload


class EvictionRule(StrEnum):
    """The rules by which a victim may be evicted."""

    #: A more urgent workload of the same queue takes its place.
    PREEMPTED = ReasonCode.PREEMPTED.value
    #: The beneficiary's queue gets back what it deserves and had lent.
    RECLAIMED = ReasonCode.RECLAIMED.value
    #: The place is cleared for a gang that waited too long.
    CLEARED = ReasonCode.CLEARED.value


class ReclaimDepth(StrEnum):
    """How far one victim may bring the queues on its side below what they deserve."""

    NEVER = "never"
    #: Not farther below it than they were above it.
    NO_FARTHER = "no-farther"
    ANY = "any"


class EvictionReason(NamedTuple):
    """What Muster says to the owner of a victim."""

    message: str
    #: The numbers of the message, as they were before the eviction.
    facts: dict[str, Any]

    def beyond(self, budgets: Sequence[str]) -> "EvictionReason":
        """The reason of a victim that these disruption budgets have kept on lent quota for as long as they may."""
        message = f"{self.message}; PodDisruptionBudget {listed(budgets)} keeps lent quota no longer"
        return EvictionReason(message, {**self.facts, "budgets": list(budgets)})

    def taking(self, part: str) -> "EvictionReason":
        """The reason of victims if the beneficiary takes only a part, as ``8 of 32 nvidia.com/gpu``; "": all."""
        if not part:
            return self
        # Without the amounts: a user who asks what would be evicted may not see what others use.
        message = f"{self.message}; it takes a part of what is freed, and the next that fit the rest"
        return EvictionReason(message, {**self.facts, "takes": part})


@dataclass(frozen=True, slots=True)
class QueuePair:
    """The queues below the lowest common ancestor of beneficiary and victim, from the leaf upwards."""

    beneficiary_side: tuple[QueueName, ...]
    victim_side: tuple[QueueName, ...]
    #: No queue on the victim's side forbids it (``reclaimable: false``).
    reclaimable: bool

    def lenders(self, usage: Usage, accounts: Iterable[Account] | None = None) -> Sequence[QueueName]:
        """The queues on the victim's side that have to be above what they deserve.

        These are all, or those down to one that idle nodes, kept for it, bring above what it deserves: the queues below
        it all answer for what is kept. ``accounts``: those that are looked at; None for all.
        """
        found: list[QueueName] = []
        for name in reversed(self.victim_side):
            found.append(name)
            if usage.is_kept_beyond_deserved(name, accounts):
                break
        return found


@dataclass(slots=True, eq=False)
class PreemptionRights:
    """What one beneficiary may take, by usage as it changes while victims are chosen."""

    workload: Workload
    usage: Usage
    #: What the beneficiary asks, by account, as far as it is limited or scarce.
    asked: Mapping[Account, int]
    #: Size of the beneficiary, in the measure of ``Candidate.size``.
    size: int
    #: The beneficiary is a gang that waited long enough to have a place cleared.
    starved: bool = False
    #: The second since which it waits, if it has waited long: what started later keeps nothing from it by its age.
    owed_since: int = NEVER
    depth: ReclaimDepth = ReclaimDepth.NEVER
    #: What is counted of what victims leave idle.
    idle_accounts: tuple[Account, ...] = ()
    _pairs: dict[QueueName, QueuePair | None] = field(default_factory=dict)

    def rule(self, candidate: Candidate) -> EvictionRule | None:
        """The rule by which a candidate may be evicted as usage is now. None if it may not."""
        if candidate.workload.key == self.workload.key:
            return None
        if candidate.queue == self.workload.queue:
            return self._rule_in_queue(candidate)
        pair = self.pair(candidate.queue)
        if pair is None or not pair.reclaimable:
            return None
        if (
            not candidate.keeps_quota
            and (not (candidate.rests and candidate.whole) or candidate.started > self.owed_since)
            and (not candidate.keeps_for_a_time or self.is_owed(pair.beneficiary_side))
            and self._is_lent(pair, candidate)
            and self._may_reclaim(pair, candidate)
        ):
            return EvictionRule.RECLAIMED
        return EvictionRule.CLEARED if self._may_clear(candidate) else None

    def reason(self, rule: EvictionRule, victim_queue: QueueName) -> EvictionReason:
        """What Muster says to the owner of a victim in that queue, by usage before the eviction."""
        usage, tree, queue = self.usage, self.usage.tree, self.workload.queue
        facts: dict[str, Any] = {
            "rule": str(rule),
            "for": str(self.workload),
            "queue": queue,
            "victimQueue": victim_queue,
        }
        cleared = f"its place is cleared for {self.workload}, which waited too long"
        pair = self.pair(victim_queue) if victim_queue != queue else None
        if rule is EvictionRule.PREEMPTED or pair is None:
            priority = self.workload.priority
            facts |= {"priority": priority}
            if rule is EvictionRule.CLEARED:
                return EvictionReason(cleared, facts)
            return EvictionReason(
                f"{self.workload} of the same queue is more urgent (priority {priority})", facts
            )
        account = next(iter(self.asked))
        sides = {}
        for side, name in (("owner", pair.beneficiary_side[-1]), ("above", pair.victim_side[-1])):
            used, deserved = usage.used(name, account), tree.deserved(name, account)
            facts[side] = {"queue": name, "resource": account.resource, "used": used, "deserved": deserved}
            kept = usage.counted(name, account) - used
            besides = f" (besides {account.show(kept)} kept for queues below it)" if kept > 0 else ""
            if reserved := usage.kept(name, account):
                facts[side]["reserved"] = reserved
                besides = f" ({account.show(reserved)} of it idle nodes that it has reserved){besides}"
            sides[side] = (
                f"queue {name} uses {account.show(used)} {account}{besides}"
                f" and deserves {account.show(deserved)}"
            )
        shares = f"{sides['above']}, {sides['owner']}"
        if rule is EvictionRule.CLEARED:
            return EvictionReason(f"{cleared}: {shares}", facts)
        return EvictionReason(f"reclaimed for {self.workload}: {shares}", facts)

    def _rule_in_queue(self, candidate: Candidate) -> EvictionRule | None:
        if candidate.protected_in_queue or candidate.rests:
            return None
        if self._may_preempt(candidate):
            return EvictionRule.PREEMPTED
        return EvictionRule.CLEARED if self._may_clear(candidate) else None

    def _may_preempt(self, candidate: Candidate) -> bool:
        """True if the policy lets the beneficiary preempt a candidate of its own queue."""
        policy = self.usage.tree.policy(self.workload.queue).within_queue
        if policy == "never":
            return False
        if candidate.priority < self.workload.priority:
            return True
        newer = candidate.workload.arrival > self.workload.arrival
        return policy == "lower-or-newer-equal" and candidate.priority == self.workload.priority and newer

    def _may_reclaim(self, pair: QueuePair, candidate: Candidate) -> bool:
        """True if the beneficiary's side has a right to what a candidate of another queue was lent."""
        policy = self.usage.tree.policy(self.workload.queue)
        lower = candidate.priority < self.workload.priority
        if policy.reclaim == "never" or (policy.reclaim == "lower-priority" and not lower):
            return False
        if self.within_deserved(pair.beneficiary_side):
            return True
        most = policy.borrow_max_priority
        return most is not None and lower and candidate.priority <= most

    def within_deserved(
        self, side: Iterable[QueueName], gone: Mapping[Account, int] = MappingProxyType({})
    ) -> bool:
        """True if a queue on the beneficiary's side has room in what it deserves for all that is asked.

        ``gone``: what else its own queue could give back. Then False is certain, and True is not: of idle guarantees
        more may be used.
        """
        usage, tree = self.usage, self.usage.tree
        asked = self.asked
        for name in side:
            for account, units in asked.items():
                counted = usage.counted(name, account) - gone.get(account, 0)
                if counted + units > tree.deserved(name, account):
                    break
            else:
                return True
            asked = self._added_above(name, asked)
        return False

    def is_owed(self, side: Sequence[QueueName]) -> bool:
        """True if what gangs of other queues keep because they had waited is not kept from the beneficiary.

        It is a gang that has waited for as long, and the queue below the common ancestor uses nothing of what is asked.
        """
        if not self.starved or not side:
            return False
        return uses_nothing(self.usage, side[-1], self.asked)

    def _added_above(self, queue: QueueName, more: Mapping[Account, int]) -> Mapping[Account, int]:
        """What the parent counts more when a queue uses more: idle guarantees go first."""
        guarantee = self.usage.tree.guarantees[queue]
        if not guarantee:
            return more
        added = {}
        for account, units in more.items():
            counted, least = self.usage.counted(queue, account), guarantee.get(account, 0)
            added[account] = max(counted + units, least) - max(counted, least)
        return added

    def _is_lent(self, pair: QueuePair, candidate: Candidate) -> bool:
        """True if every lender on the victim's side uses more than it deserves, as far as the depth asks for.

        More of one account that is asked is enough. Idle guarantees below such a queue count as used: they are
        not lent.
        """
        usage, tree = self.usage, self.usage.tree
        for name in pair.lenders(usage, self.asked):
            exceeds = False
            for account in self.asked:
                excess = usage.counted(name, account) - tree.deserved(name, account)
                if excess > 0:
                    exceeds = True
                    if self.depth is not ReclaimDepth.ANY:
                        most = excess if self.depth is ReclaimDepth.NEVER else 2 * excess
                        if candidate.charged(account) > most:
                            return False
            if not exceeds:
                return False
        return True

    def _may_clear(self, candidate: Candidate) -> bool:
        """True if the place of a candidate may be cleared for the gang."""
        # Single pods never have a place cleared, so no two workloads can clear each other's place in turns.
        if not self.starved or candidate.rests or candidate.pods > 1 or candidate.size >= self.size:
            return False
        if candidate.priority != self.workload.priority or candidate.queue != self.workload.queue:
            return candidate.priority <= self.workload.priority
        # Where newer equals are preempted, an older one would take the place back, and so on in turns.
        return self.usage.tree.policy(self.workload.queue).within_queue != "lower-or-newer-equal"

    def pair(self, other: QueueName) -> QueuePair | None:
        """The queues on both sides between the beneficiary's queue and another one.

        None if the other queue is not in the tree, or if one of the two is above the other.
        """
        if other not in self._pairs:
            self._pairs[other] = self._find_pair(other)
        return self._pairs[other]

    def _find_pair(self, other: QueueName) -> QueuePair | None:
        tree = self.usage.tree
        if other not in tree.paths or other == ROOT:
            return None
        mine, theirs = tree.paths[self.workload.queue], tree.paths[other]
        beneficiary_side = tuple(name for name in mine if name not in theirs)
        victim_side = tuple(name for name in theirs if name not in mine)
        if not beneficiary_side or not victim_side:
            return None
        return QueuePair(beneficiary_side, victim_side, tree.reclaimable(other, self.workload.queue))


def uses_nothing(usage: Usage, queue: QueueName, accounts: Iterable[Account]) -> bool:
    """True if a queue with all below it uses nothing of these accounts; of those of devices, if there are any."""
    every = list(accounts)
    devices = [account for account in every if is_extended_resource(account.resource)]
    return not any(usage.used(queue, account) for account in devices or every)


def idle_accounts(asked: Iterable[Account]) -> tuple[Account, ...]:
    """What is counted of what victims leave idle, for a beneficiary that asks for this: devices, or else CPUs."""
    plain = [account for account in asked if account.flavor == NO_FLAVOR]
    devices = [account for account in plain if is_extended_resource(account.resource)]
    return tuple(devices or [account for account in plain if account.resource == CPU] or plain)


def size_of_members(workload: Workload, ordinals: Mapping[str, Sequence[int]]) -> int:
    """Size of these pods of a workload, in the measure of ``Candidate.size``."""
    return size_of(
        (pods.takes, len(ordinals[pods.name])) for pods in workload.pod_sets if pods.name in ordinals
    )
