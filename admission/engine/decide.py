"""One turn: what is given back, what is taken in, then who goes in, head by head of the queues."""

from admission.engine import claims, restart, settlement
from admission.engine.memo import Memo
from admission.engine.preemption import preemption
from admission.engine.preemption.pruning import PreemptionProspects
from admission.engine.round import AdmissionRound
from admission.engine.settlement import SeatLookup
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.plan import Plan

__all__ = ["Memo", "decide"]


def decide(snapshot: Snapshot, memo: Memo) -> tuple[Plan, Memo]:
    """The plan of one turn, and what the next turn may remember.

    Pure: the same snapshot gives the same plan, whatever the order of its collections and whatever the memo.
    """
    if (as_before := memo.answer(snapshot)) is not None:
        return as_before, memo

    desk = memo.reuse_state()
    keys = desk.update(snapshot)
    assert desk.tree is not None
    assert desk.usage is not None
    assert desk.pending is not None
    waiting = desk.pending
    trial = Trial.open(snapshot.nodes, desk.usage.copy())
    trial.fragmentation = desk.fragmentation = desk.gauge_for(snapshot, trial)
    seats = SeatLookup(snapshot, desk.open_admissions)

    frees = tuple(settlement.frees(snapshot, desk.open_admissions.without_seats, trial))
    evicts = tuple(settlement.evicts(snapshot, frees))
    adopts = tuple(settlement.adopts(snapshot, trial, seats))

    held = claims.hold(snapshot, trial, desk.tree, desk.open_admissions.evicting)
    moving = settlement.workloads_in_transition(snapshot) | held.keys.keys()
    waiting.update(keys | moving, snapshot, seats, trial)
    turn = AdmissionRound(desk, trial, snapshot.now)
    turn.try_beneficiaries(waiting.take_out(held.keys), held)
    turn.screen()
    backfill = turn.reserve(snapshot)
    turn.try_all(backfill)
    again = restart.taken_back(snapshot, turn.refused_with_seats(), trial)
    prospects = PreemptionProspects(trial, desk.open_admissions.lowest_priority)
    room = preemption.make_room(
        snapshot, turn.refused_classes(prospects), held, prospects, desk.held_admissions
    )

    plan = Plan(
        now=snapshot.now,
        ledger_seq=snapshot.ledger_seq,
        frees=frees,
        adopts=adopts,
        starts=tuple(sorted(snapshot.started)),
        evicts=(*evicts, *again, *room.evicts),
        claims=tuple(room.claims),
        dropped=held.dropped,
        admits=tuple(turn.admits),
        reasons=turn.reasons(room.reasons),
    )
    desk.dirty_workloads = moving
    desk.dirty_queues = set(trial.usage.dirty_queues)
    untils = (waiting.until(), room.until, backfill.until, desk.until(), desk.parked.until())
    until = min((each for each in untils if each is not None), default=None)
    return plan, Memo(plan, until, desk.tree, desk.usage.copy(), desk, desk.turns)
