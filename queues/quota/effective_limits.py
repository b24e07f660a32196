"""What counts for each queue of a tree: its path, its limits with those of its children, its errors. Pure.

What counts is carried on from one set of queues to the next: a change costs the queues whose path, limits or errors it
changes, however many others there are.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeVar

from queues.errors import (
    GuaranteesExceedParent,
    LimitsOutOfOrder,
    MusterError,
    QueueCycle,
    QueueTooDeep,
    QuotaTreeError,
    UnknownParent,
)
from queues.quota.accounts import Account
from queues.quota.queue import MOST_LEVELS, ROOT, Queue
from queues.workload import NO_FLAVOR, QueueName

Path = tuple[QueueName, ...]
Amounts = Mapping[Account, int]
T = TypeVar("T")


@dataclass(slots=True)
class Numbers:
    """The limits that a queue states itself, by account, with the sums over its flavors."""

    guarantee: dict[Account, int] = field(default_factory=dict)
    deserved: dict[Account, int] = field(default_factory=dict)
    capability: dict[Account, int] = field(default_factory=dict)


def numbers_of(queue: Queue) -> Numbers:
    """The limits that a queue states. Its guarantee over all flavors is at least the sum of its flavors' guarantees."""
    numbers = Numbers()
    over_all: dict[str, dict[str, int]] = {"guarantee": {}, "deserved": {}}
    for flavor, limits in queue.all_limits().items():
        for kind in ("guarantee", "deserved", "capability"):
            book: dict[Account, int] = getattr(numbers, kind)
            amounts: Mapping[str, int] = getattr(limits, kind)
            for resource, units in amounts.items():
                book[Account(flavor, resource)] = units
                if flavor != NO_FLAVOR and kind in over_all:
                    over_all[kind][resource] = over_all[kind].get(resource, 0) + units
    for resource, units in over_all["guarantee"].items():
        plain = Account(NO_FLAVOR, resource)
        numbers.guarantee[plain] = max(units, numbers.guarantee.get(plain, 0))
    for resource, units in over_all["deserved"].items():
        numbers.deserved.setdefault(Account(NO_FLAVOR, resource), units)
    return numbers


def misordered(queue: Queue, numbers: Numbers) -> list[MusterError]:
    """Errors of a queue, one for each account in which guarantee ≤ deserved ≤ capability does not hold."""
    wrong: list[MusterError] = []
    for account in sorted({*numbers.guarantee, *numbers.deserved, *numbers.capability}):
        known = [numbers.guarantee.get(account, 0)]
        known += [book[account] for book in (numbers.deserved, numbers.capability) if account in book]
        if known != sorted(known):
            wrong.append(
                LimitsOutOfOrder(
                    queue=queue.name,
                    resource=str(account),
                    guarantee=account.show(known[0]),
                    deserved=account.show(numbers.deserved.get(account)),
                    capability=account.show(numbers.capability.get(account)),
                )
            )
    return wrong


class Stated(NamedTuple):
    """What one queue states, whatever the other queues are."""

    numbers: Numbers
    wrong: tuple[MusterError, ...]

    @classmethod
    def by(cls, queue: Queue) -> "Stated":
        """A broken queue keeps nothing from other queues."""
        numbers = numbers_of(queue)
        wrong = misordered(queue, numbers)
        if queue.broken is not None:
            wrong.append(QuotaTreeError(f"Queue {queue.name}: {queue.broken}"))
        return cls(Numbers() if wrong else numbers, tuple(wrong))


