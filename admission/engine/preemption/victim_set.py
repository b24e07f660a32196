"""Which victims: first where, then the cheapest there, then nobody who does not help."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from admission.engine.preemption.candidate_arrays import CandidateArrays, CandidateMask
from admission.engine.preemption.candidates import Candidate, HeldAdmission, VictimCandidates
from admission.engine.preemption.node_gains import NodeGains
from admission.engine.preemption.rules import EvictionRule, PreemptionRights, above
from admission.engine.trial import Trial
from queues.workload import AdmissionId, QueueName


@dataclass(slots=True, eq=False)
class Victim:
    """A victim: the unit, by which rule, and which admissions went with it."""

    unit: Candidate
    rule: EvictionRule
    parts: tuple[HeldAdmission, ...]
    #: The sentence for it, and its numbers.
    why: tuple[str, dict[str, Any]]
    #: Only because of what the shares were at first.
    initially: bool = False


@dataclass(slots=True, eq=False)
class VictimSet:
    """Victims taken so far out of a trial; all can be put back."""

    trial: Trial
    herd: VictimCandidates
    rights: PreemptionRights
    #: Whether what is asked fits as things are. Leaves the trial as it was.
    fits: Callable[[], bool]
    #: Admissions that are taken back already, for others before too.
    gone: set[AdmissionId] = field(default_factory=set)
    taken: list[Victim] = field(default_factory=list)
    _whys: dict[tuple[EvictionRule, QueueName], tuple[str, dict[str, Any]]] = field(default_factory=dict)
    #: So many go for what the shares were at first.
    _of_queue: Counter[QueueName] = field(default_factory=Counter)

    def take(self, unit: Candidate) -> bool:
        """Take a unit out if the rules allow it now."""
        parts = tuple(part for part in unit.parts if part.admission.id not in self.gone)
        if not parts:
            return False
        rule = self.rights.rule(unit, self._of_queue[unit.queue])
        if rule is None or not self._budgets(unit, parts):
            return False
        why = self._whys.get((rule, unit.queue))
        if why is None:
            why = self._whys[rule, unit.queue] = self.rights.why(rule, unit.queue)
        before = [each for each in self.taken if each.unit.workload is unit.workload]
        for each in before:  # parts of it that went alone go with the whole now
            self.taken.remove(each)
            self._of_queue[unit.queue] -= each.initially
        every = (*(part for each in before for part in each.parts), *parts)
        for part in parts:
            self.trial.remove_seats(unit.queue, part.books, part.seats, part.ports)
        self._enter(Victim(unit, rule, every, why, self.rights.initially), parts)
        return True

    def has(self, unit: Candidate) -> bool:
        """Whether all of a unit is taken."""
        return all(part.admission.id in self.gone for part in unit.parts)

    def goes(self, roll: CandidateArrays) -> CandidateMask:
        """(U,) who is taken."""
        going = np.zeros(len(roll.units), np.bool_)
        going[[roll.place[id(each.unit)] for each in self.taken]] = True
        return going

    def _enter(self, taken: Victim, parts: Iterable[HeldAdmission]) -> None:
        self.taken.append(taken)
        self._of_queue[taken.unit.queue] += taken.initially
        self.gone.update(part.admission.id for part in parts)

    def _budgets(self, unit: Candidate, parts: Sequence[HeldAdmission]) -> bool:
        under = self.herd.budgets.get(unit.workload.key)
        if not under:
            return True
        leaving = sum(len(part.seats) for part in parts)
        if any(min(pods, leaving) > self.herd.allowed[place] for place, pods in under):
            return False
        for place, pods in under:
            self.herd.allowed[place] -= min(pods, leaving)
        return True

    def put_back(self, taken: Victim) -> None:
        """It stays after all."""
        self.taken.remove(taken)
        self._of_queue[taken.unit.queue] -= taken.initially
        for part in taken.parts:
            self.trial.restore_seats(taken.unit.queue, part.books, part.seats, part.ports)
            self.gone.discard(part.admission.id)
        leaving = sum(len(part.seats) for part in taken.parts)
        for place, pods in self.herd.budgets.get(taken.unit.workload.key, ()):
            self.herd.allowed[place] += min(pods, leaving)

    def take_again(self, taken: Victim) -> None:
        """The contrary of ``put_back``."""
        for part in taken.parts:
            self.trial.remove_seats(taken.unit.queue, part.books, part.seats, part.ports)
        leaving = sum(len(part.seats) for part in taken.parts)
        for place, pods in self.herd.budgets.get(taken.unit.workload.key, ()):
            self.herd.allowed[place] -= min(pods, leaving)
        self._enter(taken, taken.parts)

    def put_all_back(self) -> None:
        """As before the first was taken."""
        for taken in reversed(list(self.taken)):
            self.put_back(taken)

    def in_order(self, units: Sequence[Candidate]) -> bool:
        """Take one after another until it fits; whoever was not allowed at first is asked again.

        By shares first as they would be afterwards, then as they were at first (Kueue's two strategies).
        """
        if self.fits():
            return True
        by_share = self.rights.by_share
        if by_share is None or not (by_share.final and by_share.initial):
            return self._in_turn(units)
        for again in (False, True):
            self.rights.by_share = replace(by_share, initial=False)
            enough = self._in_turn(units, again=again)
            self.rights.by_share = by_share
            if enough or self._one_of_each_queue(units):
                return True
            self.put_all_back()
        return False

    def _in_turn(self, units: Sequence[Candidate], *, again: bool = True) -> bool:
        own, progress = self.rights.workload.queue, True
        while progress:
            progress, refused = False, dict[QueueName, Candidate]()
            for unit in units:
                if not self.helps(unit) or self.has(unit):
                    continue
                if not self.take(unit):
                    refused.setdefault(unit.queue, unit)
                    continue
                progress = again
                if self.fits():
                    return True
                if again and unit.queue == own and any(self.rights.rule(each) for each in refused.values()):
                    break  # there is room in the own share now, so whoever comes first is asked again
        return False

    def _one_of_each_queue(self, units: Sequence[Candidate]) -> bool:
        """The first of every queue, of whoever is farthest above its share first."""
        first: dict[QueueName, Candidate] = {}
        for unit in sorted(units, key=lambda unit: unit.order[2:]):
            if self.helps(unit) and not self.has(unit):
                first.setdefault(unit.queue, unit)
        while first:
            queue = max(first, key=self._above)
            if self.take(first.pop(queue)) and self.fits():
                return True
        return False

    def _above(self, queue: QueueName) -> tuple[tuple[bool, Fraction], QueueName]:
        meeting = self.rights.meeting(queue)
        side = meeting.theirs[-1] if meeting is not None else queue
        return above(self.rights.usage, side, {}), queue

    def in_best_order(
        self,
        units: Sequence[Candidate],
        worth: Callable[["VictimSet"], tuple[int, int]] = lambda search: search.cost(),
    ) -> bool:
        """Take victims in several orders, each without those it does not need, and keep the cheapest set."""
        own = self.rights.workload.queue
        orders = (
            units,
            sorted(units, key=lambda unit: (unit.queue != own, unit.order)),
            sorted(units, key=lambda unit: (unit.queue == own, unit.order)),
            sorted(units, key=lambda unit: (-unit.size, unit.order)),
            sorted(units, key=lambda unit: (unit.order[2], unit.order)),
        )
        best: tuple[tuple[int, int], list[Victim]] | None = None
        for order in orders:
            if self.in_order(order):
                self.spare()
                found = worth(self), list(self.taken)
                if best is None or found[0] < best[0]:
                    best = found
            self.put_all_back()
        for taken in best[1] if best is not None else ():
            self.take_again(taken)
        return best is not None

    def helps(self, unit: Candidate) -> bool:
        """Whether it holds something of what is asked."""
        return any(part.books.get(account) for part in unit.parts for account in self.rights.asked)

    def spare(self, needed: Callable[[Sequence[Victim]], Sequence[bool]] | None = None) -> None:
        """Put back whoever is not needed, the dearest first. ``needed``: who certainly is, as far as a look tells."""
        others = sorted(self.taken, key=lambda each: each.unit.order, reverse=True)
        while others:
            certain = needed(others) if needed is not None else [False] * len(others)
            others = self._spare_next(others, certain)

    def _spare_next(self, others: list[Victim], certain: Sequence[bool]) -> list[Victim]:
        """Put the first of these back that is not needed. Who comes after it."""
        for place, taken in enumerate(others):
            if certain[place]:
                continue
            self.put_back(taken)
            if self.still_allowed() and self.fits():
                return others[place + 1 :]
            self.take_again(taken)
        return []

    def still_allowed(self) -> bool:
        """Whether those of other queues may still go though somebody of the own queue stays."""
        rights = self.rights
        for queue, rule in {(each.unit.queue, each.rule) for each in self.taken}:
            meeting = rights.meeting(queue)
            if meeting is None:
                continue
            if rule is EvictionRule.RECLAIMED:
                allowed = rights.entitled(meeting.mine) or self._by_other_means(queue)
            else:
                allowed = rights.keeps(meeting.mine) or rights.has_shares(meeting.theirs)
            if not allowed:
                return False
        return True

    def _by_other_means(self, queue: QueueName) -> bool:
        policy = self.rights.usage.tree.policy(self.rights.workload.queue)
        most = policy.borrow_max_priority
        mine = [each for each in self.taken if each.unit.queue == queue]
        if most is not None and all(
            each.unit.order[2] <= most and each.unit.order[2] < self.rights.workload.priority for each in mine
        ):
            return True
        return self.rights.by_share is not None

    def cost(self) -> tuple[int, int]:
        """Work lost, and how many victims."""
        return sum(each.unit.cost for each in self.taken), len(self.taken)


def take_gains(
    search: VictimSet, gains: NodeGains, short: int, roll: CandidateArrays, *, larger: bool
) -> bool:
    """Take the units of step after step until enough pods have room. A step goes whole or not at all.

    ``larger``: as in ``CandidateArrays.allowed``.
    """
    place, stale, possible = 0, True, np.ones(len(gains), np.bool_)
    while short > 0 and place < len(gains):
        if not possible[place]:
            place += int(possible[place:].argmax()) or len(gains)
            continue
        before = len(search.taken)
        units = [roll.units[unit] for unit in gains.units[gains.begins[place] : gains.ends[place]].tolist()]
        if all(search.has(unit) or search.take(unit) for unit in units):
            short -= int(gains.pods[place])
            stale = True
            if any(unit.queue == search.rights.workload.queue for unit in units):
                possible[:] = True  # what others hold may be owned now
        else:
            for taken in reversed(search.taken[before:]):
                search.put_back(taken)
            if stale:  # whoever may not go any more is asked once, not one by one
                possible, stale = _possible(search, gains, roll, larger=larger), False
        place += 1
    return short <= 0


def _possible(search: VictimSet, gains: NodeGains, roll: CandidateArrays, *, larger: bool) -> CandidateMask:
    """Steps that may be taken as things are; with units of the own queue in them also what these make possible."""
    rights, goes = search.rights, search.goes(roll)
    may = roll.allowed(rights, below=rights.below, larger=larger, at_once=True) | goes
    own = ~gains.possible(~roll.of(rights.workload.queue))
    if not own.any():
        return gains.possible(may)
    ever = roll.allowed(rights, below=rights.below, larger=larger) | goes
    return gains.possible(may) | (own & gains.possible(ever))
