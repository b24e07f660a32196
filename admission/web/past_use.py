"""Past use of queues as the read API shows it: with ``usageHalfLife`` it counts in a queue's share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from queues.quota.accounts import Account
from queues.quota.decayed_usage import DecayedUsage, PastUse
from queues.quota.tree import QueueTree
from queues.sql.read.rows import AccountLine, QueueLine
from queues.workload import FlavorName, QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePast:
    """Past use of one queue and its subtree."""

    #: Seconds: use that long ago counts half.
    half_life: int
    #: Decayed averages, in units of ``queues.resources``. None while not all postings are read.
    averages: Mapping[Account, int] | None


def account_of(line: AccountLine) -> Account:
    """The account of the line."""
    return Account(FlavorName(line.flavor), line.resource)


def states_half_life(lines: Iterable[QueueLine]) -> bool:
    """True if some queue states ``usageHalfLife``."""
    return any(((line.document.get("spec") or {}).get("policy") or {}).get("usageHalfLife") for line in lines)


def past_by_queue(
    tree: QueueTree, lines: Iterable[QueueLine], past: PastUse | None, now: int
) -> dict[QueueName, QueuePast]:
    """Past use by queue, where it counts, as a decision at ``now`` (seconds since the epoch) sees it.

    Without ``past`` (not all postings are read yet) only the half-lives are known.
    """
    held = {line.name: {account_of(each): each.used for each in line.accounts} for line in lines}
    decay = DecayedUsage.over(tree, lambda queue: held.get(queue, {}), lambda queue, user: {})
    if decay is None:
        return {}
    if past is not None:
        decay.update(past, now)
    pasts = {}
    for queue in held:
        half_life = decay.half_life(queue) if queue in tree.paths else None
        of_queue = decay.of_queue(queue) if half_life is not None else None
        if half_life is not None and of_queue is not None:
            pasts[queue] = QueuePast(
                half_life=half_life, averages=None if past is None else of_queue.averages()
            )
    return pasts