def guaranteed(
    queue: Queue, numbers: Numbers, children: Amounts
) -> tuple[dict[Account, int], dict[Account, MusterError]]:
    """The effective guarantee of a queue, and errors for accounts in which its children are guaranteed more than it."""
    if queue.name == ROOT:  # root has no parent from which a guarantee could be kept
        return {}, {}
    guarantee = dict(numbers.guarantee)
    excess: dict[Account, MusterError] = {}
    for account, units in sorted(children.items()):
        own = numbers.guarantee.get(account, numbers.capability.get(account))
        if own is None or units <= own:
            guarantee[account] = max(guarantee.get(account, 0), units)
        else:
            excess[account] = GuaranteesExceedParent(
                queue=queue.name, children=account.show(units), resource=str(account), own=account.show(own)
            )
    return guarantee, excess


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EffectiveLimits:
    """Queues with their places, limits and errors; ``root`` is always among them. None of the mappings ever changes."""

    #: As they were given: the same mapping.
    given: Mapping[QueueName, Queue] = field(default_factory=dict)
    #: In the order of their names; root has no parent.
    queues: Mapping[QueueName, Queue] = field(default_factory=dict)
    #: From the queue to ``root``, both included.
    paths: Mapping[QueueName, Path] = field(default_factory=dict)
    children: Mapping[QueueName, Path] = field(default_factory=dict)
    #: All errors of a queue, those of its ancestors included. Absent: the queue can be used.
    problems: Mapping[QueueName, tuple[MusterError, ...]] = field(default_factory=dict)
    guarantees: Mapping[QueueName, Amounts] = field(default_factory=dict)
    #: Sum of the guarantees of the children: what they count upwards while they are idle.
    idle: Mapping[QueueName, Amounts] = field(default_factory=dict)
    #: What queues state themselves; ``QueueTree.deserved`` gives all that they deserve.
    own_deserved: Mapping[QueueName, Amounts] = field(default_factory=dict)
    #: What queues state themselves, but for root in a tree: what its nodes can allocate limits it too.
    capabilities: Mapping[QueueName, Amounts] = field(default_factory=dict)
    stated: Mapping[QueueName, Stated] = field(default_factory=dict)
    #: Queues by the name that they state as their parent, whether there is such a queue or not.
    stating: Mapping[QueueName, Set[QueueName]] = field(default_factory=dict)
    #: Errors of paths, and all errors of queues without those of their ancestors.
    misplaced: Mapping[QueueName, MusterError] = field(default_factory=dict)
    errors: Mapping[QueueName, tuple[MusterError, ...]] = field(default_factory=dict)
    #: Guarantees together with those that exceed the parent's, their sums by parent, and the errors about them.
    wanted: Mapping[QueueName, Amounts] = field(default_factory=dict)
    sums: Mapping[QueueName, Amounts] = field(default_factory=dict)
    excess: Mapping[QueueName, Mapping[Account, MusterError]] = field(default_factory=dict)

    def after(self, queues: Mapping[QueueName, Queue]) -> "EffectiveLimits":
        """The limits of other queues; what these have in common with them is carried on."""
        return self if queues is self.given else _Step(self, queues).taken()


