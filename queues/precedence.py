"""Who gives way to whom among those of equal priority in one queue: small before large, with ageing.

A workload counts as if it had come one day later for every device it asks for. So it gives way to one that
asks for n devices less and came at most n days after it, and to nobody who came later than that: what is small
and short gets through, and nothing starves. The number does not change while a workload waits.

That is so where a gang that has waited for long has a place cleared. Where nobody makes room, small work would
keep large gangs from ever finding a whole rack empty: there all go by arrival.
"""

from collections.abc import Iterator
from typing import Final

from queues.queue import QueuePolicy
from queues.resources import CPU
from queues.workload import PodSet, Workload

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
