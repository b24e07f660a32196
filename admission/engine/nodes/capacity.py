"""How many pods of one shape every domain of a topology takes, if they have to keep together in parts.

A part of ``size`` pods lies inside one domain of its level, so such a domain takes whole parts only: its room, rounded
down. Sizes are nested, each divides the one outside it; so rounding from the host upwards is exact: a domain takes any
multiple of the outermost size up to its capacity, and nothing more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from admission.engine.nodes.levels import TopologyLevel
from admission.engine.nodes.table import Amounts


@dataclass(frozen=True, slots=True)
class DomainShare:
    """A part: so many pods in one domain of a level."""

    size: int
    #: Index of the level in its topology.
    at: int


@dataclass(slots=True, eq=False)
class Capacity:
    """Pods per domain, level by level; worked out when asked for."""

    chain: Sequence[TopologyLevel]
    #: (N,) pods each node takes.
    room: Amounts
    #: Outermost first.
    parts: Sequence[DomainShare] = ()
    _levels: dict[int, Amounts] = field(default_factory=dict)
    _total: int | None = None

    def per_domain(self, index: int) -> Amounts:
        """(D,) pods that each domain of a level takes."""
        if not self.parts:
            known = self._levels.get(index)
            if known is None:
                known = self._levels[index] = self.chain[index].sums(self.room)
            return known
        if not self._levels:
            self._total = self._climb()
        return self._levels[index]

    def total(self) -> int:
        """Pods that all nodes together take."""
        if self._total is None:
            self._total = self._climb() if self.parts else int(self.room.sum())
        return self._total

    def _climb(self) -> int:
        """Work out all levels from the host upwards; what all nodes together take."""
        sizes: dict[int, int] = {}
        for part in self.parts:
            sizes[part.at] = max(part.size, sizes.get(part.at, 1))
        carried = self.room
        for index in range(len(self.chain) - 1, -1, -1):
            level = self.chain[index]
            sums = level.sums(carried)
            if index in sizes:
                sums = sums - sums % sizes[index]
                carried = np.zeros(len(self.room), np.int64)
                # What a domain takes is carried upwards by its first node.
                carried[level.first()] = sums
            self._levels[index] = sums
        return int(carried.sum())


def losses(
    chain: Sequence[TopologyLevel], room: Amounts, after: Amounts, parts: Sequence[DomainShare]
) -> Amounts:
    """(N,) loss of capacity, in pods, when the room of that one node falls from ``room`` to ``after``."""
    loss = room - after
    sizes = {part.at: part.size for part in reversed(parts)}
    for index in sorted(sizes, reverse=True):
        level, size = chain[index], sizes[index]
        # The sum before rounding, from the levels inside.
        inner = [part for part in parts if part.at > index]
        sums = np.append(Capacity(chain, room, inner).per_domain(index), 0)
        whole = sums // size
        lost = (whole[level.of] - (sums[level.of] - loss) // size) * size
        loss = np.where(level.of >= 0, lost, 0)
    return loss
