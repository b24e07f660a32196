"""Reclaim between queues that are both above their share: by how far (Kueue's fair sharing, KEP-1714)."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from queues.quota.accounts import Account
from queues.quota.usage import Usage
from queues.workload import NO_FLAVOR, QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class ByShare:
    """Reclaim between queues that are both above their share, by how far (Kueue's fair sharing).

    ``final``: the victim's side is at least as far above as the beneficiary's afterwards. ``initial``: it was
    farther above before; together with ``final`` one victim a queue.
    """

    final: bool = True
    initial: bool = True


def above(usage: Usage, queue: QueueName, more: Mapping[Account, int]) -> tuple[bool, Fraction]:
    """How far a queue is above its share with so much more: borrowed of what its parent has, by weight.

    The largest over resources. Without weight it is above everybody as soon as it borrows.
    """
    tree = usage.tree
    weight = tree.queues[queue].weight
    parent = tree.paths[queue][1]
    largest = Fraction(0)
    used = {*usage.book(queue), *more}
    for resource in sorted({account.resource for account in used}):
        flavored = [each for each in used if each.resource == resource and each.flavor != NO_FLAVOR]
        every = flavored or [Account(NO_FLAVOR, resource)]
        borrowed = sum(
            max(0, usage.counted(queue, each) + more.get(each, 0) - tree.deserved(queue, each))
            for each in every
        )
        if borrowed > 0:
            largest = max(largest, Fraction(borrowed, max(1, _lendable(usage, parent, resource))))
    if weight <= 0:
        return (largest > 0, largest)
    return (False, largest / weight)


def _lendable(usage: Usage, queue: QueueName, resource: str) -> int:
    """What is there for all below a queue, over all flavors: without what is never lent."""
    tree = usage.tree
    flavored = [
        each for each in tree.own_deserved[queue] if each.resource == resource and each.flavor != NO_FLAVOR
    ]
    every = flavored or [Account(NO_FLAVOR, resource)]
    return sum(tree.deserved(queue, each) - tree.idle[queue].get(each, 0) for each in every)
