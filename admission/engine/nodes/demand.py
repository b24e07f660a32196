"""The typical demand: shapes of single pods, and how often each is asked for.

The fragmentation measure (``fragmentation``) needs the distribution of requests. It is learned from the pods that wait
or run now: nothing of the future is in it, pods that ended long ago do not matter any more, and a controller that
starts again learns the same.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from queues.resources import CPU, GPU, WHOLE
from queues.workload import EVERYWHERE, NodeFilter, PodSet, WorkloadKey

#: Resources that count whole devices, by vendor.
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
#: Number of shapes that are kept, and of different node filters among them: the most frequent ones.
_SHAPES_KEPT: Final = 512
_FILTERS_KEPT: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What decides where one pod can run, as far as the measure goes."""

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
    """Shapes with their number of pods, in a fixed order."""

    shapes: tuple[tuple[Shape, int], ...]


def shape_of(pods: PodSet) -> Shape | None:
    """The shape of one pod of a set; None if it asks for devices of several kinds, which the measure leaves out."""
    cpu = pods.takes.get(CPU)
    if pods.share is not None:
        return Shape(cpu=cpu, nodes=pods.nodes, **asdict(pods.share))
    kinds = [name for name in pods.takes if name in ACCELERATORS]
    if not kinds:
        return Shape(cpu=cpu, nodes=pods.nodes)
    if len(kinds) > 1:
        return None
    whole = -(-pods.takes.get(kinds[0]) // WHOLE)
    return Shape(cpu=cpu, resource=kinds[0], devices=whole, milli=WHOLE, nodes=pods.nodes)


class Demand:
    """Counts of the pods of known workloads. Mutable; the world keeps one.

    The distribution depends on what is counted now, not on the way there.
    """

    def __init__(self) -> None:
        self._counts: dict[Shape, int] = {}
        self._of: dict[WorkloadKey, tuple[PodSet, ...]] = {}
        self._last: Typical | None = None
        self._same = True

    def copy(self) -> "Demand":
        """Another one that counts the same."""
        other = Demand()
        other._counts, other._of = dict(self._counts), dict(self._of)
        other._last, other._same = self._last, self._same
        return other

    def update(self, key: WorkloadKey, pod_sets: tuple[PodSet, ...]) -> None:
        """A workload asks for these pod sets now. Empty: it is gone."""
        before = self._of.get(key, ())
        if before is pod_sets:
            return
        for pods in before:
            self.count(pods, -pods.count)
        for pods in pod_sets:
            self.count(pods, pods.count)
        if pod_sets:
            self._of[key] = pod_sets
        else:
            self._of.pop(key, None)

    def count(self, pods: PodSet, times: int) -> None:
        """Count so many pods of one shape more (or less, if negative)."""
        shape = shape_of(pods)
        if shape is None or not times:
            return
        before = self._counts.get(shape, 0)
        after = self._counts[shape] = before + times
        if after <= 0:
            del self._counts[shape]
        if _rounded(before) != _rounded(after):
            self._same = False

    def typical(self) -> Typical | None:
        """The distribution: the same object until it differs.

        None if no pod asks for parts of devices: where devices are given out whole, packing alone does as well.
        """
        if not self._same:
            counts = [(shape, _rounded(count)) for shape, count in self._counts.items() if _rounded(count)]
            in_parts = any(shape.devices and shape.milli < WHOLE for shape, _ in counts)
            now = most_frequent(counts) if in_parts else None
            self._last, self._same = (self._last if now == self._last else now), True
        return self._last


def _rounded(count: int) -> int:
    """Down to a power of two, so that the typical demand changes seldom; one pod alone is not typical."""
    return 1 << (count.bit_length() - 1) if count > 1 else 0


def most_frequent(counts: Iterable[tuple[Shape, int]]) -> Typical:
    """The most frequent shapes, whatever the order of the counts."""
    ranked = sorted(counts, key=lambda each: (-each[1], repr(each[0])))
    filters: dict[NodeFilter, None] = {}
    kept = []
    for shape, count in ranked:
        if len(filters) < _FILTERS_KEPT:
            filters.setdefault(shape.nodes)
        if shape.nodes in filters:
            kept.append((shape, count))
    return Typical(shapes=tuple(kept[:_SHAPES_KEPT]))
