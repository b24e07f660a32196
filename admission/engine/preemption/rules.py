"""Reclaim between queues that are both above their share: by how far (Kueue's fair sharing, KEP-1714).

Who may have whom taken back: by priority inside a queue, by reclaim between queues, by clearing.

Reclaim asks at the lowest common ancestor of the two queues. On the side of the one who asks some queue below
that ancestor must have room in its own share for what is asked; on the side of the victim every queue below it
must be above its share. So what was lent is got back, how ever far up the tree it was lent from.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any

from admission.engine.placement.need import size_of
from admission.engine.preemption.candidates import Candidate
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.quota.usage import Usage
from queues.reason_codes import ReasonCode
from queues.workload import NO_FLAVOR, QueueName, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRule:
    """Reclaim between queues that are both above their share, by how far (Kueue's fair sharing).

    ``final``: the victim's side is at least as far above as the beneficiary's afterwards. ``initial``: it was
    farther above before; together with ``final`` one victim a queue.
    """

    final: bool = True
    initial: bool = True


def above(usage: Usage, queue: QueueName, more: Mapping[Account, int]) -> tuple[bool, Fraction]:
    """How far a queue is above its share with so much more: borrowed of what its parent has, by weight.

    The largest over resources. Without weight it is above everybody as soon as it borrows.
    """
    tree = usage.tree
    weight = tree.queues[queue].weight
    parent = tree.paths[queue][1]
    largest = Fraction(0)
    used = {*usage.book(queue), *more}
    for resource in sorted({account.resource for account in used}):
        flavored = [each for each in used if each.resource == resource and each.flavor != NO_FLAVOR]
        every = flavored or [Account(NO_FLAVOR, resource)]
        borrowed = sum(
            max(0, usage.counted(queue, each) + more.get(each, 0) - tree.deserved(queue, each))
            for each in every
        )
        if borrowed > 0:
            largest = max(largest, Fraction(borrowed, max(1, _lendable(usage, parent, resource))))
    if weight <= 0:
        return (largest > 0, largest)
    return (False, largest / weight)


def _lendable(usage: Usage, queue: QueueName, resource: str) -> int:
    """What is there for all below a queue, over all flavors: without what is never lent."""
    tree = usage.tree
    flavored = [
        each for each in tree.own_deserved[queue] if each.resource == resource and each.flavor != NO_FLAVOR
    ]
    every = flavored or [Account(NO_FLAVOR, resource)]
    return sum(tree.deserved(queue, each) - tree.idle[queue].get(each, 0) for each in every)


class EvictionRule(StrEnum):
    """The rules by which a victim may be evicted."""

    #: A more urgent workload of the same queue.
    PREEMPTED = ReasonCode.PREEMPTED.value
    #: What the queue of the beneficiary deserves was lent out.
    RECLAIMED = ReasonCode.RECLAIMED.value
    #: A place was cleared for a gang that waited too long.
    CLEARED = ReasonCode.CLEARED.value

    @property
    def code(self) -> ReasonCode:
        """The code of evictions by this rule."""
        return ReasonCode(self.value)


class ReclaimDepth(StrEnum):
    """How far reclaim may bring a queue below its share, when whole gangs only can be taken."""

    NEVER = "never"
    #: Not farther below than it was above.
    NO_FARTHER = "no-farther"
    ANY = "any"


@dataclass(slots=True, eq=False)
class PreemptionRights:
    """What one workload may do, in a world that changes while victims are chosen."""

    workload: Workload
    usage: Usage
    #: What it asks, by account, as far as it is contested: limited or scarce.
    asked: Mapping[Account, int]
    #: How much it is, in the measure of ``Candidate.size``.
    size: int
    #: It has waited long enough to have a place cleared.
    starved: bool = False
    by_share: ShareRule | None = None
    below: ReclaimDepth = ReclaimDepth.NEVER
    #: Whether the last answer of ``rule`` rests on what the shares were at first only.
    initially: bool = False
    _meetings: dict[QueueName, "QueuePair | None"] = field(default_factory=dict)

    def rule(self, unit: Candidate, taken_of_queue: int = 0) -> EvictionRule | None:
        """By which rule a unit may be taken back as things are; None: it may not.

        ``taken_of_queue``: so many of its queue go for what the shares were at first.
        """
        self.initially = False
        if unit.workload.key == self.workload.key:
            return None
        queue = self.workload.queue
        priority = unit.order[2]
        if unit.queue == queue:
            return self._inside(unit, priority)
        meeting = self.meeting(unit.queue)
        if meeting is None or not meeting.reclaimable:
            return None
        if self._lost(meeting, unit, self.below) and self._reclaims(meeting, unit, priority, taken_of_queue):
            return EvictionRule.RECLAIMED
        if self._may_clear(unit, priority):
            stays = self.keeps(meeting.mine) or self._lost(meeting, unit, ReclaimDepth.NEVER)
            return EvictionRule.CLEARED if stays else None
        return None

    def why(self, rule: EvictionRule, victim: QueueName) -> tuple[str, dict[str, Any]]:
        """The sentence for whoever is taken back, and its numbers as they were before."""
        usage, tree, mine = self.usage, self.usage.tree, self.workload.queue
        facts: dict[str, Any] = {
            "rule": str(rule),
            "for": str(self.workload),
            "queue": mine,
            "victimQueue": victim,
        }
        meeting = self.meeting(victim) if victim != mine else None
        if rule is EvictionRule.PREEMPTED or meeting is None:
            facts |= {"priority": self.workload.priority}
            if rule is EvictionRule.CLEARED:
                return f"its place is cleared for {self.workload}, which waited too long", facts
            return (
                f"{self.workload} of the same queue is more urgent (priority {self.workload.priority})",
                facts,
            )
        account = next(iter(self.asked))
        sides = {}
        for side, name in (("owner", meeting.mine[-1]), ("above", meeting.theirs[-1])):
            used, deserved = usage.used(name, account), tree.deserved(name, account)
            facts[side] = {"queue": name, "resource": account.resource, "used": used, "deserved": deserved}
            kept = usage.counted(name, account) - used
            besides = f" (besides {account.show(kept)} kept for queues below it)" if kept > 0 else ""
            sides[side] = (
                f"queue {name} uses {account.show(used)} {account}{besides}"
                f" and deserves {account.show(deserved)}"
            )
        shares = f"{sides['above']}, {sides['owner']}"
        if rule is EvictionRule.CLEARED:
            return f"its place is cleared for {self.workload}, which waited too long: {shares}", facts
        return f"reclaimed for {self.workload}: {shares}", facts

    def _inside(self, unit: Candidate, priority: int) -> EvictionRule | None:
        if self._more_urgent(unit, priority):
            return EvictionRule.PREEMPTED
        return EvictionRule.CLEARED if self._may_clear(unit, priority) else None

    def _more_urgent(self, unit: Candidate, priority: int) -> bool:
        policy = self.usage.tree.policy(self.workload.queue).within_queue
        if policy == "never":
            return False
        if priority < self.workload.priority:
            return True
        newer = unit.workload.arrival > self.workload.arrival
        return policy == "lower-or-newer-equal" and priority == self.workload.priority and newer

    def _reclaims(self, meeting: "QueuePair", unit: Candidate, priority: int, taken_of_queue: int) -> bool:
        policy = self.usage.tree.policy(self.workload.queue)
        lower = priority < self.workload.priority
        if policy.reclaim == "never" or (policy.reclaim == "lower-priority" and not lower):
            return False
        if self.entitled(meeting.mine):
            return True
        if policy.borrow_max_priority is not None and lower and priority <= policy.borrow_max_priority:
            return True
        return self.by_share is not None and self._farther_above(self.by_share, meeting, unit, taken_of_queue)

    def entitled(self, mine: Iterable[QueueName]) -> bool:
        """Whether what is asked is owned by one of these, the beneficiary's side of a meeting."""
        usage, tree = self.usage, self.usage.tree
        asked = self.asked
        for name in mine:
            if all(
                usage.counted(name, account) + units <= tree.deserved(name, account)
                for account, units in asked.items()
            ):
                return True
            asked = self._carried((name,), asked)
        return False

    def keeps(self, mine: Iterable[QueueName]) -> bool:
        """Whether a place cleared from others, who are within their shares then, could not be reclaimed at once.

        That is where one of these, the beneficiary's side of a meeting, owns so much of it that reclaim would bring
        it farther below its share than it was above (``ReclaimDepth.NO_FARTHER``).
        """
        usage, tree, asked = self.usage, self.usage.tree, self.asked
        for name in mine:
            beyond = [
                (units, usage.counted(name, account) + units - tree.deserved(name, account))
                for account, units in asked.items()
            ]
            if all(excess <= 0 for _, excess in beyond) or any(
                units > 2 * excess > 0 for units, excess in beyond
            ):
                return True
            asked = self._carried((name,), asked)
        return False

    def has_shares(self, theirs: Iterable[QueueName]) -> bool:
        """Whether each of these has its share of something that is asked still."""
        usage, tree = self.usage, self.usage.tree
        return all(
            any(usage.counted(name, account) >= tree.deserved(name, account) for account in self.asked)
            for name in theirs
        )

    def _carried(self, path: Iterable[QueueName], more: Mapping[Account, int]) -> Mapping[Account, int]:
        """What adding these amounts to the first of a path changes above its last: idle guarantees come first."""
        usage, guarantees = self.usage, self.usage.tree.guarantees
        for name in path:
            kept = guarantees[name]
            if kept:
                counted = {account: usage.counted(name, account) for account in more}
                more = {
                    account: max(counted[account] + units, kept.get(account, 0))
                    - max(counted[account], kept.get(account, 0))
                    for account, units in more.items()
                }
        return more

    def _lost(self, meeting: "QueuePair", unit: Candidate, below: ReclaimDepth) -> bool:
        """Every queue on the victim's side has more than its share of something that is asked.

        A guarantee that lies idle below it is not lent, so it counts as used.
        """
        usage, tree = self.usage, self.usage.tree
        for name in meeting.theirs:
            above = False
            for account in self.asked:
                excess = usage.counted(name, account) - tree.deserved(name, account)
                if excess > 0:
                    above = True
                    if below is not ReclaimDepth.ANY:
                        most = excess if below is ReclaimDepth.NEVER else 2 * excess
                        if unit.amount(account) > most:
                            return False
            if not above:
                return False
        return True

    def _may_clear(self, unit: Candidate, priority: int) -> bool:
        # Only single pods of smaller size go, and those never have a place cleared: no two can do it in turns.
        if not self.starved or unit.pods > 1 or priority > self.workload.priority or unit.size >= self.size:
            return False
        # An older one of equal priority could preempt the gang as newer, and so on in turns.
        equal = unit.queue == self.workload.queue and priority == self.workload.priority
        policy = self.usage.tree.policy(self.workload.queue).within_queue if equal else None
        return policy != "lower-or-newer-equal"

    def _farther_above(
        self, rule: ShareRule, meeting: "QueuePair", unit: Candidate, taken_of_queue: int
    ) -> bool:
        mine, theirs = meeting.mine[-1], meeting.theirs[-1]
        after = above(self.usage, mine, self._carried(meeting.mine[:-1], self.asked))
        less = {account: -unit.amount(account) for account in self.asked}
        if rule.final and after <= above(self.usage, theirs, self._carried(meeting.theirs[:-1], less)):
            return True
        again = taken_of_queue > 0 and rule.final
        self.initially = rule.initial and not again and after < above(self.usage, theirs, {})
        return self.initially

    def meeting(self, other: QueueName) -> "QueuePair | None":
        """Where the paths of the two queues meet; None: the other queue is not in the tree."""
        if other not in self._meetings:
            self._meetings[other] = self._meet(other)
        return self._meetings[other]

    def _meet(self, other: QueueName) -> "QueuePair | None":
        tree = self.usage.tree
        if other not in tree.paths or other == ROOT:
            return None
        mine, theirs = tree.paths[self.workload.queue], tree.paths[other]
        shared = set(theirs)
        below_mine = tuple(name for name in mine if name not in shared)
        upper = set(mine)
        below_theirs = tuple(name for name in theirs if name not in upper)
        if not below_mine or not below_theirs:
            return None
        return QueuePair(below_mine, below_theirs, tree.reclaimable(other, self.workload.queue))


@dataclass(frozen=True, slots=True)
class QueuePair:
    """Two queues, and who is on each side below their lowest common ancestor, from the leaf upwards."""

    mine: tuple[QueueName, ...]
    theirs: tuple[QueueName, ...]
    reclaimable: bool


def asks_of(workload: Workload, ordinals: Mapping[str, Sequence[int]]) -> int:
    """How much these pods of a workload are, in the measure of ``Candidate.size``."""
    return size_of((pods.takes, len(ordinals.get(pods.name, ()))) for pods in workload.pod_sets)
