"""Scores of nodes with accelerators: by type, tier, links, fragmentation of memory, use and load, with weights.

A workload says what it would like as ``policy.muster.dev/accelerator`` (the value of the node label) and
``policy.muster.dev/workload-type`` (``training``, ``inference``, ``development``).
"""

from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from queues.plugins.built_in import Pack
from queues.plugins.interface import PlacementNodes, PodsRequest
from queues.resources import GPU, MEMORY
from queues.workload import NodeLoad

Scores = NDArray[np.int64]
Weight = Annotated[int, msgspec.Meta(ge=0, le=100)]
_WANTED = {"training": 100, "inference": 50, "development": 0}


class Weights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much each part counts."""

    type: Weight = 20
    tier: Weight = 10
    links: Weight = 20
    memory: Weight = 15
    use: Weight = 25
    load: Weight = 10


class Accelerators(Pack):
    """Nodes that suit the workload best; of equal ones as ``pack``."""

    name = "accelerators"

    class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """``label``: of nodes, the type of their accelerators. ``alike``: types that do nearly as well as another.
        ``tiers``: from 0 (slow) to 100, by type. ``wanted``: the tier that each type of workload is for; and that of
        queues whose work is to have better ones."""

        weights: Weights = Weights()
        label: str = "accelerator"
        links_label: str = "gpu-interconnect"
        alike: dict[str, list[str]] = {}
        tiers: dict[str, Weight] = {}
        wanted: dict[str, Weight] = msgspec.field(default_factory=lambda: dict(_WANTED))
        queues: dict[str, Weight] = {}

    def score(self, request: PodsRequest, nodes: PlacementNodes) -> Scores:
        """The weighted mean of all parts, from 0 to 100."""
        weights = self.parameters.weights
        parts = (
            (weights.type, self._by_type(request, nodes)),
            (weights.tier, self._by_tier(request, nodes)),
            (weights.links, self._by_links(request, nodes)),
            (weights.memory, _used_percent(nodes, MEMORY)),
            (weights.use, _by_use(_used_percent(nodes, GPU))),
            (weights.load, np.array([_by_load(each) for each in nodes.loads], np.int64)),
        )
        mean = sum((weight * part for weight, part in parts), np.zeros(len(nodes.names), np.int64))
        return mean // max(1, sum(weight for weight, _ in parts))

    def _by_type(self, request: PodsRequest, nodes: PlacementNodes) -> Scores:
        asked = request.hint("accelerator")
        if asked is None:
            return np.full(len(nodes.names), 50, np.int64)
        alike = self.parameters.alike.get(asked, [])
        types = (labels.get(self.parameters.label, "") for labels in nodes.labels)
        found = [100 if each == asked else 70 if each in alike else 0 for each in types]
        return np.array(found, np.int64)

    def _by_tier(self, request: PodsRequest, nodes: PlacementNodes) -> Scores:
        stated = self.parameters
        wanted = stated.queues.get(request.queue, stated.wanted.get(request.hint("workload-type") or "", 50))
        tiers = [stated.tiers.get(labels.get(stated.label, ""), 50) for labels in nodes.labels]
        return 100 - np.abs(np.array(tiers, np.int64) - wanted)

    def _by_links(self, request: PodsRequest, nodes: PlacementNodes) -> Scores:
        if request.pods.takes.get(GPU) <= 1000:
            return np.full(len(nodes.names), 100, np.int64)
        linked = [each.get(self.parameters.links_label) == "nvlink" for each in nodes.labels]
        return np.where(linked, 100, 50)


def _used_percent(nodes: PlacementNodes, resource: str) -> Scores:
    """(N,) how much of a resource is used: what is left of a full node is fragmented least."""
    if resource not in nodes.resources:
        return np.zeros(len(nodes.names), np.int64)
    row = list(nodes.resources).index(resource)
    offered = nodes.allocatable[row]
    used = np.clip(offered - nodes.free[row], 0, offered)
    return used * 100 // np.maximum(offered, 1)


def _by_load(load: NodeLoad) -> int:
    """Idle and cool nodes go first; 0 where no agent reports it (``agent.reportLoad``)."""
    steps = [each for each in load if each]
    return sum(150 - 50 * each for each in steps) // max(1, len(steps))


def _by_use(percent: Scores) -> Scores:
    """Best from 60 to 80 percent."""
    low, high = percent * 100 // 60, (100 - percent) * 100 // 20
    return np.minimum(np.minimum(low, high), 100)
