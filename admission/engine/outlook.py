"""Quick looks at whether victims could be enough: sums of what would be free, before any place is tried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from admission.engine.claims import per_node
from admission.engine.making import Turn
from admission.engine.rights import Below, Rights
from admission.engine.roll import Chosen
from admission.engine.search import Taken
from admission.engine.topology import Mask
from queues.quota.accounts import Account
from queues.resources import Resources
from queues.workload import NO_FLAVOR, PodSet, QueueName


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """For so many pods of one shape: no is certain here, yes is not."""

    turn: Turn
    pods: PodSet
    count: int
    #: Where they may go.
    mask: Mask

    def may_fit(self, queue: QueueName, asked: Mapping[Account, int]) -> bool:
        """Whether no limit stands against it, and enough pods have room somewhere."""
        later = self.turn.later
        if later.usage.refusal(queue, asked) is not None:
            return False
        return int(later.room(self.pods.takes, self.mask).sum()) >= self.count

    def enough(self, chosen: Chosen) -> bool:
        """Whether enough pods would have room if all of these were gone."""
        later = self.turn.later
        room = self.turn.roll.could_hold(chosen, later, later.request(self.pods.takes), self.mask)
        return later.layout.most(room, self.pods.required_topology) >= self.count

    def enough_by_shares(self, chosen: Chosen, rights: Rights, below: Below) -> bool:
        """Whether enough may be free, on nodes and below limits, when no queue loses more than it may."""
        if rights.starved or rights.by_share is not None:
            return True
        later, takes, tree = self.turn.later, self.pods.takes, rights.usage.tree
        path = tree.paths[rights.workload.queue]
        for account, units in rights.asked.items():
            if account.flavor != NO_FLAVOR or takes.get(account.resource) <= 0:
                continue
            freed = self.turn.roll.most_freed(chosen, rights, below, account)
            row = np.flatnonzero(later.request(Resources({account.resource: 1})))
            free = np.maximum(later.free[row], 0) * self.mask
            short = takes[account.resource] * self.count - int(free.sum())
            if short > 0 and short > int(freed.sum()):
                return False
            for name in path:
                if tree.guarantees[name]:
                    break  # less of what is asked arrives further up
                limit = tree.capabilities[name].get(account)
                short = 0 if limit is None else rights.usage.counted(name, account) + units - limit
                if short > 0 and short > int(freed[self.turn.roll.excess.under(name)].sum()):
                    return False
        return True

    def needed(self, taken: Sequence[Taken]) -> Sequence[bool]:
        """For pods of one shape alone: with which of these back too few would have room."""
        later = self.turn.later
        request = later.request(self.pods.takes)
        rows = np.flatnonzero(request)
        if self.pods.required_topology is not None or not len(rows):
            return [False] * len(taken)
        owners, columns, takes = [], [], []
        for place, each in enumerate(taken):
            on, amounts = per_node([seat for part in each.parts for seat in part.seats], later)
            owners += [place] * len(on)
            columns.append(on)
            takes.append(amounts)
        on = np.concatenate(columns)
        back = np.concatenate(takes, axis=1)[rows]
        room = later.room(self.pods.takes, self.mask)
        left = np.maximum(0, (later.free[np.ix_(rows, on)] - back) // request[rows, None]).min(axis=0)
        lost = np.zeros(len(taken), np.int64)
        np.add.at(lost, np.array(owners, np.intp), room[on] - left * self.mask[on])
        certain: list[bool] = (room.sum() - lost < self.count).tolist()
        return certain
