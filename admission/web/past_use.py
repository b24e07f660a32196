"""What queues used in the past, as people are told: in queues with ``usageHalfLife`` it counts in their share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from queues.quota.accounts import Account
from queues.quota.decayed_usage import DecayedUsage, PastUse
from queues.quota.tree import QueueTree
from queues.sql.read import views
from queues.workload import FlavorName, QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePast:
    """The past of one queue with everything below it."""

    #: In seconds: what was used so long ago counts half.
    half_life: int
    #: Decayed averages, in units of ``queues.resources``; None: not all postings are read yet.
    averages: Mapping[Account, int] | None


def account_of(line: views.AccountLine) -> Account:
    """The account that the line is about."""
    return Account(FlavorName(line.flavor), line.resource)


def past_counts(lines: Iterable[views.QueueLine]) -> bool:
    """Whether some queue states a half-life at all."""
    return any(((line.document.get("spec") or {}).get("policy") or {}).get("usageHalfLife") for line in lines)


def pasts(
    ways: QueueTree, lines: Iterable[views.QueueLine], past: PastUse | None, now: int
) -> dict[QueueName, QueuePast]:
    """By queue, where past use counts, as decisions at ``now`` (seconds since the epoch) see it.

    Without ``past`` (not all of it is read) only the half-lives are told.
    """
    held = {line.name: {account_of(each): each.used for each in line.accounts} for line in lines}
    decay = DecayedUsage.over(ways, lambda queue: held.get(queue, {}), lambda queue, user: {})
    if decay is None:
        return {}
    if past is not None:
        decay.update(past, now)
    told = {}
    for queue in held:
        half_life = decay.half_life(queue) if queue in ways.paths else None
        of_queue = decay.of_queue(queue) if half_life is not None else None
        if half_life is not None and of_queue is not None:
            told[queue] = QueuePast(
                half_life=half_life, averages=None if past is None else of_queue.averages()
            )
    return told
