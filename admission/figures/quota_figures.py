"""What follows from the tree of queues and their use: what is borrowed and lent, and how fair that is."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from admission.engine.memo import QueueAmounts
from queues.quota.accounts import Account
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.workload import QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFigures:
    """Amounts in units of ``queues.resources``; those that are 0 are left out."""

    guarantee: QueueAmounts = field(default_factory=dict)
    #: Limits of the queues themselves; of ``root``: what usable nodes can allocate.
    capability: QueueAmounts = field(default_factory=dict)
    #: Use above what the queue deserves.
    borrowed: QueueAmounts = field(default_factory=dict)
    #: What a queue deserves and does not use, as far as its siblings borrow it.
    lent: QueueAmounts = field(default_factory=dict)
    #: Largest used ÷ deserved over the accounts of a queue that can hold workloads.
    shares: Mapping[QueueName, float] = field(default_factory=dict)
    #: By how much the queue with the smallest share that has pending workloads is below 1.
    below: float = 0.0
    #: By how much the queue with the largest share is above 1, while such a queue is below.
    above: float = 0.0


def quota_figures(
    tree: QueueTree, used: QueueAmounts, deserved: QueueAmounts, waiting: Collection[QueueName]
) -> QuotaFigures:
    """The figures of all queues. ``waiting``: queues with pending workloads."""
    borrowed = {
        key: units - deserved.get(key, 0)
        for key, units in used.items()
        if units > deserved.get(key, 0) and key[0] != ROOT
    }
    shares = _shares(tree, used, deserved)
    entitled = _entitled(tree, deserved, waiting)
    below = max((1 - shares.get(queue, 0.0) for queue in entitled), default=0.0)
    above = max((share - 1 for share in shares.values()), default=0.0) if below > 0 else 0.0
    return QuotaFigures(
        guarantee=_stated(tree.guarantees),
        capability=_stated(tree.capabilities),
        borrowed=borrowed,
        lent=_lent(tree, used, deserved, borrowed),
        shares=shares,
        below=max(0.0, below),
        above=max(0.0, above),
    )


def _entitled(tree: QueueTree, deserved: QueueAmounts, waiting: Collection[QueueName]) -> list[QueueName]:
    """Of the queues with pending workloads those that hold them, and deserve some device if the cluster has any."""
    devices = [account for account in tree.capabilities[ROOT] if "/" in account.resource]
    accounts = devices or list(tree.capabilities[ROOT])
    return [
        queue
        for queue in waiting
        if tree.leaf(queue) and any(deserved.get((queue, account), 0) > 0 for account in accounts)
    ]


def _stated(limits: Mapping[QueueName, Mapping[Account, int]]) -> QueueAmounts:
    return {(queue, account): units for queue, book in limits.items() for account, units in book.items()}


def _shares(tree: QueueTree, used: QueueAmounts, deserved: QueueAmounts) -> dict[QueueName, float]:
    shares: dict[QueueName, float] = {}
    for (queue, account), units in used.items():
        due = deserved.get((queue, account), 0)
        if due > 0 and tree.leaf(queue):
            shares[queue] = max(shares.get(queue, 0.0), units / due)
    return shares


def _lent(
    tree: QueueTree, used: QueueAmounts, deserved: QueueAmounts, borrowed: QueueAmounts
) -> dict[tuple[QueueName, Account], int]:
    """What siblings borrow is lent by those that leave something idle, in proportion to that."""
    taken: defaultdict[tuple[QueueName, Account], int] = defaultdict(int)
    for (queue, account), units in borrowed.items():
        taken[tree.paths[queue][1], account] += units
    lent = {}
    for (parent, account), units in taken.items():
        idle = {
            child: deserved.get((child, account), 0) - used.get((child, account), 0)
            for child in tree.children[parent]
        }
        idle = {child: amount for child, amount in idle.items() if amount > 0}
        total = sum(idle.values())
        for child, amount in idle.items():
            lent[child, account] = amount * min(units, total) // total
    return lent
