"""What queues have beyond their shares, as arrays: whom reclaim may take anything from, for all queues at a time.

Possible victims as arrays: who may go at all, and whether that could ever be enough, for all at a time.

What is said here is said too generously rather than too strictly: ``PreemptionRights.rule`` has the last word on a
unit.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.table import Amounts, Mask
from admission.engine.preemption.candidates import Candidate, VictimCandidates
from admission.engine.preemption.rules import PreemptionRights, ReclaimDepth
from admission.engine.trial import Trial
from queues.quota.accounts import Account
from queues.quota.usage import Usage
from queues.resources import Resources
from queues.workload import AdmissionId, HostPort, QueueName

#: More than anybody has.
_NO_LIMIT = 1 << 62

#: What anybody can be beyond or below a share: guarantees that no node could ever keep add up without end.
_FURTHEST = 1 << 61


class QueueExcess:
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

    def may_lose(
        self, own: QueueName, asked: tuple[Account, ...], below: ReclaimDepth
    ) -> tuple[Mask, Amounts]:
        """(Q,) which queues may lose something to this one, and (Q, A) how much of each account one unit may hold.

        As ``PreemptionRights`` has it: every queue below the common ancestor is above its share of something that is
        asked.
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
        touched = self._usage.dirty_queues
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


def beyond(excess: Amounts, below: ReclaimDepth) -> Amounts:
    """How much of an excess one unit may hold, or all may that go one after another."""
    if below is ReclaimDepth.ANY:
        return np.full_like(excess, _NO_LIMIT)
    return excess if below is ReclaimDepth.NEVER else 2 * excess


def _names(paths: Iterable[Sequence[QueueName]]) -> Iterable[QueueName]:
    return (name for path in paths for name in path)


CandidateMask = NDArray[np.bool_]


