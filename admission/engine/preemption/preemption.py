"""Who has to go so that somebody refused can come in: reclaim, priority inside a queue, clearing.

It takes two turns: evictions and a claim on the place now, the admission when the victims are gone. Everything
here is decided in the world as it will be when all that leaves is gone and every claim is used, so nobody is
evicted for a place that becomes free anyhow.
"""

from collections.abc import Iterable, Mapping

from admission.engine import reasons
from admission.engine.claims import HeldClaims
from admission.engine.pending.classes import RefusedClass
from admission.engine.placement import need as need_module
from admission.engine.preemption.candidates import HeldAdmission
from admission.engine.preemption.context import FailedRequest, PreemptionContext, PreemptionResult
from admission.engine.preemption.pruning import PreemptionProspects
from admission.engine.preemption.search import VictimSearch, attempts_for, may_clear, plain_failure
from admission.engine.snapshot import Snapshot
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId

#: Refusals that room may help against.
_FOR_LACK_OF_ROOM = (ReasonCode.QUEUE_LIMIT, ReasonCode.NO_FIT, ReasonCode.TOPOLOGY_NO_FIT)


def make_room(
    snapshot: Snapshot,
    refused: Iterable[RefusedClass],
    held: HeldClaims,
    prospects: PreemptionProspects,
    parts: Mapping[AdmissionId, HeldAdmission],
) -> PreemptionResult:
    """Evictions and claims for refused classes, given in the order in which their heads were tried.

    ``prospects`` are of the world after everything else of the turn, with the space of all claims held; it is as
    before afterwards, but for claims that turn out to be of no use. ``parts``: what each admission holds.
    """
    room = PreemptionResult()
    if not (snapshot.holders or held.keys):
        return room
    turn = PreemptionContext(snapshot, held, prospects, room, parts)
    for each in refused:
        if each.need.complete or each.need.shortfall or each.reason.code not in _FOR_LACK_OF_ROOM:
            continue
        _serve(turn, each)
    room.no_later_than(held.until)
    return room


def _serve(turn: PreemptionContext, refused: RefusedClass) -> None:
    """Make room for as many of a class as there are victims for."""
    attempts: list[VictimSearch] | None = None
    failure: FailedRequest | None = None
    for candidate in refused.members:
        workload = candidate.workload
        claim = turn.held.keys.get(workload.key)
        if claim is not None:
            if waits := turn.held.remaining_victims(claim):
                turn.room.reasons[workload.key] = reasons.making_room(
                    pods=sum(len(turn.held.draining[number][1]) for number in waits),
                    names=[turn.name_of(number) for number in waits],
                )
                continue
            turn.give_up(claim)
        if attempts is None:
            ways = need_module.need_choices(workload, refused.need)
            if not any(may_clear(workload, need, turn) for need in ways):
                failure = plain_failure(turn, workload, ways[0]) if len(ways) == 1 else None
                if failure is not None and turn.in_vain(failure):
                    break
                ways = [need for need in ways if turn.prospects.hopeless(workload, need) is None]
            attempts = [attempt for need in ways for attempt in attempts_for(turn, workload, need)]
        if not any(attempt.serve(workload) for attempt in attempts):
            if failure is not None and not turn.room.evicts:
                turn.failures.setdefault(workload.queue, []).append(failure)
            break
