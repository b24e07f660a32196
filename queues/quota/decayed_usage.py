"""What queues and users had in the past, with weights that halve in a half-life: exact whole numbers only.

The decayed average of what somebody had is ∫ had(s) dφ(s) ÷ φ(now), where φ doubles with every half-life: what
was had a half-life ago weighs half. φ is 2^(t ÷ half-life) drawn as a chain of straight lines, 64 to a half-life
(``weight``), so φ(t + half-life) = 2 φ(t) to the last digit, and no value depends on when or how often it was asked.

Nothing is sampled. Had somebody taken ``a`` at p₁ and given it back at p₂, the integral is a (φ(p₂) − φ(p₁)): all
that has to be known of the past is one sum Σ ± a φ(p) over the postings of the ledger, and the average is what is
held now − that sum ÷ φ(now). The sums are kept by block of one half-life, so that old ones fall out of sight.

The past of one snapshot as decisions weigh it: summed up the queue tree, kept up from snapshot to snapshot.

The average of a slot is the one at its end, so that it is the same in all of the slot, whenever it is asked.
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

#: So many straight lines to a half-life; the average of the past stays the same for as long.
SLOTS: Final = 64

#: Postings of so many half-lives count, and of the current one.
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
    """Whose past it is, and by which half-life (seconds) it fades."""

    queue: QueueName
    #: "": nobody said who asked.
    user: str
    half_life: int


#: Σ ± amount × weight of the postings of one holder, by account and block.
Sums = Mapping[Account, Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastUse:
    """All that decisions know of the past: of queues with ``usageHalfLife``, and those below them."""

    rows: Mapping[UsageHolder, Sums] = field(default_factory=dict)

    def lines(self) -> list[list[str | int]]:
        """As rows of plain values, in order: queue, user, half-life, flavor, resource, block, sum in digits."""
        return [
            [*holder, *account, block, str(units)]
            for holder in sorted(self.rows)
            for account in sorted(self.rows[holder])
            for block, units in sorted(self.rows[holder][account].items())
        ]

    @classmethod
    def from_lines(cls, lines: Iterable[Iterable[str | int]]) -> "PastUse":
        """What ``lines`` wrote. Raises ValueError or TypeError."""
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
    """By which half-lives the past of each queue fades: its own, and those of queues above. Without: absent."""
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
    """The past as it grows, posting by posting. Mutable."""

    def __init__(self) -> None:
        #: By which half-lives what the queues post is remembered.
        self.half_lives: Mapping[QueueName, frozenset[int]] = {}
        self._rows: VersionedMap[UsageHolder, Sums] = VersionedMap()
        self._swept: dict[int, int] = {}
        self._past = NO_PAST

    def begin(
        self, half_lives: Mapping[QueueName, frozenset[int]], rows: Mapping[UsageHolder, Sums], now: int
    ) -> None:
        """Forget everything, and remember this instead."""
        self.half_lives = half_lives
        self._rows = VersionedMap(rows)
        every = frozenset[int]().union(*half_lives.values())
        self._swept = {half_life: now // half_life for half_life in every}
        self._past = PastUse(rows=self._rows.freeze()) if half_lives else NO_PAST

    def post(self, queue: QueueName, user: str, amounts: Mapping[Account, int], at: int) -> None:
        """What was taken at a second, or (below 0) given back."""
        for half_life in self.half_lives.get(queue, ()):
            holder = UsageHolder(queue, user, half_life)
            block, weighs = weight(at, half_life)
            sums = dict(self._rows.get(holder) or {})
            for account, units in amounts.items():
                if units:
                    sums[account] = _with(sums.get(account, {}), block, units * weighs)
            self._put(holder, sums)

    def freeze(self, now: int) -> PastUse:
        """The past as it is now; the same object as long as nothing changes."""
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
    """Of one holder, as it will be when the slot ends: by account the average is held − sums ÷ scale."""

    scale: int
    sums: Mapping[Account, int]
    #: What it holds at the start of the turn.
    held: Mapping[Account, int]

    def twice(self, account: Account, held: int) -> int:
        """Half of what is held now and half of the average, in units of 1 ÷ (2 × scale).

        That is what the average will be a half-life from now if what is held now stays.
        """
        return (held + self.held.get(account, 0)) * self.scale - self.sums.get(account, 0)

    def average(self, account: Account) -> int:
        """The decayed average, rounded to the nearest unit: for people, decisions take ``twice``."""
        doubled = 2 * (self.held.get(account, 0) * self.scale - self.sums.get(account, 0)) + self.scale
        return doubled // (2 * self.scale)

    def averages(self) -> dict[Account, int]:
        """The average of all that was ever posted, in whole units; what has faded away is left out."""
        told = {account: self.average(account) for account in dict.fromkeys((*self.held, *self.sums))}
        return {account: units for account, units in told.items() if units}


_Whose = QueueName | tuple[QueueName, str]


@dataclass(slots=True, eq=False)
class DecayedUsage:
    """The past of one snapshot, summed up the tree. Brought up to date from snapshot to snapshot."""

    tree: QueueTree
    #: What a queue with everything below it, or a user in a queue, holds at the start of the turn.
    held: Callable[[QueueName], Mapping[Account, int]]
    held_by_user: Callable[[QueueName, str], Mapping[Account, int]]
    now: int = 0
    _rows: Mapping[UsageHolder, Sums] = field(default_factory=dict)
    #: By queue, in its own half-life, with everything below.
    _sums: dict[QueueName, dict[Account, dict[int, int]]] = field(default_factory=dict)
    _known: dict[_Whose, tuple[int, Mapping[Account, int]]] = field(default_factory=dict)
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
        """Of these queues; None: past use counts in none of them."""
        if not any(queue.policy.usage_half_life for queue in tree.queues.values()):
            return None
        return cls(tree, held, held_by_user)

    def see(self, past: PastUse, now: int) -> set[QueueName]:
        """The next snapshot. Returns queues whose averages are other ones now."""
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
        for whose in [each for each in self._known if _queue(each) in changed]:
            del self._known[whose]
        return changed

    def half_life(self, queue: QueueName) -> int | None:
        """In which a queue's past counts half; None: it does not count."""
        return self.tree.policy(queue).usage_half_life or None

    def until(self) -> int | None:
        """The next second at which some average is another one, though nothing is posted; None: there is none."""
        if not self._sums:
            return None
        return min((slot_ends(self.now, half_life) for half_life in self._queues), default=None)

    def of_queue(self, queue: QueueName) -> HolderUsage | None:
        """The past of a queue with everything below it; None: it does not count."""
        half_life = self.half_life(queue)
        if half_life is None or queue == ROOT:
            return None
        known = self._known.get(queue)
        if known is None:
            known = self._known[queue] = self._faded(half_life, self._sums.get(queue, {}))
        return HolderUsage(*known, self.held(queue))

    def of_user(self, queue: QueueName, user: str) -> HolderUsage | None:
        """The past of one user in a queue; None: it does not count."""
        half_life = self.half_life(queue)
        if half_life is None:
            return None
        known = self._known.get((queue, user))
        if known is None:
            sums = self._rows.get(UsageHolder(queue, user, half_life), {})
            known = self._known[queue, user] = self._faded(half_life, sums)
        return HolderUsage(*known, self.held_by_user(queue, user))

    def _faded(self, half_life: int, sums: Sums) -> tuple[int, Mapping[Account, int]]:
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


def _queue(whose: _Whose) -> QueueName:
    return whose[0] if isinstance(whose, tuple) else whose