class _Step:
    """The step from some queues to others."""

    def __init__(self, before: EffectiveLimits, given: Mapping[QueueName, Queue]) -> None:
        self._before, self._given = before, given
        self._queues = dict(before.queues)
        self._paths, self._children = dict(before.paths), dict(before.children)
        self._stated, self._misplaced = dict(before.stated), dict(before.misplaced)
        self._wanted, self._sums, self._excess = dict(before.wanted), dict(before.sums), dict(before.excess)
        self._guarantees, self._idle = dict(before.guarantees), dict(before.idle)
        self._errors, self._problems = dict(before.errors), dict(before.problems)
        #: How much more the children of a queue are guaranteed than before.
        self._more = defaultdict[QueueName, Counter[Account]](Counter)

    def taken(self) -> EffectiveLimits:
        """The limits after it."""
        changed = self._put_queues()
        moved = {name for name in changed if self._has_moved(name)}
        stating = self._stating(moved)
        placed = below(moved, stating)
        self._place(placed)
        present = changed & self._queues.keys()
        self._stated.update((name, Stated.by(self._queues[name])) for name in present)
        limited = self._guarantee(present | (placed & self._queues.keys()))
        for rows in (self._stated, self._wanted, self._sums, self._excess, self._guarantees, self._idle):
            for name in changed - present:
                rows.pop(name, None)
        self._blame(limited | changed, placed)
        return EffectiveLimits(
            given=self._given,
            queues=self._sorted(self._queues),
            paths=self._sorted(self._paths),
            children=self._sorted(self._children),
            problems=self._problems,
            guarantees=self._sorted(self._guarantees),
            idle=self._idle,
            own_deserved={name: each.numbers.deserved for name, each in self._stated.items()},
            capabilities={name: each.numbers.capability for name, each in self._stated.items()},
            stated=self._stated,
            stating=stating,
            misplaced=self._misplaced,
            errors=self._errors,
            wanted=self._wanted,
            sums=self._sums,
            excess=self._excess,
        )

    def _put_queues(self) -> set[QueueName]:
        """Take the queues over. Returns the names of those that are others, come or go."""
        before, given = self._before, self._given
        known = map(before.given.get, given)
        changed = {name for (name, queue), was in zip(given.items(), known, strict=True) if queue is not was}
        changed.update(before.given.keys() - given.keys())
        if not before.queues:
            changed.add(ROOT)
        for name in changed:
            queue = given.get(name)
            if name == ROOT:
                self._queues[name] = replace(queue or Queue(name=ROOT), parent=None)
            elif queue is None:
                del self._queues[name]
            else:
                self._queues[name] = queue
        return changed

    def _has_moved(self, name: QueueName) -> bool:
        """Whether a queue comes, goes or states another parent."""
        was, queue = self._before.queues.get(name), self._queues.get(name)
        return was is None or queue is None or _parent(was) != _parent(queue)

    def _stating(self, moved: Set[QueueName]) -> Mapping[QueueName, Set[QueueName]]:
        """Queues by the parent that they state."""
        left = _by_parent(moved, lambda name: _parent(self._before.queues.get(name)))
        came = _by_parent(moved, lambda name: _parent(self._queues.get(name)))
        stating = dict(self._before.stating)
        for parent in {*came, *left}:
            stayed = stating.get(parent, frozenset()) - left.get(parent, set())
            stating[parent] = stayed | came.get(parent, set())
        return stating

    def _place(self, names: Set[QueueName]) -> None:
        """Find the paths of these queues anew, and the children of the queues above them."""
        before = {name: self._paths.get(name, ()) for name in names}
        for name in names:
            self._misplaced.pop(name, None)
            if name not in self._queues:
                del self._paths[name], self._children[name]
                continue
            self._paths[name], error = _path_of(name, self._queues)
            self._children.setdefault(name, ())
            if error is not None:
                self._misplaced[name] = error
        moved = {name for name in names if before[name][1:2] != self._paths.get(name, ())[1:2]}
        left = _by_parent(moved, lambda name: _above(before[name]))
        came = _by_parent(moved, lambda name: _above(self._paths.get(name, ())))
        for parent, names_left in left.items():
            for name in names_left:
                self._more[parent].subtract(self._wanted.pop(name, {}))
        for parent in {*came, *left} & self._queues.keys():
            children = {*self._children[parent]} - left.get(parent, set()) | came.get(parent, set())
            self._children[parent] = tuple(sorted(children))

    def _guarantee(self, names: Set[QueueName]) -> set[QueueName]:
        """Find the guarantees of these queues anew, and of those above as far as they change; children come before
        parents. Returns the queues with other guarantees or errors."""
        waiting = {*names, *(self._more.keys() & self._queues.keys())}
        line = [(-len(self._paths[name]), name) for name in waiting]
        heapify(line)
        done = set[QueueName]()
        while line:
            _, name = heappop(line)
            done.add(name)
            parent, more = _above(self._paths[name]), self._wish(name)
            if parent is not None and more:
                self._more[parent].update(more)
                if parent not in waiting:
                    waiting.add(parent)
                    heappush(line, (-len(self._paths[parent]), parent))
        renewed = set(done)
        for name in done:
            if self._excess.get(name, {}).keys() != self._before.excess.get(name, {}).keys():
                renewed.update(self._children[name])
        for name in renewed:
            parent = _above(self._paths[name])
            beyond = self._excess.get(parent, {}) if parent is not None else {}
            self._guarantees[name] = _without(self._wanted[name], beyond)
        return done

    def _wish(self, name: QueueName) -> Counter[Account]:
        """Find what a queue would keep for itself and its children, and the errors about it. Returns by how much it is
        more than before."""
        queue, numbers = self._queues[name], self._stated[name].numbers
        sums = Counter(self._sums.get(name, {}))
        sums.update(self._more.pop(name, {}))
        self._sums[name] = {account: units for account, units in sums.items() if units}
        before = self._wanted.get(name, {})
        wanted, excess = guaranteed(queue, numbers, self._sums[name])
        self._wanted[name] = wanted
        if excess:
            self._excess[name] = excess
        else:
            self._excess.pop(name, None)
        self._idle[name] = _without(self._sums[name], excess)
        more = Counter(wanted)
        more.subtract(before)
        return Counter({account: units for account, units in more.items() if units})

    def _blame(self, names: Set[QueueName], placed: Set[QueueName]) -> None:
        """Find the errors of these queues anew, and those of all below them that they affect, or that were placed."""
        affected = set(placed)
        for name in {*names, *placed}:
            errors = tuple[MusterError, ...]()
            if name in self._queues:
                misplaced = (self._misplaced[name],) if name in self._misplaced else ()
                errors = (*misplaced, *self._stated[name].wrong, *self._excess.get(name, {}).values())
            if errors or name in self._errors:
                affected.add(name)
            if errors:
                self._errors[name] = errors
            else:
                self._errors.pop(name, None)
        for name in below(affected, self._children):
            found = tuple(error for each in self._paths.get(name, ()) for error in self._errors.get(each, ()))
            if found:
                self._problems[name] = found
            else:
                self._problems.pop(name, None)
        if affected:
            self._problems = dict(sorted(self._problems.items()))

    def _sorted(self, rows: dict[QueueName, T]) -> dict[QueueName, T]:
        """In the order of the names."""
        if self._queues.keys() == self._before.queues.keys():
            return rows
        return {name: rows[name] for name in sorted(rows)}


