"""What the evictions of a turn free beyond the need: it is claimed in the same turn, for the next workloads that fit.

Victims are evicted whole, so a gang may free more nodes than its beneficiary takes. They get free one by one, while the
pods end: without claims small work that comes meanwhile would take them from a gang that fits all of them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from admission.engine.claims import amounts_per_node
from admission.engine.pending.classes import RefusedClass
from admission.engine.placement import gangs
from admission.engine.placement.need import is_extended_resource
from admission.engine.preemption.context import PreemptionContext
from queues.plan import Admit
from queues.resources import CPU
from queues.workload import Workload

#: So many workloads are tried in one turn.
_TRIED = 64


@dataclass(slots=True, eq=False)
class SpareRoom:
    """Claims on what is freed beyond the need of those that evict."""

    context: PreemptionContext
    #: Refused classes that lack room and may have it, in the order of the line.
    waiting: Callable[[], Iterable[RefusedClass]]
    _tried: int = 0

    def claim(self) -> None:
        """Claim what the evictions so far leave, after those of one more class."""
        if not (self.context.frees_more and self._is_left()):
            return
        for refused in self.waiting():
            for entry in refused.members:
                key = entry.workload.key
                if self.context.has_new_claim(entry.workload) or key in self.context.held_claims.claims:
                    continue
                if self._tried >= _TRIED:
                    return
                if not self._claimed(entry.workload, refused):
                    break

    def _claimed(self, workload: Workload, refused: RefusedClass) -> bool:
        """Claim a place for one workload. False: it does not fit, or not because of what is freed."""
        self._tried += 1
        answer = gangs.admit(workload, refused.need, self.context.drained)
        return isinstance(answer, Admit) and self.context.claim_freed(workload, answer.seats)

    def _is_left(self) -> bool:
        """Whether claims leave any device on the nodes of this turn's victims; any CPU, if they have no devices."""
        context = self.context
        columns, freed = amounts_per_node(context.freed_seats(), context.drained)
        seats = [seat for claim in context.result.claims for seat in claim.seats]
        claimed, amounts = amounts_per_node(seats, context.drained)
        on = {column: index for index, column in enumerate(columns.tolist())}
        for index, column in enumerate(claimed.tolist()):
            if column in on:
                freed[:, on[column]] -= amounts[:, index]
        resources = context.drained.table.resources
        rows = [row for row, name in enumerate(resources) if is_extended_resource(name)]
        if not freed[rows].any():
            rows = [row for row, name in enumerate(resources) if name == CPU]
        return bool(np.any(freed[rows] > 0))
