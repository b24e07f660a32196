"""What queues have beyond their shares, as arrays: whom reclaim may take anything from, for all queues at a time."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from admission.engine.rights import Below
from admission.engine.topology import Amounts, Mask
from queues.quota.accounts import Account
from queues.quota.usage import Usage
from queues.workload import QueueName

#: More than anybody has.
_NO_LIMIT = 1 << 62
#: What anybody can be beyond or below a share: guarantees that no node could ever keep add up without end.
_FURTHEST = 1 << 61


class Excess:
    """The books of some queues and of all above them, beside their shares, as the books go on.

    (Q,) is one entry per queue given, in that order.
    """

    def __init__(self, queues: Sequence[QueueName], usage: Usage) -> None:
        """``usage``: whose ``touched`` is emptied here, so nobody else may ask for it."""
        tree = usage.tree
        self._usage = usage
        paths = [tree.paths[queue][::-1] for queue in queues]
        self._index = {name: row for row, name in enumerate(dict.fromkeys(_names(paths)))}
        #: (Q, L) whose share counts at each level, root first; -1: the queue is above.
        self._levels = np.full((len(paths), max(map(len, paths), default=0)), -1, np.intp)
        for row, path in enumerate(paths):
            self._levels[row, : len(path)] = [self._index[name] for name in path]
        self._depth = np.array([len(path) - 1 for path in paths], np.intp)
        #: (Q,) the deepest level from which nothing is reclaimed; 0: there is none.
        self._kept = np.array(
            [
                max(
                    (depth for depth, name in enumerate(path) if not tree.queues[name].reclaimable), default=0
                )
                for path in paths
            ],
            np.intp,
        )
        self._met: dict[QueueName, NDArray[np.intp]] = {}
        self._of: dict[tuple[Account, ...], Amounts] = {}

    def meets(self, own: QueueName) -> NDArray[np.intp]:
        """(Q,) at which level the path of each queue leaves that of this one."""
        known = self._met.get(own)
        if known is None:
            path = [self._index.get(name, -2) for name in self._usage.tree.paths[own][::-1]]
            levels = self._levels.shape[1]
            mine = np.array((path + [-2] * levels)[:levels], np.intp)
            same = np.logical_and.accumulate(self._levels == mine, axis=1)
            known = self._met[own] = same.sum(axis=1) - 1
        return known

    def may_lose(self, own: QueueName, asked: tuple[Account, ...], below: Below) -> tuple[Mask, Amounts]:
        """(Q,) which queues may lose something to this one, and (Q, A) how much of each account one unit may hold.

        As ``Rights`` has it: every queue below the common ancestor is above its share of something that is asked.
        """
        excess, met = self._beyond(asked), self.meets(own)
        above: Mask = np.asarray((excess > 0).any(axis=1))
        most = np.where(excess > 0, beyond(excess, below), _NO_LIMIT)
        may = self.reclaimable(own)
        limits = np.full((len(met), len(asked)), _NO_LIMIT, np.int64)
        for level in range(1, self._levels.shape[1]):
            here = self._levels[:, level]
            counts = (level > met) & (here >= 0)
            may &= ~counts | above[here]
            np.minimum(limits, most[here], out=limits, where=counts[:, None])
        return may, limits

    def reclaimable(self, own: QueueName) -> Mask:
        """(Q,) which queues share an ancestor with this one below which all are ``reclaimable``."""
        met = self.meets(own)
        return np.asarray(
            (met < self._depth) & (met < len(self._usage.tree.paths[own]) - 1) & (self._kept <= met)
        )

    def of_each(self, asked: tuple[Account, ...]) -> Amounts:
        """(Q, A) what each queue itself has beyond its share; negative: it is below."""
        return self._beyond(asked)[self._levels[np.arange(len(self._depth)), self._depth]]

    def under(self, name: QueueName) -> Mask:
        """(Q,) which of the queues are this one or below it."""
        return np.asarray((self._levels == self._index.get(name, -2)).any(axis=1))

    def _beyond(self, asked: tuple[Account, ...]) -> Amounts:
        """(names, A) as the books are now."""
        touched = self._usage.touched
        if touched:
            names = [name for name in touched if name in self._index]
            rows = [self._index[name] for name in names]
            for accounts, known in self._of.items():
                known[rows] = self._read(names, accounts)
            touched.clear()
        if asked not in self._of:
            self._of[asked] = self._read(list(self._index), asked)
        return self._of[asked]

    def _read(self, names: Sequence[QueueName], asked: tuple[Account, ...]) -> Amounts:
        usage, tree = self._usage, self._usage.tree
        amounts = [
            max(-_FURTHEST, min(usage.counted(name, each) - tree.deserved(name, each), _FURTHEST))
            for name in names
            for each in asked
        ]
        return np.array(amounts, np.int64).reshape(len(names), len(asked))


def beyond(excess: Amounts, below: Below) -> Amounts:
    """How much of an excess one unit may hold, or all may that go one after another."""
    if below is Below.ANY:
        return np.full_like(excess, _NO_LIMIT)
    return excess if below is Below.NEVER else 2 * excess


def _names(paths: Iterable[Sequence[QueueName]]) -> Iterable[QueueName]:
    return (name for path in paths for name in path)
