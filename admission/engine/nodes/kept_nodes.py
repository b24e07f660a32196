"""What reservations of tenants' administrators keep idle, as use of the queues that they are for.

No other queue can use an idle node that is kept for a queue. So it counts as used by that queue wherever fairness is
decided: in the order of queues, and in what can be reclaimed. Limits do not count it, or the queue's own work could not
enter its nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.table import Amounts, NodeTable
from queues.quota.accounts import Account
from queues.resources import is_device
from queues.workload import NO_FLAVOR, FlavorName, QueueName

Columns = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class KeptNodes:
    """The nodes that tenants keep in a turn."""

    holders: Sequence[QueueName]
    #: (N,) which of the holders keeps a node; -1: none does.
    of: NDArray[np.int64]
    #: By column.
    flavors: Sequence[FlavorName]
    #: By row.
    resources: Sequence[str]

    @classmethod
    def on(cls, table: NodeTable) -> "KeptNodes | None":
        """Those of a table with closed nodes. None if there are none. Platform administrators keep what they like."""
        holders: list[QueueName] = []
        of = np.full(len(table), -1, np.int64)
        for closed in table.layout.closed:
            if closed.closure.of_tenant and closed.closure.queue is not None:
                of[closed.mask & (of < 0)] = len(holders)
                holders.append(closed.closure.queue)
        return cls(holders, of, table.layout.flavors, table.resources) if holders else None

    def columns(self) -> Columns:
        """Columns of all of these nodes."""
        return np.flatnonzero(self.of >= 0)

    def idle_more(
        self, columns: Columns, before: Amounts, after: Amounts
    ) -> Iterator[tuple[QueueName, Mapping[Account, int]]]:
        """What each holder keeps idle more than before, or less. ``before``, ``after``: (R, n) free on these nodes."""
        idle = np.maximum(after, 0) - np.maximum(before, 0)
        more: dict[QueueName, dict[Account, int]] = {}
        for index in np.flatnonzero((self.of[columns] >= 0) & idle.any(axis=0)).tolist():
            column = int(columns[index])
            amounts = more.setdefault(self.holders[int(self.of[column])], {})
            for row in np.flatnonzero(idle[:, index]).tolist():
                if is_device(resource := self.resources[row]):
                    continue
                for flavor in {NO_FLAVOR, self.flavors[column]}:
                    account = Account(flavor, resource)
                    amounts[account] = amounts.get(account, 0) + int(idle[row, index])
        yield from more.items()
