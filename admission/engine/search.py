"""Which victims: first where, then the cheapest there, then nobody who does not help."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from admission.engine.rights import Rights, Rule
from admission.engine.topology import Amounts, Mask
from admission.engine.trial import Trial, colliding
from admission.engine.victims import Herd, Part, Unit
from queues.workload import AdmissionId, PodSet, QueueName

#: So many domains are tried, cheapest first by estimate.
_DOMAINS_TRIED = 4


@dataclass(slots=True, eq=False)
class Taken:
    """A victim: the unit, by which rule, and which admissions went with it."""

    unit: Unit
    rule: Rule
    parts: tuple[Part, ...]
    #: The sentence for it, and its numbers.
    why: tuple[str, dict[str, Any]]
    #: Only because of what the shares were at first.
    initially: bool = False


@dataclass(slots=True, eq=False)
class Search:
    """Victims taken so far out of a trial; all can be put back."""

    trial: Trial
    herd: Herd
    rights: Rights
    #: Whether what is asked fits as things are. Leaves the trial as it was.
    fits: Callable[[], bool]
    #: Admissions that are taken back already, for others before too.
    gone: set[AdmissionId] = field(default_factory=set)
    taken: list[Taken] = field(default_factory=list)
    _whys: dict[tuple[Rule, QueueName], tuple[str, dict[str, Any]]] = field(default_factory=dict)
    #: So many go for what the shares were at first.
    _of_queue: Counter[QueueName] = field(default_factory=Counter)

    def take(self, unit: Unit) -> bool:
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
            self.trial.give_back(unit.queue, part.books, part.seats, part.ports)
        self._enter(Taken(unit, rule, every, why, self.rights.initially), parts)
        return True

    def has(self, unit: Unit) -> bool:
        """Whether all of a unit is taken."""
        return all(part.admission.id in self.gone for part in unit.parts)

    def _enter(self, taken: Taken, parts: Iterable[Part]) -> None:
        self.taken.append(taken)
        self._of_queue[taken.unit.queue] += taken.initially
        self.gone.update(part.admission.id for part in parts)

    def _budgets(self, unit: Unit, parts: Sequence[Part]) -> bool:
        under = self.herd.budgets.get(unit.workload.key)
        if not under:
            return True
        leaving = sum(len(part.seats) for part in parts)
        if any(min(pods, leaving) > self.herd.allowed[place] for place, pods in under):
            return False
        for place, pods in under:
            self.herd.allowed[place] -= min(pods, leaving)
        return True

    def put_back(self, taken: Taken) -> None:
        """It stays after all."""
        self.taken.remove(taken)
        self._of_queue[taken.unit.queue] -= taken.initially
        for part in taken.parts:
            self.trial.hold_again(taken.unit.queue, part.books, part.seats, part.ports)
            self.gone.discard(part.admission.id)
        leaving = sum(len(part.seats) for part in taken.parts)
        for place, pods in self.herd.budgets.get(taken.unit.workload.key, ()):
            self.herd.allowed[place] += min(pods, leaving)

    def take_again(self, taken: Taken) -> None:
        """The contrary of ``put_back``."""
        for part in taken.parts:
            self.trial.give_back(taken.unit.queue, part.books, part.seats, part.ports)
        leaving = sum(len(part.seats) for part in taken.parts)
        for place, pods in self.herd.budgets.get(taken.unit.workload.key, ()):
            self.herd.allowed[place] -= min(pods, leaving)
        self._enter(taken, taken.parts)

    def put_all_back(self) -> None:
        """As before the first was taken."""
        for taken in reversed(list(self.taken)):
            self.put_back(taken)

    def in_order(self, units: Sequence[Unit]) -> bool:
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

    def _in_turn(self, units: Sequence[Unit], *, again: bool = True) -> bool:
        own, progress = self.rights.workload.queue, True
        while progress:
            progress, refused = False, dict[QueueName, Unit]()
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

    def _one_of_each_queue(self, units: Sequence[Unit]) -> bool:
        """The first of every queue, of whoever is farthest above its share first."""
        first: dict[QueueName, Unit] = {}
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
        return self.rights.above(side, {}), queue

    def in_best_order(
        self,
        units: Sequence[Unit],
        worth: Callable[["Search"], tuple[int, int]] = lambda search: search.cost(),
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
        best: tuple[tuple[int, int], list[Taken]] | None = None
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

    def helps(self, unit: Unit) -> bool:
        """Whether it holds something of what is asked."""
        return any(part.books.get(account) for part in unit.parts for account in self.rights.asked)

    def spare(self, needed: Callable[[Taken], bool] = lambda taken: False) -> None:
        """Put back whoever is not needed, the dearest first. ``needed``: certainly, as far as a look tells."""
        for taken in sorted(self.taken, key=lambda each: each.unit.order, reverse=True):
            if needed(taken):
                continue
            self.put_back(taken)
            if not (self.still_allowed() and self.fits()):
                self.take_again(taken)

    def still_allowed(self) -> bool:
        """Whether those of other queues may still go though somebody of the own queue stays."""
        for queue in {each.unit.queue for each in self.taken if each.rule is Rule.RECLAIMED}:
            meeting = self.rights.meeting(queue)
            if meeting is not None and not self.rights.entitled(meeting) and not self._by_other_means(queue):
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


@dataclass(slots=True, eq=False)
class Gain:
    """More room on one node, by taking some units after those before."""

    cost: int
    pods: int
    units: tuple[Unit, ...]


@dataclass(slots=True, eq=False)
class Sites:
    """What could be gained where, for pods of one shape."""

    #: (N,) pods that fit now.
    room: Amounts
    #: Column → gains in order.
    gains: dict[int, list[Gain]]


def sites(trial: Trial, pods: PodSet, mask: Mask, units: Sequence[Unit]) -> Sites:
    """Room per node, and what taking units (in the order given) adds to it.

    Host ports are one more resource: a node has 1, and each pod that stands in the way takes 1.
    """
    request = trial.request(pods.takes)
    rows = np.flatnonzero(request).tolist()
    asked = [int(request[row]) for row in rows]
    position = trial.layout.position
    on_node: dict[int, list[_Going]] = {}
    for unit in units:
        for part in unit.parts:
            ports = dict(part.ports) if pods.ports else {}
            for seat in part.seats:
                column = position.get(seat.node)
                if column is not None and mask[column]:
                    takes = trial.request(seat.takes)
                    given = [int(takes[row]) for row in rows]
                    if pods.ports:
                        given.append(colliding(pods.ports, ports.pop(seat.node, ())))
                    on_node.setdefault(column, []).append((unit, given, unit.cost // unit.pods))
    room = trial.room(pods.takes, mask)
    if pods.ports:
        room = np.minimum(room, 1) * trial.unported(pods.ports)
        asked.append(1)
    free = trial.free
    gains = {}
    for column, there in sorted(on_node.items()):
        left = [int(free[row, column]) for row in rows]
        if pods.ports:
            left.append(1 - trial.holders_of(pods.ports, column))
        steps = _gains(left, asked, there)
        if steps:
            gains[column] = steps
    return Sites(room, gains)


#: A unit, what it gives back on a node, and what that costs.
_Going = tuple[Unit, list[int], int]


def _gains(left: list[int], asked: list[int], there: Sequence[_Going]) -> list[Gain]:
    steps: list[Gain] = []
    fit = max(0, min(have // want for have, want in zip(left, asked, strict=True))) if asked else 0
    cost, since = 0, []
    for unit, given, price in there:
        short = [have < want * (fit + 1) for have, want in zip(left, asked, strict=True)]
        if not any(more and lacks for more, lacks in zip(given, short, strict=True)):
            continue
        left = [have + more for have, more in zip(left, given, strict=True)]
        cost += price
        since.append(unit)
        now = max(0, min(have // want for have, want in zip(left, asked, strict=True)))
        if now > fit:
            steps.append(Gain(cost, now - fit, tuple(since)))
            fit, cost, since = now, 0, []
    return steps


def domains(trial: Trial, pods: PodSet, count: int, found: Sites) -> Iterator[tuple[list[int], int]]:
    """Columns of each domain that could hold all pods, and how many fit there now; the cheapest first by estimate.

    Of a level that is required or preferred the cheapest few; without one, or if none of the preferred level will
    do, everywhere.
    """
    everywhere = (sorted(found.gains), int(found.room.sum()))
    known = trial.layout.chain(pods.required_topology or pods.preferred_topology)
    if known is None or not (pods.required_topology or pods.preferred_topology):
        yield everywhere
        return
    level = known[0][known[1]]
    free = level.sums(found.room)
    members: dict[int, list[int]] = {int(domain): [] for domain in np.flatnonzero(free >= count)}
    for column in everywhere[0]:
        if (domain := int(level.of[column])) >= 0:
            members.setdefault(domain, []).append(column)
    prices = []
    for domain, columns in members.items():
        price = _price(columns, found, count - int(free[domain]))
        if price is not None:
            prices.append((price, domain))
    for _, domain in sorted(prices)[:_DOMAINS_TRIED]:
        yield members[domain], int(free[domain])
    if not pods.required_topology:
        yield everywhere


def cheapest_first(columns: Sequence[int], found: Sites) -> Iterable[Gain]:
    """Gains of these nodes, the cheapest per pod first, each node's in their order."""
    heap: list[tuple[int, int, int, int]] = []

    def push(column: int, step: int) -> None:
        gain = found.gains[column][step]
        heap.append((gain.cost // gain.pods, -gain.pods, column, step))

    for column in columns:
        push(column, 0)
    heapify(heap)
    while heap:
        _, _, column, step = heappop(heap)
        yield found.gains[column][step]
        if step + 1 < len(found.gains[column]):
            gain = found.gains[column][step + 1]
            heappush(heap, (gain.cost // gain.pods, -gain.pods, column, step + 1))


def _price(columns: Sequence[int], found: Sites, short: int) -> int | None:
    price = 0
    for gain in cheapest_first(columns, found):
        if short <= 0:
            break
        price += gain.cost
        short -= gain.pods
    return price if short <= 0 else None


def take_gains(search: Search, gains: Iterable[Gain], short: int) -> bool:
    """Take the units of gain after gain until enough pods have room. A gain goes whole or not at all."""
    for gain in gains:
        if short <= 0:
            return True
        before = len(search.taken)
        if all(search.has(unit) or search.take(unit) for unit in gain.units):
            short -= gain.pods
        else:
            for taken in reversed(search.taken[before:]):
                search.put_back(taken)
    return short <= 0
