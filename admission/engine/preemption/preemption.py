"""Preemption: make room for refused workloads by priority inside a queue, by reclaim, and by clearing.

It takes two turns: evictions and a claim on the place now, the admission when the victims are gone. Everything is
decided in the world as it will be when all that leaves is gone and every claim is used, so no victim is evicted for a
place that becomes free anyhow.

What the evictions of a turn free beyond the need: it is claimed in the same turn, for the next workloads that fit.

Victims are evicted whole, so a gang may free more nodes than its beneficiary takes. They get free one by one, while the
pods end: without claims small work that comes meanwhile would take them from a gang that fits all of them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from admission.engine import reasons
from admission.engine.claims import HeldClaims, amounts_per_node
from admission.engine.pending.classes import FOR_LACK_OF_ROOM, ClassAnswer
from admission.engine.placement import gangs
from admission.engine.placement.need import is_extended_resource, need_choices
from admission.engine.preemption.context import FailedRequest, PreemptionContext, PreemptionResult
from admission.engine.preemption.pruning import PreemptionProspects
from admission.engine.preemption.running import RunningWorkloads
from admission.engine.preemption.search import VictimSearch, failed_request, searches_by_flavor, starves_now
from admission.engine.snapshot import Snapshot
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
    waiting: Callable[[], Iterable[ClassAnswer]]
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

    def _claimed(self, workload: Workload, refused: ClassAnswer) -> bool:
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


def make_room(
    snapshot: Snapshot,
    refused_classes: Iterable[ClassAnswer],
    lacking_room: Callable[[], Iterable[ClassAnswer]],
    held_claims: HeldClaims,
    prospects: PreemptionProspects,
    running: RunningWorkloads,
) -> PreemptionResult:
    """Evictions and claims for refused classes.

    ``refused_classes``: those for which victims may be found, in the order in which their heads were tried.
    ``lacking_room``: all that lack room and that no reservation keeps off, in the order of the line. ``prospects``: of
    the world after everything else of the turn, with the space of all claims held; the world is left as it was, but
    for claims that turn out to be of no use.
    """
    if not (snapshot.holders or held_claims.claims):
        return PreemptionResult()
    context = PreemptionContext(snapshot, held_claims, prospects, running)
    spare = SpareRoom(context, lacking_room)
    for refused in refused_classes:
        if may_evict(refused):
            evicts = len(context.result.evicts)
            _make_room_for_class(context, refused)
            if len(context.result.evicts) > evicts:
                spare.claim()
    context.revisit_at(held_claims.until)
    return context.result


def may_evict(refused: ClassAnswer) -> bool:
    """True if evictions could help the workloads of a class, and their priority class lets them preempt.

    With ``preemptionPolicy: Never`` nothing is evicted for a workload, be it by priority or for its queue's quota, as
    in Volcano.
    """
    need = refused.need
    if need.complete or need.shortfall or refused.reason.code not in FOR_LACK_OF_ROOM:
        return False
    return refused.members[0].workload.preempts


def _make_room_for_class(context: PreemptionContext, refused: ClassAnswer) -> None:
    """Make room for as many workloads of a class as there are victims for."""
    searches: list[VictimSearch] | None = None
    request: FailedRequest | None = None
    for entry in refused.members:
        workload = entry.workload
        context.trial.progress.workload = workload.key
        if context.has_new_claim(workload):
            continue
        claim = context.held_claims.claims.get(workload.key)
        if claim is not None:
            draining = context.held_claims.draining
            if victims := [number for number in claim.victims if number in draining]:
                context.result.reasons[workload.key] = reasons.making_room(
                    pods=sum(len(draining[number]) for number in victims),
                    names=[context.name_of(number) for number in victims],
                )
                continue
            context.give_up(claim)
        if searches is None:
            choices = need_choices(workload, refused.need)
            if not any(starves_now(workload, need, context) for need in choices):
                request = failed_request(context, workload, choices[0]) if len(choices) == 1 else None
                failed = context.failed.get(workload.queue, ())
                if request is not None and any(request.asks_no_less_than(other) for other in failed):
                    break
                choices = [need for need in choices if not context.prospects.is_blocked(workload, need)]
            searches = [each for need in choices for each in searches_by_flavor(context, workload, need)]
        if not any(search.make_room(workload) for search in searches):
            if request is not None and not context.result.evicts:
                context.failed.setdefault(workload.queue, []).append(request)
            break
