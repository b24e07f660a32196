"""Possible victims as arrays: who may go at all, and whether that could ever be enough, for all at a time.

What is said here is said too generously rather than too strictly: ``Rights.rule`` has the last word on a unit.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from admission.engine.rights import Below, Rights
from admission.engine.topology import Amounts, Mask
from admission.engine.trial import Trial
from admission.engine.victims import Herd, Unit
from queues.account import Account
from queues.quota import QueueTree
from queues.resources import Resources
from queues.workload import AdmissionId, QueueName

Chosen = NDArray[np.bool_]


class Roll:
    """All units of a turn, those of one queue next to one another."""

    def __init__(self, herd: Herd, trial: Trial) -> None:
        self.herd = herd
        self.units: list[Unit] = []
        self.of_queue: dict[QueueName, slice] = {}
        for queue, units in sorted(herd.of_queue.items()):
            self.of_queue[queue] = slice(len(self.units), len(self.units) + len(units))
            self.units += units
        #: Where each queue begins.
        self._begins = np.array([here.start for here in self.of_queue.values()], np.intp)
        every = self.units
        self.priority = np.array([unit.order[2] for unit in every], np.int64)
        self.arrival = np.array([unit.workload.arrival for unit in every], np.int64)
        self.size = np.array([unit.size for unit in every], np.int64)
        self.members = np.array([unit.pods for unit in every], np.int64)
        #: (U,) place in the order in which units are chosen.
        self.rank = np.empty(len(every), np.int64)
        self.rank[sorted(range(len(every)), key=lambda index: every[index].order)] = np.arange(len(every))
        #: (U,) taken back in this turn.
        self.gone = np.zeros(len(every), np.bool_)
        self._of_admission: dict[AdmissionId, list[int]] = {}
        self._amounts: dict[tuple[Account, ...], Amounts] = {}
        self._above: dict[tuple[Account, ...], list[QueueName]] = {}
        self._seats(trial)

    def _seats(self, trial: Trial) -> None:
        shapes: dict[Resources, int] = {}
        columns, owners, of_shape = [], [], []
        position = trial.layout.position
        single = []
        for index, unit in enumerate(self.units):
            for part in unit.parts:
                self._of_admission.setdefault(part.admission.id, []).append(index)
                for seat in part.seats:
                    column = position.get(seat.node)
                    if column is not None:
                        columns.append(column)
                        owners.append(index)
                        of_shape.append(shapes.setdefault(seat.takes, len(shapes)))
            single.append(len(columns) - 1 if unit.pods == 1 and owners and owners[-1] == index else -1)
        self.columns = np.array(columns, np.intp)
        self.owners = np.array(owners, np.intp)
        rows = [trial.request(takes) for takes in shapes] or [np.zeros(len(trial.free), np.int64)]
        #: (R, S) what each seat takes.
        self.takes = np.stack(rows, axis=1)[:, np.array(of_shape, np.intp)]
        #: (U,) the only seat of a unit of one pod; -1: it has more, or its node is not there.
        self.single = np.array(single, np.intp)

    def left(self, admissions: Sequence[AdmissionId]) -> None:
        """These are taken back."""
        for number in admissions:
            for index in self._of_admission.get(number, ()):
                self.gone[index] = True

    def allowed(self, rights: Rights, *, below: Below, larger: bool) -> Chosen:
        """(U,) who may go by queue, priority, size and what its queue has beyond its share.

        ``larger``: other queues' gangs that are larger than what is asked, too.
        """
        chosen = np.zeros(len(self.units), np.bool_)
        workload, tree = rights.workload, rights.usage.tree
        policy = tree.policy(workload.queue)
        of_own = self._own(rights, policy.within_queue or "never", chosen)
        if policy.reclaim != "never":
            for queue in self._queues_above(rights):
                meeting = rights.meeting(queue)
                if meeting is None or not meeting.reclaimable:
                    continue
                entitled = of_own or rights.by_share is not None or rights.entitled(meeting)
                most = None if entitled else policy.borrow_max_priority
                if not entitled and most is None:
                    continue
                here = self.of_queue[queue]
                may = self._within_excess(rights, queue, here, below)
                if not larger:
                    may &= (self.members[here] == 1) | (self.size[here] <= rights.size)
                if policy.reclaim == "lower-priority" or most is not None:
                    may &= self.priority[here] < workload.priority
                if most is not None:
                    may &= self.priority[here] <= most
                chosen[here] |= may
        if rights.starved:
            chosen |= (self.priority <= workload.priority) & (self.size < rights.size) & (self.members == 1)
        chosen &= ~self.gone
        return chosen

    def _own(self, rights: Rights, within: str, chosen: Chosen) -> bool:
        here = self.of_queue.get(rights.workload.queue)
        if here is None or within == "never":
            return False
        mine = rights.workload.priority
        may = self.priority[here] < mine
        if within == "lower-or-newer-equal":
            may |= (self.priority[here] == mine) & (self.arrival[here] > rights.workload.arrival)
        chosen[here] = may
        return bool(may.any())

    def _queues_above(self, rights: Rights) -> list[QueueName]:
        """Other queues that have more than their share of something that is asked, at first."""
        accounts = tuple(rights.asked)
        known = self._above.get(accounts)
        if known is None:
            usage, tree = rights.usage, rights.usage.tree
            known = self._above[accounts] = [
                queue
                for queue in self.of_queue
                if any(usage.counted(queue, each) > tree.deserved(queue, each) for each in accounts)
            ]
        return [queue for queue in known if queue != rights.workload.queue]

    def _within_excess(self, rights: Rights, queue: QueueName, here: slice, below: Below) -> Chosen:
        amounts = self._amounts_of(tuple(rights.asked))[here]
        may: Chosen = np.asarray(amounts.any(axis=1))
        if below is not Below.ANY:
            usage, tree = rights.usage, rights.usage.tree
            for place, account in enumerate(rights.asked):
                excess = usage.counted(queue, account) - tree.deserved(queue, account)
                if excess > 0:
                    most = excess if below is Below.NEVER else 2 * excess
                    may &= amounts[:, place] <= most
        return may

    def _amounts_of(self, accounts: tuple[Account, ...]) -> Amounts:
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
        self, chosen: Chosen, rights: Rights, below: Below, account: Account
    ) -> dict[QueueName, int]:
        """So much of an account that is asked these units of each queue could free at most by preemption and reclaim.

        However many of a queue may go, its share ends it: the last one finds it above still. And nobody of others
        goes if nothing asked would be owned even if all these were gone.
        """
        every, usage, tree = tuple(rights.asked), rights.usage, rights.usage.tree
        amounts = self._amounts_of(every)[:, every.index(account)] * chosen
        sums = np.add.reduceat(amounts, self._begins).tolist() if len(amounts) else []
        every_one = {queue: units for queue, units in zip(self.of_queue, sums, strict=False) if units}
        freed, own = dict(every_one), rights.workload.queue
        owned: dict[tuple[QueueName, ...], bool] = {}
        for queue, units in every_one.items():
            meeting = rights.meeting(queue) if queue != own else None
            if meeting is None:
                continue
            if meeting.mine not in owned:
                owned[meeting.mine] = self._ever_owned(meeting.mine, rights, account, every_one)
            if not owned[meeting.mine]:
                freed[queue] = 0
            elif below is not Below.ANY:
                excess = usage.counted(queue, account) - tree.deserved(queue, account)
                # Who is above in something else may lose more of this.
                if len(every) == 1 or not any(
                    usage.counted(queue, each) > tree.deserved(queue, each)
                    for each in every
                    if each != account
                ):
                    freed[queue] = min(units, max(0, excess) * (1 if below is Below.NEVER else 2))
        return freed

    def _ever_owned(
        self, mine: Sequence[QueueName], rights: Rights, account: Account, freed: Mapping[QueueName, int]
    ) -> bool:
        """Whether one of these may own what is asked of an account when so much less is used, by queue."""
        usage, tree = rights.usage, rights.usage.tree
        if tree.policy(rights.workload.queue).borrow_max_priority is not None:
            return True
        for name in mine:
            if tree.guarantees[name]:
                return True  # less of what is asked arrives further up
            left = usage.counted(name, account) - within(freed, name, tree)
            if left + rights.asked[account] <= tree.deserved(name, account):
                return True
        return False

    def could_hold(self, chosen: Chosen, trial: Trial, request: Amounts, mask: Mask) -> Amounts:
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

    def singles(self, chosen: Chosen, trial: Trial, request: Amounts, mask: Mask) -> list[int]:
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

    def in_order(self, chosen: Chosen) -> list[Unit]:
        """These units, in their order."""
        indices = np.flatnonzero(chosen)
        return [self.units[index] for index in indices[np.argsort(self.rank[indices])].tolist()]


def within(freed: Mapping[QueueName, int], name: QueueName, tree: QueueTree) -> int:
    """What is freed in a queue and everything under it."""
    return sum(units for queue, units in freed.items() if name in tree.paths[queue])
