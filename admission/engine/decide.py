"""One turn of the engine: what is freed and adopted, then the heads of the queues one by one, then preemption."""

from admission.engine import claims, forced_changes, restart
from admission.engine.forced_changes import SeatLookup
from admission.engine.memo import Memo
from admission.engine.pending.waiting_time import soonest
from admission.engine.preemption import preemption
from admission.engine.preemption.pruning import PreemptionProspects
from admission.engine.round import AdmissionRound
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.plan import Plan

__all__ = ["Memo", "decide"]


def decide(snapshot: Snapshot, memo: Memo) -> tuple[Plan, Memo]:
    """The plan of one turn, and the memo for the next.

    Pure: the same snapshot gives the same plan, whatever the order of its collections and whatever the memo.
    """
    if (unchanged := memo.answer(snapshot)) is not None:
        return unchanged, memo

    state = memo.state_for(snapshot)
    trial = Trial.open(snapshot.nodes, state.usage.copy())
    trial.fragmentation = state.gauge_for(trial)
    seats = SeatLookup(snapshot, state.open_admissions)

    frees = tuple(forced_changes.frees(snapshot, state.open_admissions.without_seats, trial))
    evicts = tuple(forced_changes.evicts(snapshot, frees))
    adopts = tuple(forced_changes.adopts(snapshot, trial, seats))

    held = claims.hold(snapshot, trial, state.open_admissions.evicting)
    transient = forced_changes.workloads_in_transition(snapshot) | held.claims.keys()
    state.pending.update(state.dirty_workloads | transient, snapshot, seats, trial)
    admission = AdmissionRound(state, trial, snapshot.now)
    admission.try_beneficiaries(held)
    admission.screen()
    backfill = admission.reserve(snapshot)
    admission.try_all(backfill)

    restarts = restart.restart_gang(snapshot, admission.refused_with_seats(), trial)
    prospects = PreemptionProspects(trial, state.open_admissions.lowest_priority)
    refused = admission.refused_classes(prospects)
    preempted = preemption.make_room(snapshot, refused, held, prospects, state.held_admissions)

    plan = Plan(
        now=snapshot.now,
        ledger_seq=snapshot.ledger_seq,
        frees=frees,
        adopts=adopts,
        starts=tuple(sorted(snapshot.started)),
        evicts=(*evicts, *restarts, *preempted.evicts),
        claims=tuple(preempted.claims),
        dropped=held.dropped,
        admits=tuple(admission.admits),
        reasons=admission.reasons(preempted.reasons),
    )
    state.dirty_workloads = transient
    state.dirty_queues = set(trial.usage.dirty_queues)
    until = soonest(
        state.pending.until(), preempted.until, backfill.until, state.until(), state.parked.until()
    )
    return plan, Memo(plan, until, state.tree, state.usage.copy(), state, state.turns)
