"""Order policies: the place of a workload inside its queue. No policy depends on the clock.

``fifo`` and ``strict-fifo``: by arrival. Under ``strict-fifo`` a refused head holds up the workloads behind it.
``priority``: by priority (as far as ``maxPriority`` lets it count) with age; then, where past use counts, by the share
of the queue that each user has and had (``queues.quota.decayed_usage``); then small before large; then by arrival.
``shortest``: by declared run time with age.
``round-robin``: by the share of the queue that each user has, then by arrival.

Small before large: a workload counts as if it had arrived one day later for every device that it asks for. So a
workload gives way to a later one that asks for n devices less and arrived at most n days after it. Small and short work
gets through, and no workload starves. The number does not change while a workload waits. The rule holds only where
places are cleared for gangs that starve: elsewhere small work would keep a large gang from ever finding an empty rack,
and the order is by arrival.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from queues.quota.accounts import Account
from queues.quota.queue import QueuePolicy
from queues.quota.tree import QueueTree
from queues.resources import CPU
from queues.workload import PodSet, QueueName, Workload, WorkloadKey

#: Seconds by which a workload counts as later for each device that it asks for.
PATIENCE: Final = 86_400
#: Milli-CPU that count as one device where no devices are asked for.
_CPU_PER_DEVICE: Final = 16_000
_WHOLE: Final = 1000


def gives_way(policy: QueuePolicy) -> bool:
    """Whether large workloads of a queue give way to small ones: if gangs that starve for a day get places cleared."""
    return policy.clear_after is not None and policy.clear_after <= PATIENCE


def devices(workload: Workload) -> int:
    """Whole devices that a gang needs to start, of the resource it needs most of. Without devices: by its CPUs."""
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
    """CPUs and devices of one pod. A resource with a slash in its name is a device."""
    for name, units in pods.takes.items():
        if name == CPU or "/" in name:
            yield name, units
    if pods.share is not None:
        yield pods.share.resource, pods.share.devices * pods.share.milli


_HOUR = 3600
#: Under ``shortest`` a workload is passed only by work that arrived within so many times the difference of run times.
_PATIENCE: Final = 10
#: Under ``shortest`` the run time (seconds) of work that declares none, unless the queue limits it to less.
_UNKNOWN_RUN_TIME: Final = 30 * 24 * _HOUR


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LineEntry:
    """A pending workload that may be tried in this turn."""

    workload: Workload
    #: Entries of one queue with equal shapes get the same answer while no capacity is freed.
    shape: Hashable
    #: ``devices`` of the workload: the same for all of one shape.
    devices: int
    #: The gang runs and asks for further members: it comes after gangs that wait for their minimum.
    joins: bool
    #: Accounts that the workload asks for, over all flavors.
    accounts: tuple[Account, ...]


class Rank(NamedTuple):
    """The place of a workload inside its queue; smaller is earlier. It does not change while the workload waits."""

    joins: bool
    #: By the queue's order: − (priority × 3600 − ageing × created), or seconds, or 0.
    urgency: int
    #: Small before large, under ``priority`` where places are cleared: seconds since the epoch, by arrival (an evicted
    #: workload: by its eviction) and size. 0: elsewhere, or it comes first.
    precedence: int
    arrival: int
    key: WorkloadKey


def rank(tree: QueueTree, candidate: LineEntry) -> Rank:
    """The place of an entry in its queue."""
    workload = candidate.workload
    queue = workload.queue
    before = 0
    if not workload.comes_first and small_first(tree, queue):
        before = (workload.waiting_since or workload.created) + PATIENCE * candidate.devices
    priority = tree.counted_priority(queue, workload.priority)
    urgent = urgency(tree, queue, priority, workload.created, workload.run_time)
    return Rank(candidate.joins, urgent, before, workload.arrival, workload.key)


def small_first(tree: QueueTree, queue: QueueName) -> bool:
    """Whether large workloads give way to small ones in a queue."""
    return tree.order(queue) == "priority" and gives_way(tree.policy(queue))


def urgency(tree: QueueTree, queue: QueueName, priority: int, created: int, run_time: int | None) -> int:
    """The first criterion of the order of a queue; smaller is earlier. ``priority``: as far as it counts."""
    match tree.order(queue):
        case "priority":
            return tree.ageing_per_hour(queue) * created - priority * _HOUR
        case "shortest":
            limit = tree.run_limit(queue)
            longest = _UNKNOWN_RUN_TIME if limit is None else limit.seconds
            return created + _PATIENCE * (longest if run_time is None else run_time)
    return 0


def by_user(tree: QueueTree, queue: QueueName) -> bool:
    """Whether the order of a queue depends on the use of its users."""
    return tree.order(queue) == "round-robin" or counts_use(tree, queue)


def counts_use(tree: QueueTree, queue: QueueName) -> bool:
    """Whether workloads of equal priority are ordered by the past use of their users."""
    return bool(tree.policy(queue).usage_half_life) and tree.order(queue) == "priority"