class CandidateArrays:
    """All units of a turn, those of one queue next to one another."""

    def __init__(self, herd: VictimCandidates, trial: Trial) -> None:
        self.herd = herd
        self.units: list[Candidate] = []
        #: Those of a queue lie together; ``excess`` tells of these queues, in this order.
        self.of_queue: dict[QueueName, slice] = {}
        for queue, units in sorted(herd.of_queue.items()):
            self.of_queue[queue] = slice(len(self.units), len(self.units) + len(units))
            self.units += units
        self.excess = QueueExcess(list(self.of_queue), trial.usage)
        #: (U,) place of its queue in ``of_queue``; (Q,) where each queue begins.
        sizes = [here.stop - here.start for here in self.of_queue.values()]
        self.queue_of = np.repeat(np.arange(len(sizes)), sizes)
        self._begins = np.array([here.start for here in self.of_queue.values()], np.intp)
        every = self.units
        self.priority = np.array([unit.order[2] for unit in every], np.int64)
        self.arrival = np.array([unit.workload.arrival for unit in every], np.int64)
        self.size = np.array([unit.size for unit in every], np.int64)
        self.members = np.array([unit.pods for unit in every], np.int64)
        #: (U,) place in the order in which units are chosen.
        self.rank = np.empty(len(every), np.int64)
        self.rank[sorted(range(len(every)), key=lambda index: every[index].order)] = np.arange(len(every))
        #: (U,) what one pod of it costs.
        self.price = np.array([unit.cost // unit.pods for unit in every], np.int64)
        alone = np.flatnonzero(self.members == 1)
        alone = alone[np.argsort(self.size[alone], kind="stable")]
        #: Sizes of single pods, ascending, and the lowest priority among those up to there.
        self._sizes, self._lowest = self.size[alone], np.minimum.accumulate(self.priority[alone])
        #: By identity: where a unit lies.
        self.place = {id(unit): index for index, unit in enumerate(every)}
        #: (U,) taken back in this turn.
        self.gone = np.zeros(len(every), np.bool_)
        self._of_admission: dict[AdmissionId, list[int]] = {}
        self._amounts: dict[tuple[Account, ...], Amounts] = {}
        self._seats(trial)

    def _seats(self, trial: Trial) -> None:
        shapes: dict[Resources, int] = {}
        columns: list[int] = []
        owners: list[int] = []
        of_shape: list[int] = []
        #: Host ports of the pod in a seat.
        self.ports: dict[int, tuple[HostPort, ...]] = {}
        position = trial.layout.position
        single = []
        for index, unit in enumerate(self.units):
            for part in unit.parts:
                self._of_admission.setdefault(part.admission.id, []).append(index)
                ports = dict(part.ports)
                for seat in part.seats:
                    column = position.get(seat.node)
                    if column is not None:
                        if taken := ports.pop(seat.node, ()):
                            self.ports[len(columns)] = taken
                        columns.append(column)
                        owners.append(index)
                        of_shape.append(shapes.setdefault(seat.takes, len(shapes)))
            single.append(len(columns) - 1 if unit.pods == 1 and owners and owners[-1] == index else -1)
        self.columns = np.array(columns, np.intp)
        self.owners = np.array(owners, np.intp)
        rows = [trial.vector(takes) for takes in shapes] or [np.zeros(len(trial.free), np.int64)]
        #: (R, S) what each seat takes.
        self.takes = np.stack(rows, axis=1)[:, np.array(of_shape, np.intp)]
        #: (S,) seats by node, on each in the order in which their units are chosen.
        self.by_node = np.lexsort((np.arange(len(owners)), self.rank[self.owners], self.columns))
        #: (U,) the only seat of a unit of one pod; -1: it has more, or its node is not there.
        self.single = np.array(single, np.intp)

    def left(self, admissions: Sequence[AdmissionId]) -> None:
        """These are taken back."""
        for number in admissions:
            for index in self._of_admission.get(number, ()):
                self.gone[index] = True

    def has_single(self, *, smaller: int, priority: int) -> bool:
        """Whether there is a single pod of a smaller size and of no higher priority."""
        many = int(np.searchsorted(self._sizes, smaller))
        return many > 0 and bool(self._lowest[many - 1] <= priority)

    def allowed(
        self, rights: PreemptionRights, *, below: ReclaimDepth, larger: bool, at_once: bool = False
    ) -> CandidateMask:
        """(U,) who may go by queue, priority, size and what its queue has beyond its share, as the books are now.

        ``larger``: other queues' gangs that are larger than what is asked, too. ``at_once``: not those who may go
        only when somebody of the own queue is gone.
        """
        chosen = np.zeros(len(self.units), np.bool_)
        workload, tree = rights.workload, rights.usage.tree
        policy = tree.policy(workload.queue)
        single = (self.priority <= workload.priority) & (self.size < rights.size) & (self.members == 1)
        own = self._own(rights, policy.within_queue or "never", single, chosen)
        if policy.reclaim != "never":
            chosen |= self._reclaimed(rights, below, larger=larger, entitled=own and not at_once)
        if rights.starved:
            chosen |= single & self._cleared(rights, kept=own and not at_once)
        chosen &= ~self.gone
        return chosen

    def _own(
        self, rights: PreemptionRights, within: str, single: CandidateMask, chosen: CandidateMask
    ) -> bool:
        here = self.of_queue.get(rights.workload.queue)
        if here is None:
            return False
        mine, may = rights.workload.priority, single[here] & rights.starved
        if within != "never":
            may |= self.priority[here] < mine
        if within == "lower-or-newer-equal":
            may |= (self.priority[here] == mine) & (self.arrival[here] > rights.workload.arrival)
        chosen[here] = may
        return bool(may.any())

    def _reclaimed(
        self, rights: PreemptionRights, below: ReclaimDepth, *, larger: bool, entitled: bool
    ) -> CandidateMask:
        """(U,) who may go to give back what was lent. ``entitled``: it may own what it asks when others are gone."""
        workload, asked = rights.workload, tuple(rights.asked)
        policy = rights.usage.tree.policy(workload.queue)
        queues, limits = self.excess.may_lose(workload.queue, asked, below)
        lower, most = self.priority < workload.priority, policy.borrow_max_priority
        amounts = self.amounts(asked)
        always = entitled or rights.by_share is not None
        owned = queues & self._on_side(rights, queues, rights.entitled, always=always)
        may: CandidateMask = owned[self.queue_of]
        if most is not None:
            may |= queues[self.queue_of] & lower & (self.priority <= most)
        may &= amounts.any(axis=1) & (amounts <= limits[self.queue_of]).all(axis=1)
        if not larger:
            may &= (self.members == 1) | (self.size <= rights.size)
        if policy.reclaim == "lower-priority":
            may &= lower
        return may

    def _cleared(self, rights: PreemptionRights, *, kept: bool) -> CandidateMask:
        """(U,) in whose queue a place may be cleared. ``kept``: nobody could reclaim it, see
        ``PreemptionRights.keeps``."""
        queue, asked = rights.workload.queue, tuple(rights.asked)
        lent, limits = self.excess.may_lose(queue, asked, ReclaimDepth.NEVER)
        amounts = self.amounts(asked)
        may: CandidateMask = lent[self.queue_of] & (amounts <= limits[self.queue_of]).all(axis=1)
        others = self.excess.reclaimable(queue)
        may |= (others & self._on_side(rights, others, rights.keeps, always=kept))[self.queue_of]
        may[self.of_queue.get(queue, slice(0))] = True
        return may

    def _on_side(
        self,
        rights: PreemptionRights,
        queues: CandidateMask,
        holds: Callable[[Sequence[QueueName]], bool],
        *,
        always: bool,
    ) -> CandidateMask:
        """(Q,) whether it holds for this side of the common ancestor with each of these queues."""
        met = self.excess.meets(rights.workload.queue)
        path = rights.usage.tree.paths[rights.workload.queue]
        answer = np.zeros(len(path), np.bool_)
        for depth in np.unique(met[queues]).tolist():
            answer[depth] = always or holds(path[: len(path) - 1 - depth])
        return answer[met]

    def amounts(self, accounts: tuple[Account, ...]) -> Amounts:
        """(U, A) what each unit holds of these."""
        known = self._amounts.get(accounts)
        if known is None:
            of_books: dict[int, list[int]] = {}
            rows = []
            for unit in self.units:
                row = None
                for part in unit.parts:
                    one = of_books.get(id(part.books))
                    if one is None:
                        one = of_books[id(part.books)] = [part.books.get(each, 0) for each in accounts]
                    row = one if row is None else [a + b for a, b in zip(row, one, strict=True)]
                rows.append(row or [0] * len(accounts))
            known = self._amounts[accounts] = np.array(rows, np.int64).reshape(len(rows), len(accounts))
        return known

    def most_freed(
        self, chosen: CandidateMask, rights: PreemptionRights, below: ReclaimDepth, account: Account
    ) -> Amounts:
        """(Q,) so much of an account that is asked these units could free at most by preemption and reclaim.

        However many of a queue may go, its share ends it: the last one finds it above still. And nobody of others
        goes if nothing asked would be owned even if all these were gone.
        """
        asked, own = tuple(rights.asked), rights.workload.queue
        place = asked.index(account)
        units = chosen * self.amounts(asked)[:, place]
        every_one = np.add.reduceat(units, self._begins) if len(units) else np.zeros(0, np.int64)
        met, path = self.excess.meets(own), rights.usage.tree.paths[own]
        owned = np.ones(len(path), np.bool_)
        for depth in np.unique(met[every_one > 0]).tolist():
            mine = path[: len(path) - 1 - depth]
            owned[depth] = not mine or self._ever_owned(mine, rights, account, every_one)
        freed = every_one * owned[met]
        if below is not ReclaimDepth.ANY:
            excess = self.excess.of_each(asked)
            ends = np.maximum(0, beyond(excess[:, place], below))
            # Who is above in something else may lose more of this.
            others = np.delete(excess, place, axis=1)
            bound = ~(others > 0).any(axis=1) & (met < len(path) - 1)
            freed = np.where(bound, np.minimum(freed, ends), freed)
        return np.asarray(freed)

    def _ever_owned(
        self, mine: Sequence[QueueName], rights: PreemptionRights, account: Account, freed: Amounts
    ) -> bool:
        """Whether one of these may own what is asked of an account when so much less is used, by queue."""
        usage, tree = rights.usage, rights.usage.tree
        if tree.policy(rights.workload.queue).borrow_max_priority is not None:
            return True
        for name in mine:
            if tree.guarantees[name]:
                return True  # less of what is asked arrives further up
            left = usage.counted(name, account) - int(freed[self.excess.under(name)].sum())
            if left + rights.asked[account] <= tree.deserved(name, account):
                return True
        return False

    def of(self, queue: QueueName) -> CandidateMask:
        """(U,) the units of a queue."""
        units = np.zeros(len(self.units), np.bool_)
        units[self.of_queue.get(queue, slice(0))] = True
        return units

    def using(self, name: QueueName, account: Account) -> CandidateMask:
        """(U,) units of a queue and of all below it that hold something of an account."""
        return self.excess.under(name)[self.queue_of] & (self.amounts((account,))[:, 0] > 0)

    def could_hold(self, chosen: CandidateMask, trial: Trial, request: Amounts, mask: Mask) -> Amounts:
        """(N,) pods of that request that fit if all of these units were gone."""
        free = trial.free.copy()
        seats = chosen[self.owners]
        for row in np.flatnonzero(request).tolist():
            np.add.at(free[row], self.columns[seats], self.takes[row, seats])
        rows = np.flatnonzero(request)
        if not len(rows):
            return mask.astype(np.int64) * (1 << 31)
        room: Amounts = np.maximum((free[rows] // request[rows, None]).min(axis=0), 0) * mask
        return room

    def singles(self, chosen: CandidateMask, trial: Trial, request: Amounts, mask: Mask) -> list[int]:
        """Units of one pod whose going alone makes room for one pod of that request, in their order."""
        indices = np.flatnonzero(chosen & (self.single >= 0))
        seats = self.single[indices]
        columns = self.columns[seats]
        fits = mask[columns]
        for row in np.flatnonzero(request).tolist():
            fits &= trial.free[row, columns] + self.takes[row, seats] >= request[row]
        found = indices[fits]
        ordered: list[int] = found[np.argsort(self.rank[found])].tolist()
        return ordered

    def in_order(self, chosen: CandidateMask) -> list[Candidate]:
        """These units, in their order."""
        indices = np.flatnonzero(chosen)
        return [self.units[index] for index in indices[np.argsort(self.rank[indices])].tolist()]
