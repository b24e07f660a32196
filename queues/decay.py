"""The past of one snapshot as decisions weigh it: summed up the queue tree, kept up from snapshot to snapshot.

The average of a slot is the one at its end, so that it is the same in all of the slot, whenever it is asked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from queues.account import Account
from queues.past_use import SLOTS, Holder, PastUse, Sums, oldest_block, slot_ends, slot_of, weigh_slot
from queues.queue import ROOT
from queues.quota import QueueTree
from queues.rows import differing
from queues.workload import QueueName


class Past(NamedTuple):
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
class Decay:
    """The past of one snapshot, summed up the tree. Brought up to date from snapshot to snapshot."""

    tree: QueueTree
    #: What a queue with everything below it, or a user in a queue, holds at the start of the turn.
    held: Callable[[QueueName], Mapping[Account, int]]
    held_by_user: Callable[[QueueName, str], Mapping[Account, int]]
    now: int = 0
    _rows: Mapping[Holder, Sums] = field(default_factory=dict)
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
    ) -> "Decay | None":
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

    def of_queue(self, queue: QueueName) -> Past | None:
        """The past of a queue with everything below it; None: it does not count."""
        half_life = self.half_life(queue)
        if half_life is None or queue == ROOT:
            return None
        known = self._known.get(queue)
        if known is None:
            known = self._known[queue] = self._faded(half_life, self._sums.get(queue, {}))
        return Past(*known, self.held(queue))

    def of_user(self, queue: QueueName, user: str) -> Past | None:
        """The past of one user in a queue; None: it does not count."""
        half_life = self.half_life(queue)
        if half_life is None:
            return None
        known = self._known.get((queue, user))
        if known is None:
            sums = self._rows.get(Holder(queue, user, half_life), {})
            known = self._known[queue, user] = self._faded(half_life, sums)
        return Past(*known, self.held_by_user(queue, user))

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
