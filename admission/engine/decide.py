"""One turn of the engine: what is freed and adopted, then the heads of the queues one by one, then preemption."""

from dataclasses import replace

from admission.engine import claims, forced_changes, restart
from admission.engine.backfill.coming_room import ComingRoom
from admission.engine.closures.closing import TurnClosures, evicted_from
from admission.engine.forced_changes import SeatLookup
from admission.engine.memo import EngineState, Memo
from admission.engine.pending.waiting_time import soonest
from admission.engine.plan_limit import SEATS_PER_PLAN, PlanLimit, Progress
from admission.engine.preemption import preemption
from admission.engine.preemption.context import PreemptionResult
from admission.engine.preemption.pruning import PreemptionProspects
from admission.engine.round import AdmissionRound
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.plan import Evict, Plan

__all__ = ["Memo", "decide"]


def decide(
    snapshot: Snapshot, memo: Memo, limit: int = SEATS_PER_PLAN, *, progress: Progress | None = None
) -> tuple[Plan, Memo]:
    """The plan of one turn, and the memo for the next.

    Pure: the same snapshot gives the same plan, whatever the order of its collections and whatever the memo.
    ``limit``: seats that the plan is about at the most; if there is more to do, it has ``stopped``. ``progress`` is set
    to the workload that is being tried.
    """
    if (unchanged := memo.answer(snapshot)) is not None:
        return unchanged, memo

    closing, snapshot = memo.closing.follow(snapshot)
    state = memo.state_for(snapshot)
    leaving = evicted_from(snapshot, state.open_admissions, state.usage)
    if leaving.admissions:
        snapshot = replace(snapshot, evictable={**snapshot.evictable, **leaving.admissions})
    trial = Trial.open(snapshot.nodes, state.usage.copy())
    trial.user_use = state.user_use.copy()
    trial.progress = progress or trial.progress
    trial.fragmentation = state.gauge_for(trial)
    trial.charge_kept_nodes()
    seats = SeatLookup(snapshot, state.open_admissions)

    left = PlanLimit(limit)
    forced = forced_changes.within(left, snapshot, state.open_admissions.without_seats, trial, seats)
    transient = forced_changes.workloads_in_transition(snapshot)
    if left.is_reached():
        # The rest is forced as well; nothing else is decided before all of it is posted.
        state.dirty_workloads |= transient
        forced = replace(forced, chosen_nodes=closing.chosen)
        return forced, _memo(forced, snapshot.now, state, closing)

    held = claims.hold(snapshot, trial, state.open_admissions.evicting)
    transient |= held.claims.keys()
    state.pending.note_held_quota(any(claim.is_quota_only for claim in held.claims.values()))
    state.pending.update(state.dirty_workloads | transient, snapshot, seats, trial)
    admission = AdmissionRound(state, trial, snapshot.now, left)
    admission.complete_gangs(held)
    admission.try_beneficiaries(held)
    transient |= admission.tried_apart
    admission.screen()
    backfill = admission.reserve(snapshot)
    admission.await_room(ComingRoom.of(snapshot, state.open_admissions.evicting, held), backfill)
    admission.try_all(backfill)
    admission.return_kept_places()
    trial.progress.workload = None

    restarts: tuple[Evict, ...] = ()
    preempted = PreemptionResult()
    prospects = PreemptionProspects(trial, state.open_admissions.lowest_priority, state.hopeless)
    if not left.is_reached():
        restarts = restart.restart_gang(snapshot, admission.refused_with_seats(), trial)
        preempted = preemption.make_room(
            snapshot,
            admission.refused_classes(prospects),
            admission.lacking_room,
            held,
            prospects,
            state.running,
        )
        trial.progress.workload = None
    # Not together with new claims, which are in the books only in the next turn.
    may_grant = not (left.is_reached() or preempted.claims)
    quota = admission.hold_quota(snapshot, held, may_grant=may_grant)
    evicted = {snapshot.admissions[each.admission].workload: each.admission for each in preempted.evicts}
    left_out = admission.leave_out(evicted)

    plan = replace(
        forced,
        evicts=(*forced.evicts, *restarts, *preempted.evicts),
        claims=(*held.moved, *preempted.claims, *quota),
        dropped=held.dropped,
        admits=tuple(admission.admits),
        reasons=admission.reasons(preempted.reasons, left_out),
        chosen_nodes=closing.chosen,
        stopped=left.is_reached(),
    )
    state.dirty_workloads = transient
    state.dirty_queues = set(trial.usage.dirty_queues)
    if left.is_reached():
        return plan, _memo(plan, snapshot.now, state, closing)
    until = soonest(
        state.pending.until(),
        admission.until,
        preempted.until,
        backfill.until,
        state.until(),
        prospects.until(),
        closing.until,
        leaving.until,
    )
    return plan, _memo(plan, until, state, closing)


def _memo(plan: Plan, until: int | None, state: EngineState, closing: TurnClosures) -> Memo:
    return Memo(plan, until, state.tree, state.usage.copy(), state, state.turns, closing)
