"""Who gives way to whom among those of equal priority in one queue: small before large, with ageing.

A workload counts as if it had come one day later for every device it asks for. So it gives way to one that
asks for n devices less and came at most n days after it, and to nobody who came later than that: what is small
and short gets through, and nothing starves. The number does not change while a workload waits.

That is so where a gang that has waited for long has a place cleared. Where nobody makes room, small work would
keep large gangs from ever finding a whole rack empty: there all go by arrival.

Places of those who wait inside their queue, and classes of those who are alike.

Orders inside a queue, none of which depends on the clock: ``fifo`` and ``strict-fifo`` by arrival (strict: a
refused head holds up all behind it), ``priority`` by priority with age, then, where past use counts, by the share of
the queue that each user has and had (``queues.quota.decayed_usage``), then, where starved gangs have a place cleared,
small
before large (``queues.order.policies``), then arrival, ``shortest`` by declared run time with age, ``round-robin`` by
the
share of the queue that each user has, then arrival.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from queues.quota.accounts import Account
from queues.quota.queue import QueuePolicy
from queues.quota.tree import QueueTree
from queues.resources import CPU
from queues.workload import PodSet, QueueName, Workload, WorkloadKey

#: Seconds a workload gives way for each device that it asks for more than another.
PATIENCE: Final = 86_400

#: Milli-CPU that count as one device where no devices are asked for.
_CPU_PER_DEVICE: Final = 16_000

_WHOLE: Final = 1000


def gives_way(policy: QueuePolicy) -> bool:
    """Whether large gives way to small in a queue: only if its starved gangs have a place cleared within a day."""
    return policy.clear_after is not None and policy.clear_after <= PATIENCE


def precedence(workload: Workload) -> int:
    """Seconds since the epoch; the smaller the earlier. One that was evicted counts from then on."""
    return (workload.waiting_since or workload.created) + PATIENCE * devices(workload)


def devices(workload: Workload) -> int:
    """Whole devices that the gang needs to start, of the kind it needs most of; without any, by its CPUs."""
    least = {pods.name: min(pods.minimum, pods.count) for pods in workload.pod_sets}
    more = max(workload.minimum, 1) - sum(least.values())
    sums: dict[str, int] = {}
    for pods in workload.pod_sets:
        added = min(max(0, more), pods.count - least[pods.name])
        more -= added
        for name, units in _asked(pods):
            sums[name] = sums.get(name, 0) + units * (least[pods.name] + added)
    most = max((units for name, units in sums.items() if name != CPU), default=0)
    return -(-most // _WHOLE) if most else sums.get(CPU, 0) // _CPU_PER_DEVICE


def _asked(pods: PodSet) -> Iterator[tuple[str, int]]:
    """CPUs and devices of one pod; extended resources are those with a slash in their names."""
    for name, units in pods.takes.items():
        if name == CPU or "/" in name:
            yield name, units
    if pods.share is not None:
        yield pods.share.resource, pods.share.devices * pods.share.milli


_HOUR = 3600

#: Under ``shortest`` nobody is passed by work that came later than so many times the difference of run times.
_PATIENCE: Final = 10

#: Under ``shortest`` work that declares no run time counts as so long, unless the queue limits it to less.
_UNKNOWN_RUN_TIME: Final = 30 * 24 * _HOUR


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LineEntry:
    """A workload that may be tried in this turn."""

    workload: Workload
    #: Candidates of one queue with equal shapes get the same answer as long as nothing is given back.
    shape: Hashable
    #: Has its gang already and asks for further members: comes after those who wait for theirs.
    joins: bool
    #: Accounts it asks for, over all flavors.
    accounts: tuple[Account, ...]


class Rank(NamedTuple):
    """Place inside a queue; the smaller the earlier. It does not change while the workload waits."""

    joins: bool
    #: By the queue's order: − (priority × 3600 − ageing × created), or seconds, or 0.
    urgency: int
    #: Small before large (``queues.order.policies``) under ``priority`` where places are cleared, else 0.
    precedence: int
    arrival: int
    key: WorkloadKey


def rank(tree: QueueTree, candidate: LineEntry) -> Rank:
    """The place of a candidate in its queue."""
    workload = candidate.workload
    queue = workload.queue
    before = precedence(workload) if small_first(tree, queue) else 0
    urgent = urgency(tree, queue, workload.priority, workload.created, workload.run_time)
    return Rank(candidate.joins, urgent, before, workload.arrival, workload.key)


def small_first(tree: QueueTree, queue: QueueName) -> bool:
    """Whether large gives way to small in a queue (``queues.order.policies``)."""
    return tree.order(queue) == "priority" and gives_way(tree.policy(queue))


def urgency(tree: QueueTree, queue: QueueName, priority: int, created: int, run_time: int | None) -> int:
    """What counts first in a queue, by its order; the smaller the earlier."""
    match tree.order(queue):
        case "priority":
            return tree.ageing_per_hour(queue) * created - priority * _HOUR
        case "shortest":
            longest = tree.queues[queue].max_run_time or _UNKNOWN_RUN_TIME
            return created + _PATIENCE * (longest if run_time is None else run_time)
    return 0


def by_user(tree: QueueTree, queue: QueueName) -> bool:
    """Whether it matters in a queue what its users have."""
    return tree.order(queue) == "round-robin" or counts_use(tree, queue)


def counts_use(tree: QueueTree, queue: QueueName) -> bool:
    """Whether of those of equal priority who used less comes first: by priority, where past use counts."""
    return bool(tree.policy(queue).usage_half_life) and tree.order(queue) == "priority"
