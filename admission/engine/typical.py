"""What is asked for as a rule: shapes of single pods and how many came, learned from those that came so far.

The fragmentation measure (``fragmentation``) needs the distribution of requests. It is learned: every pod
that arrives is counted once, and when many have been counted all counts are halved, so that what came long
ago matters less and less. Nothing of the future is in it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from queues.resources import CPU, GPU, WHOLE
from queues.workload import EVERYWHERE, NodeFilter, PodSet, Workload, WorkloadKey

#: Resources whose units are whole devices, by vendor.
ACCELERATORS: Final = frozenset(
    (
        GPU,
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "habana.ai/gaudi",
        "google.com/tpu",
        "aws.amazon.com/neuron",
        "huawei.com/Ascend910",
        "huawei.com/Ascend310P",
        "cambricon.com/mlu",
        "metax-tech.com/gpu",
        "hygon.com/dcu",
        "aliyun.com/gpu",
    )
)
#: Counts are halved when so many pods have been counted since the last time.
_HALVED_AFTER: Final = 1 << 15
#: A new distribution is told when the last one has grown by a part of this.
_GROWTH: Final = 8
#: So many shapes, and so many different node filters among them, the most frequent ones.
_SHAPES_KEPT: Final = 512
_FILTERS_KEPT: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What decides where one pod can run, as far as the measure looks."""

    #: milli-CPU
    cpu: int = 0
    #: Devices of this resource; "": none.
    resource: str = ""
    devices: int = 0
    #: Thousandths of each of them, and MiB of memory of each.
    milli: int = 0
    memory: int = 0
    nodes: NodeFilter = EVERYWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Typical:
    """Shapes and how often they were asked for, in a fixed order."""

    shapes: tuple[tuple[Shape, int], ...]


def shape_of(pods: PodSet) -> Shape | None:
    """The shape of one pod of a set; None: it asks for devices of several kinds, which the measure passes over."""
    cpu = pods.takes.get(CPU)
    if pods.share is not None:
        share = pods.share
        return Shape(
            cpu=cpu,
            resource=share.resource,
            devices=share.devices,
            milli=share.milli,
            memory=share.memory,
            nodes=pods.nodes,
        )
    kinds = [name for name in pods.takes if name in ACCELERATORS]
    if not kinds:
        return Shape(cpu=cpu, nodes=pods.nodes)
    if len(kinds) > 1:
        return None
    whole = -(-pods.takes.get(kinds[0]) // WHOLE)
    return Shape(cpu=cpu, resource=kinds[0], devices=whole, milli=WHOLE, nodes=pods.nodes)


class Arrivals:
    """Counts what comes. Mutable; the world keeps one."""

    def __init__(self) -> None:
        self._counts: dict[Shape, int] = {}
        self._seen: set[WorkloadKey] = set()
        self._since = 0
        self._told: Typical | None = None
        self._told_at = 0

    def look(self, workload: Workload) -> None:
        """A workload is there. It is counted once, however often it changes."""
        if workload.key not in self._seen:
            self._seen.add(workload.key)
            for pods in workload.pod_sets:
                self.count(pods, pods.count)

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone for good; what it asked for stays counted."""
        self._seen.discard(key)

    def count(self, pods: PodSet, times: int) -> None:
        """So many pods of one shape came."""
        shape = shape_of(pods)
        if shape is None or times <= 0:
            return
        self._counts[shape] = self._counts.get(shape, 0) + times
        self._since += times
        if self._since >= 2 * _HALVED_AFTER:
            self._counts = {each: count // 2 for each, count in self._counts.items() if count > 1}
            self._since = _HALVED_AFTER
            self._told_at = 0

    def typical(self) -> Typical | None:
        """The distribution so far: the very same object until it has changed by an eighth. None: nobody came."""
        if self._since > self._told_at + self._told_at // _GROWTH:
            self._told_at = self._since
            self._told = typical(self._counts.items())
        return self._told


def typical(counts: Iterable[tuple[Shape, int]]) -> Typical:
    """The most frequent shapes, whatever order they come in."""
    ranked = sorted(counts, key=lambda each: (-each[1], repr(each[0])))
    filters: dict[NodeFilter, None] = {}
    kept = []
    for shape, count in ranked:
        if len(filters) < _FILTERS_KEPT:
            filters.setdefault(shape.nodes)
        if shape.nodes in filters:
            kept.append((shape, count))
    return Typical(shapes=tuple(kept[:_SHAPES_KEPT]))