def _parent(queue: Queue | None) -> QueueName | None:
    """The parent that a queue states; None if it is root, or if there is no such queue."""
    if queue is None or queue.name == ROOT:
        return None
    return ROOT if queue.parent is None else queue.parent


def _above(path: Path) -> QueueName | None:
    """The queue above the one whose path this is; None if there is none."""
    return path[1] if len(path) > 1 else None


def _by_parent(
    names: Iterable[QueueName], parent_of: Callable[[QueueName], QueueName | None]
) -> dict[QueueName, set[QueueName]]:
    grouped: dict[QueueName, set[QueueName]] = {}
    for name in names:
        if (parent := parent_of(name)) is not None:
            grouped.setdefault(parent, set()).add(name)
    return grouped


def below(names: Iterable[T], children: Mapping[T, Iterable[T]]) -> set[T]:
    """These queues and all below them."""
    found, left = set[T](), list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(children.get(name, ()))
    return found


def _without(amounts: Amounts, accounts: Collection[Account]) -> Amounts:
    if not accounts:
        return amounts
    return {account: units for account, units in amounts.items() if account not in accounts}


def _path_of(name: QueueName, queues: Mapping[QueueName, Queue]) -> tuple[Path, MusterError | None]:
    """From the queue to root, and what is wrong with that.

    A queue without a path to root counts as a child of root; one that is too deep as a child of the last queue above it
    that is not.
    """
    path, seen = [name], {name}
    while path[-1] != ROOT:
        queue = queues[path[-1]]
        parent = ROOT if queue.parent is None else queue.parent
        if parent in seen:
            cycle = [*path[path.index(parent) :], parent]
            # A queue that leads into a cycle is not in it: the error names one that is.
            blamed = name if name in cycle else parent
            return (name, ROOT), QueueCycle(queue=blamed, path=" → ".join(cycle))
        if parent not in queues:
            missing = UnknownParent(queue=queue.name, parent=parent)
            return (*path, ROOT), missing if queue.name == name else None
        path.append(parent)
        seen.add(parent)
    level = len(path) - 1
    if level > MOST_LEVELS:
        return (name, *path[-MOST_LEVELS - 1 :]), QueueTooDeep(queue=name, level=level, most=MOST_LEVELS)
    return tuple(path), None


class Claimant(NamedTuple):
    """A queue that gets a share of an amount."""

    name: str
    weight: int | Fraction
    at_least: int = 0
    #: None for no bound.
    at_most: int | None = None


def share_out(amount: int, claimants: Iterable[Claimant]) -> dict[str, int]:
    """Shares in proportion to the weights, none below ``at_least`` or above ``at_most``.

    They sum to ``amount`` unless the bounds forbid it; if the sum of ``at_least`` exceeds it, each claimant gets its
    ``at_least``. Remaining whole units go to the largest fractions, ties by name: the result does not depend on the
    order of claimants.
    """
    active = sorted(claimants)
    shares: dict[str, Fraction] = {}
    left = Fraction(amount)
    while active:
        weights = sum(each.weight for each in active)
        fair = {each.name: left * each.weight / weights if weights else Fraction(0) for each in active}
        bounded = {each.name: _bounded(each, fair[each.name]) for each in active}
        # The side on which more is cut off is settled first, as freezing it can only help the other side.
        drift = sum(bounded.values()) - sum(fair.values())
        settled = [
            each
            for each in active
            if (drift >= 0 and bounded[each.name] > fair[each.name])
            or (drift <= 0 and bounded[each.name] < fair[each.name])
        ]
        for each in settled or active:
            shares[each.name] = bounded[each.name]
            left -= bounded[each.name]
        left = max(left, Fraction(0))
        active = [each for each in active if each not in settled] if settled else []
    return _whole(shares)


def _bounded(claimant: Claimant, share: Fraction) -> Fraction:
    if share < claimant.at_least:
        return Fraction(claimant.at_least)
    if claimant.at_most is not None and share > claimant.at_most:
        return Fraction(claimant.at_most)
    return share


def _whole(shares: dict[str, Fraction]) -> dict[str, int]:
    whole = {name: int(share) for name, share in shares.items()}
    left = int(sum(shares.values(), Fraction(0))) - sum(whole.values())
    by_fraction = sorted(shares, key=lambda name: (whole[name] - shares[name], name))
    for name in by_fraction[:left]:
        whole[name] += 1
    return whole
