"""Where pods of one shape may go, and where they go."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from admission.engine.capacity import Capacity, Part
from admission.engine.levels import Level
from admission.engine.topology import Amounts

Columns = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Where pods of one shape may go: room per node, and how close together."""

    pods: int
    #: (N,) how many pods each node takes.
    room: Amounts
    #: The levels of one topology, outermost first, the host last.
    chain: Sequence[Level]
    #: Index of the level to start at.
    at: int
    #: All in one domain of that level, or nothing.
    required: bool = False
    spread: bool = False
    #: Over the fewest domains of the level evenly, if one does not hold all.
    balanced: bool = False
    #: Outermost first; ``pods`` is a multiple of the first size, and each size of the next.
    parts: tuple[Part, ...] = ()
    #: (N,) preferred node affinity: the highest first.
    score: Amounts | None = None
    #: (N,) what it costs to put a pod on a node: of otherwise equal nodes the cheapest, before the tightest.
    cost: Amounts | None = None
    #: The cost only measures what is left behind: a rack that is nearly full counts before it.
    measured: bool = False
    #: Capacities that are worked out already.
    known: list[Capacity] = field(default_factory=list)

    @property
    def capacity(self) -> Capacity:
        """Pods that each domain takes."""
        for known in self.known:
            if known.parts == self.parts and known.room is self.room:
                return known
        self.known.append(Capacity(self.chain, self.room, self.parts))
        return self.known[-1]


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Nodes, in the order of the topology, and how many pods go to each."""

    columns: Columns
    counts: Amounts

    def each(self) -> list[int]:
        """The node of each pod: neighbours in the topology are neighbours in the list."""
        return np.repeat(self.columns, self.counts).tolist()
