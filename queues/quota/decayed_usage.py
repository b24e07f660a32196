"""Decayed use of queues and users: past use with weights that halve in a half-life, in exact whole numbers.

The decayed average of a holder's use is ∫ used(s) dφ(s) ÷ φ(now), where φ doubles with every half-life: use of a
half-life ago weighs half. φ is 2^(t ÷ half-life) drawn as a chain of straight lines, 64 to a half-life
(``weight``), so φ(t + half-life) = 2 φ(t) to the last digit, and no value depends on when or how often it was asked.

Nothing is sampled. An amount ``a`` taken at p₁ and freed at p₂ adds a (φ(p₂) − φ(p₁)) to the integral. So the past is
one sum Σ ± a φ(p) over the postings of the ledger, and the average is what is held now − that sum ÷ φ(now). Sums are
kept by block of one half-life, so that old blocks can be dropped.

``UsageRecorder`` adds postings to these sums. ``DecayedUsage`` is the past of one snapshot, summed up the queue tree
and brought up to date from snapshot to snapshot. The average of a slot is the one at its end, so that it is the same
throughout the slot.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import isqrt
from typing import Final, NamedTuple

from queues.quota.accounts import Account
from queues.quota.queue import ROOT, Queue
from queues.quota.tree import QueueTree
from queues.versioned_map import VersionedMap, differing
from queues.workload import FlavorName, QueueName

#: Straight lines to a half-life; an average stays the same for one of them.
SLOTS: Final = 64
#: Half-lives of postings that count, besides the current one.
HORIZON: Final = 16
_BITS: Final = 32


def _slopes() -> tuple[int, ...]:
    """2^(i ÷ 64) for each slot of a block, in units of 2^-32."""
    root = 2 << (2 * _BITS * SLOTS)
    for _ in range(SLOTS.bit_length() - 1):
        root = isqrt(root)
    precise = 2 * _BITS
    powers = [1 << precise]
    while len(powers) < SLOTS:
        powers.append(powers[-1] * root >> precise)
    return tuple(power >> _BITS for power in powers)


_SLOPES: Final = _slopes()
#: φ at the start of each slot, all of the past before the block included.
_STARTS: Final = tuple(accumulate(_SLOPES[:-1], initial=sum(_SLOPES)))


class UsageHolder(NamedTuple):
    """A queue, or one user in it, with a half-life (seconds) by which its past use decays."""

    queue: QueueName
    #: "": unknown.
    user: str
    half_life: int


#: Σ ± amount × weight of the postings of one holder, by account and block.
Sums = Mapping[Account, Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastUse:
    """Past use of queues with ``usageHalfLife`` and of the queues below them: all that decisions know of the past."""

    rows: Mapping[UsageHolder, Sums] = field(default_factory=dict)

    def lines(self) -> list[list[str | int]]:
        """Rows of plain values, in order: queue, user, half-life, flavor, resource, block, sum in digits."""
        return [
            [*holder, *account, block, str(units)]
            for holder in sorted(self.rows)
            for account in sorted(self.rows[holder])
            for block, units in sorted(self.rows[holder][account].items())
        ]

    @classmethod
    def from_lines(cls, lines: Iterable[Iterable[str | int]]) -> "PastUse":
        """The past use that ``lines`` wrote. Raises ValueError or TypeError."""
        rows: dict[UsageHolder, dict[Account, dict[int, int]]] = {}
        for queue, user, half_life, flavor, resource, block, units in lines:
            texts, numbers = (queue, user, flavor, resource, units), (half_life, block)
            if not all(isinstance(each, str) for each in texts) or not all(
                isinstance(each, int) for each in numbers
            ):
                raise TypeError(f"a line of past use with {(*texts, *numbers)!r}")
            holder = UsageHolder(QueueName(str(queue)), str(user), int(half_life))
            if holder.half_life <= 0:
                raise ValueError(f"a half-life of {half_life} s")
            sums = rows.setdefault(holder, {}).setdefault(Account(FlavorName(str(flavor)), str(resource)), {})
            sums[int(block)] = int(units)
        return cls(rows=rows)


NO_PAST: Final = PastUse()


def weight(moment: int, half_life: int) -> tuple[int, int]:
    """φ at a moment (seconds since the epoch) as (block, m): m × 2^block."""
    block, inside = divmod(moment, half_life)
    slot, rest = divmod(inside * SLOTS, half_life)
    return block, weigh_slot(half_life, slot, 1, rest)


def weigh_slot(half_life: int, slot: int, units: int, lag: int) -> int:
    """Σ a × m over postings of amounts ``a`` in one slot (0 … 63) of a block.

    ``units`` = Σ a; ``lag`` = Σ a × r, where r is 64 × seconds since the start of the block modulo the half-life.
    """
    return _STARTS[slot] * half_life * units + _SLOPES[slot] * lag


def slot_of(moment: int, half_life: int) -> int:
    """The number of the slot that a moment lies in, counted from the epoch."""
    return moment * SLOTS // half_life


def slot_ends(moment: int, half_life: int) -> int:
    """The first second of the next slot."""
    return -(-(slot_of(moment, half_life) + 1) * half_life // SLOTS)


def oldest_block(now: int, half_life: int) -> int:
    """The first block that still counts."""
    return now // half_life - HORIZON


def half_lives(queues: Mapping[QueueName, Queue]) -> dict[QueueName, frozenset[int]]:
    """Half-lives of each queue: its own, and those of its ancestors. Absent: past use does not count."""
    if not any(queue.policy.usage_half_life for queue in queues.values()):
        return {}
    tree = QueueTree.build(queues, None)
    own = {name: tree.policy(name).usage_half_life for name in tree.paths}
    found = {
        name: frozenset(fading for each in path if each != ROOT and (fading := own[each]))
        for name, path in tree.paths.items()
    }
    return {name: every for name, every in found.items() if every}


class UsageRecorder:
    """Past use that grows posting by posting. Mutable."""

    def __init__(self) -> None:
        #: Half-lives by which the postings of each queue are recorded.
        self.half_lives: Mapping[QueueName, frozenset[int]] = {}
        self._rows: VersionedMap[UsageHolder, Sums] = VersionedMap()
        self._swept: dict[int, int] = {}
        self._past = NO_PAST

    def begin(
        self, half_lives: Mapping[QueueName, frozenset[int]], rows: Mapping[UsageHolder, Sums], now: int
    ) -> None:
        """Start again from these rows."""
        self.half_lives = half_lives
        self._rows = VersionedMap(rows)
        every = frozenset[int]().union(*half_lives.values())
        self._swept = {half_life: now // half_life for half_life in every}
        self._past = PastUse(rows=self._rows.freeze()) if half_lives else NO_PAST

    def post(self, queue: QueueName, user: str, amounts: Mapping[Account, int], at: int) -> None:
        """Record amounts taken at a second; negative amounts are freed."""
        for half_life in self.half_lives.get(queue, ()):
            holder = UsageHolder(queue, user, half_life)
            block, weighs = weight(at, half_life)
            sums = dict(self._rows.get(holder) or {})
            for account, units in amounts.items():
                if units:
                    sums[account] = _with(sums.get(account, {}), block, units * weighs)
            self._put(holder, sums)

    def freeze(self, now: int) -> PastUse:
        """The past use now; the same object as long as nothing changes."""
        for half_life, block in self._swept.items():
            if now // half_life > block:
                self._swept[half_life] = now // half_life
                self._sweep(half_life, oldest_block(now, half_life))
        rows = self._rows.freeze()
        if rows is not self._past.rows and (rows or self._past.rows):
            self._past = PastUse(rows=rows)
        return self._past

    def _sweep(self, half_life: int, oldest: int) -> None:
        for holder, sums in list(self._rows.freeze().items()):
            if holder.half_life == half_life and any(
                block < oldest for blocks in sums.values() for block in blocks
            ):
                self._put(
                    holder,
                    {
                        account: {block: units for block, units in blocks.items() if block >= oldest}
                        for account, blocks in sums.items()
                    },
                )

    def _put(self, holder: UsageHolder, sums: Mapping[Account, Mapping[int, int]]) -> None:
        kept = {account: blocks for account, blocks in sums.items() if blocks}
        if kept:
            self._rows.put(holder, kept)
        else:
            self._rows.pop(holder)


def _with(blocks: Mapping[int, int], block: int, units: int) -> dict[int, int]:
    after = dict(blocks)
    after[block] = after.get(block, 0) + units
    if not after[block]:
        del after[block]
    return after


class HolderUsage(NamedTuple):
    """Past use of one holder at the end of the slot: by account, the average is held − sums ÷ scale."""

    scale: int
    sums: Mapping[Account, int]
    #: Amounts held at the start of the turn.
    held: Mapping[Account, int]

    def twice(self, account: Account, held: int) -> int:
        """Half of the amount held now and half of the average, in units of 1 ÷ (2 × scale).

        This is the average a half-life from now if the amount stays the same.
        """
        return (held + self.held.get(account, 0)) * self.scale - self.sums.get(account, 0)

    def averages(self) -> dict[Account, int]:
        """Averages by account, to the nearest unit, without those that decayed to 0. Decisions use ``twice``."""
        averages = {}
        for account in dict.fromkeys((*self.held, *self.sums)):
            integral = self.held.get(account, 0) * self.scale - self.sums.get(account, 0)
            if rounded := (2 * integral + self.scale) // (2 * self.scale):
                averages[account] = rounded
        return averages


_QueueOrUser = QueueName | tuple[QueueName, str]


@dataclass(slots=True, eq=False)
class DecayedUsage:
    """Past use of one snapshot, summed up the tree, and brought up to date from snapshot to snapshot."""

    tree: QueueTree
    #: Amounts that a queue with its subtree, or a user in a queue, holds at the start of the turn.
    held: Callable[[QueueName], Mapping[Account, int]]
    held_by_user: Callable[[QueueName, str], Mapping[Account, int]]
    now: int = 0
    _rows: Mapping[UsageHolder, Sums] = field(default_factory=dict)
    #: By queue, in its own half-life, with its subtree.
    _sums: dict[QueueName, dict[Account, dict[int, int]]] = field(default_factory=dict)
    _known: dict[_QueueOrUser, tuple[int, Mapping[Account, int]]] = field(default_factory=dict)
    _queues: dict[int, list[QueueName]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for queue in self.tree.paths:
            if (half_life := self.half_life(queue)) is not None:
                self._queues.setdefault(half_life, []).append(queue)

    @classmethod
    def over(
        cls,
        tree: QueueTree,
        held: Callable[[QueueName], Mapping[Account, int]],
        held_by_user: Callable[[QueueName, str], Mapping[Account, int]],
    ) -> "DecayedUsage | None":
        """Past use for these queues; None if it counts in none of them."""
        if not any(queue.policy.usage_half_life for queue in tree.queues.values()):
            return None
        return cls(tree, held, held_by_user)

    def update(self, past: PastUse, now: int) -> set[QueueName]:
        """Bring the averages up to the next snapshot. Returns the queues with changed averages."""
        changed: set[QueueName] = set()
        for holder in differing(self._rows, past.rows):
            for queue in self.tree.paths.get(holder.queue, ()):
                if queue != ROOT and self.half_life(queue) == holder.half_life:
                    self._move(queue, self._rows.get(holder, {}), past.rows.get(holder, {}))
                    changed.add(queue)
        self._rows = past.rows
        for half_life, queues in self._queues.items():
            if slot_of(now, half_life) != slot_of(self.now, half_life):
                changed.update(queues)
        self.now = now
        for known in [each for each in self._known if _queue_of(each) in changed]:
            del self._known[known]
        return changed

    def half_life(self, queue: QueueName) -> int | None:
        """The half-life of a queue's past use, in seconds; None if it does not count."""
        return self.tree.policy(queue).usage_half_life or None

    def until(self) -> int | None:
        """The next second at which an average changes without a posting; None if it never does."""
        if not self._sums:
            return None
        return min((slot_ends(self.now, half_life) for half_life in self._queues), default=None)

    def of_queue(self, queue: QueueName) -> HolderUsage | None:
        """Past use of a queue with its subtree; None if it does not count."""
        half_life = self.half_life(queue)
        if half_life is None or queue == ROOT:
            return None
        known = self._known.get(queue)
        if known is None:
            known = self._known[queue] = self._decayed(half_life, self._sums.get(queue, {}))
        return HolderUsage(*known, self.held(queue))

    def of_user(self, queue: QueueName, user: str) -> HolderUsage | None:
        """Past use of one user in a queue; None if it does not count."""
        half_life = self.half_life(queue)
        if half_life is None:
            return None
        known = self._known.get((queue, user))
        if known is None:
            sums = self._rows.get(UsageHolder(queue, user, half_life), {})
            known = self._known[queue, user] = self._decayed(half_life, sums)
        return HolderUsage(*known, self.held_by_user(queue, user))

    def _decayed(self, half_life: int, sums: Sums) -> tuple[int, Mapping[Account, int]]:
        oldest = oldest_block(self.now, half_life)
        block, slot = divmod(slot_of(self.now, half_life) + 1, SLOTS)
        return weigh_slot(half_life, slot, 1, 0) << block - oldest, {
            account: sum(units << each - oldest for each, units in blocks.items() if each >= oldest)
            for account, blocks in sums.items()
        }

    def _move(self, queue: QueueName, before: Sums, after: Sums) -> None:
        book = self._sums.setdefault(queue, {})
        for sums, sign in ((before, -1), (after, 1)):
            for account, blocks in sums.items():
                total = book.setdefault(account, {})
                for block, units in blocks.items():
                    total[block] = total.get(block, 0) + sign * units
                    if not total[block]:
                        del total[block]
                if not total:
                    del book[account]
        if not book:
            del self._sums[queue]


def _queue_of(holder: _QueueOrUser) -> QueueName:
    return holder[0] if isinstance(holder, tuple) else holder
