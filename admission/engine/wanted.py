"""What is to be seated, and the nodes that may be used for it."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from admission.engine.topology import Amounts, Mask
from admission.engine.trial import Trial
from queues.workload import NodeName, PodSet, QueueName


@dataclass(frozen=True, slots=True, eq=False)
class Want:
    """Ordinals of one pod set that need seats, and where its others sit."""

    pods: PodSet
    ordinals: Sequence[int]
    held: Mapping[int, NodeName]
    #: Where members of other pod sets that go together with this one sit.
    beside: Sequence[NodeName] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Where:
    """Nodes that may be used, for whose queue, in which trial."""

    trial: Trial
    queue: QueueName
    #: (N,)
    mask: Mask
    #: Where equal names stand for equal masks in this trial: the name. None: it has none.
    named: Hashable = None
    #: (N,) what it costs to put a pod on a node; None: all cost the same.
    cost: Amounts | None = None

    def only(self, mask: Mask) -> "Where":
        """Of these nodes those of the mask."""
        return replace(self, mask=self.mask & mask, named=None)

    def usable(self, pods: PodSet) -> Mask:
        """(N,) those that the pods may use."""
        mask = self.mask & self.trial.layout.allowed(pods.nodes)
        return mask & self.trial.ports.free(pods.ports) if pods.ports else mask

    def room(self, pods: PodSet) -> Amounts:
        """(N,) how many of the pods each node takes."""
        if pods.share is None:
            room = self.trial.room(pods.takes, self.usable(pods))
        else:
            room = self.trial.room(pods.beside_devices(), self.usable(pods))
            room = np.minimum(room, self.trial.room_of_share(pods.share))
        return np.minimum(room, 1) if pods.ports else room
