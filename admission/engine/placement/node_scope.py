"""What is to be placed, and on which nodes it may be: a request of one pod set, and a mask of nodes in a trial."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from admission.engine.nodes.table import Amounts, Mask
from admission.engine.placement.pod_rules import kept_free
from admission.engine.trial import Trial
from queues.workload import NodeName, PodSet, QueueName


@dataclass(frozen=True, slots=True, eq=False)
class PodSetRequest:
    """Ordinals of one pod set that need seats, and the nodes of its seated members."""

    pods: PodSet
    ordinals: Sequence[int]
    seated: Mapping[int, NodeName]
    #: Nodes of seated members of the pod sets that are placed together with this one.
    companion_nodes: Sequence[NodeName] = ()


@dataclass(frozen=True, slots=True, eq=False)
class NodeScope:
    """Nodes that may be used by workloads of a queue, in a trial."""

    trial: Trial
    queue: QueueName
    #: (N,)
    mask: Mask
    #: Equal keys stand for equal masks in this trial; None if there is no key for the mask.
    cache_key: Hashable = None
    #: (N,) cost of a pod on each node; None if all cost the same.
    cost: Amounts | None = None

    def narrowed(self, mask: Mask) -> "NodeScope":
        """These nodes as far as they are in the mask."""
        return replace(self, mask=self.mask & mask, cache_key=None)

    def usable(self, pods: PodSet) -> Mask:
        """(N,) nodes that the pods may use."""
        mask = self.mask & self.trial.layout.allowed(pods.nodes)
        if pods.ports:
            mask &= self.trial.ports.free(pods.ports)
        if (kept := kept_free(self.trial, pods)) is not None:
            mask &= kept
        return mask

    def pods_per_node(self, pods: PodSet) -> Amounts:
        """(N,) how many of these pods each node takes."""
        room = self.trial.room_for(pods, self.usable(pods))
        if pods.attached:
            room = np.minimum(room, self.trial.ports.attachable(pods.attached))
        return np.minimum(room, 1) if pods.ports else room
