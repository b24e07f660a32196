"""Preemption: make room for refused workloads by priority inside a queue, by reclaim, and by clearing.

It takes two turns: evictions and a claim on the place now, the admission when the victims are gone. Everything is
decided in the world as it will be when all that leaves is gone and every claim is used, so no victim is evicted for a
place that becomes free anyhow.
"""

from collections.abc import Iterable
from typing import Protocol

from admission.engine import reasons
from admission.engine.claims import HeldClaims
from admission.engine.pending.classes import RefusedClass
from admission.engine.placement.need import need_choices
from admission.engine.preemption.context import FailedRequest, PreemptionContext, PreemptionResult
from admission.engine.preemption.pruning import PreemptionProspects
from admission.engine.preemption.running import RunningWorkloads
from admission.engine.preemption.search import VictimSearch, failed_request, searches_by_flavor, starves_now
from admission.engine.preemption.spare_room import SpareRoom
from admission.engine.snapshot import Snapshot
from queues.reason_codes import ReasonCode

#: Refusals that evictions may help against.
_FOR_LACK_OF_ROOM = (ReasonCode.QUEUE_LIMIT, ReasonCode.NO_FIT, ReasonCode.TOPOLOGY_NO_FIT)


class Refusals(Protocol):
    """What a turn has refused."""

    def refused_classes(self, prospects: PreemptionProspects) -> Iterable[RefusedClass]:
        """Classes for which victims may be found, in the order in which their heads were tried."""
        ...

    def lacking_room(self) -> Iterable[RefusedClass]:
        """All classes that lack room and that no reservation keeps off, in the order of the line."""
        ...


def make_room(
    snapshot: Snapshot,
    refusals: Refusals,
    held_claims: HeldClaims,
    prospects: PreemptionProspects,
    running: RunningWorkloads,
) -> PreemptionResult:
    """Evictions and claims for refused classes.

    ``prospects``: of the world after everything else of the turn, with the space of all claims held; the world is
    left as it was, but for claims that turn out to be of no use.
    """
    if not (snapshot.holders or held_claims.claims):
        return PreemptionResult()
    context = PreemptionContext(snapshot, held_claims, prospects, running)
    spare = SpareRoom(context, refusals.lacking_room)
    for refused in refusals.refused_classes(prospects):
        if may_evict(refused):
            evicts = len(context.result.evicts)
            _make_room_for_class(context, refused)
            if len(context.result.evicts) > evicts:
                spare.claim()
    context.revisit_at(held_claims.until)
    return context.result


def may_evict(refused: RefusedClass) -> bool:
    """True if evictions could help the workloads of a class, and their priority class lets them preempt.

    With ``preemptionPolicy: Never`` nothing is evicted for a workload, be it by priority or for its queue's quota, as
    in Volcano.
    """
    need = refused.need
    if need.complete or need.shortfall or refused.reason.code not in _FOR_LACK_OF_ROOM:
        return False
    return refused.members[0].workload.preempts


def _make_room_for_class(context: PreemptionContext, refused: RefusedClass) -> None:
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
