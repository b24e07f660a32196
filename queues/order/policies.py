"""Where a workload stands in its queue: what the queue's order says of it (``queues.plugins``), for the engine."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from queues.plugins.interface import UserTurns
from queues.quota.accounts import Account
from queues.quota.tree import QueueTree
from queues.resources import CPU
from queues.workload import PodSet, QueueName, Workload, WorkloadKey

#: Milli-CPU that count as one device where no devices are asked for.
_CPU_PER_DEVICE: Final = 16_000
_WHOLE: Final = 1000


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
    #: As the queue's order says: under ``priority`` − (priority × 3600 − ageing × created).
    urgency: int
    #: The same, after the share of users: small before large, in seconds since the epoch, by arrival (an evicted
    #: workload: by its eviction) and size; 0 elsewhere, or if it comes first.
    precedence: int
    arrival: int
    key: WorkloadKey


def rank(tree: QueueTree, candidate: LineEntry) -> Rank:
    """The place of an entry in its queue."""
    workload = candidate.workload
    order = tree.order(workload.queue)
    priority = tree.counted_priority(workload.queue, workload.priority)
    if priority != workload.priority:
        workload = replace(workload, priority=priority)
    before = order.precedence(workload, candidate.devices)
    return Rank(candidate.joins, order.urgency(workload), before, workload.arrival, workload.key)


def by_user(tree: QueueTree, queue: QueueName) -> bool:
    """Whether the order of a queue depends on the use of its users."""
    return tree.order(queue).users is not UserTurns.NONE


def counts_use(tree: QueueTree, queue: QueueName) -> bool:
    """Whether workloads of equal urgency are ordered by the past use of their users."""
    return tree.order(queue).users is UserTurns.AMONG_EQUALS
