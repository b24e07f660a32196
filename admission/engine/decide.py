"""One turn: what is given back, what is taken in, then who goes in, head by head of the queues."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from admission.engine import claims, gangs, preemption, reasons, settlement
from admission.engine.claims import Held
from admission.engine.eligible import Field, sort_out
from admission.engine.gangs import Need
from admission.engine.memo import Memo
from admission.engine.plan import Admit, Plan, Reason
from admission.engine.preemption import Refused
from admission.engine.reservation import Backfill, waits_since
from admission.engine.settlement import Seats
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.ordering import Candidate, Line
from queues.workload import QueueName, WorkloadKey

__all__ = ["Memo", "decide"]


def decide(snapshot: Snapshot, memo: Memo) -> tuple[Plan, Memo]:
    """The plan of one turn, and what the next turn may remember.

    Pure: the same snapshot gives the same plan, whatever the order of its collections and whatever the memo.
    """
    if (as_before := memo.answer(snapshot)) is not None:
        return as_before, memo

    tree = memo.tree_for(snapshot)
    booked = memo.usage_for(snapshot, tree)
    trial = Trial.open(snapshot.nodes, booked.copy())
    trial.gauge = memo.gauge_for(snapshot, trial)
    seats = Seats.of(snapshot)

    frees = tuple(settlement.frees(snapshot, trial))
    evicts = tuple(settlement.evicts(snapshot, frees))
    adopts = tuple(settlement.adopts(snapshot, trial, seats))

    held = claims.hold(snapshot, trial, tree)
    field_ = sort_out(snapshot, seats, trial, memo.prepared)
    tried = Tried()
    candidates = try_beneficiaries(field_, held, trial, tried)
    backfill = Backfill.around(snapshot, classes_of(field_, candidates), trial)
    try_all(field_, Line(trial.usage, candidates, snapshot.now), trial, backfill, tried)
    again = gangs.taken_back(
        snapshot, [(each.members[0].workload, each.need) for each in tried.refused], trial
    )
    room = preemption.make_room(snapshot, tried.refused, held, trial)

    waiting = field_.reasons | tried.reasons | room.reasons
    plan = Plan(
        now=snapshot.now,
        ledger_seq=snapshot.ledger_seq,
        frees=frees,
        adopts=adopts,
        starts=tuple(sorted(snapshot.started)),
        evicts=(*evicts, *again, *room.evicts),
        claims=tuple(room.claims),
        dropped=held.dropped,
        admits=tuple(tried.admits),
        reasons={key: waiting[key] for key in snapshot.pending if key in waiting},
    )
    untils = [each for each in (field_.until, room.until, backfill.until) if each is not None]
    return plan, Memo(snapshot, plan, min(untils, default=None), tree, booked, field_.prepared, trial.gauge)


@dataclass(slots=True, eq=False)
class Tried:
    """Answers of a turn so far."""

    admits: list[Admit] = field(default_factory=list)
    #: Classes that were refused, in the order in which their heads were tried.
    refused: list[Refused] = field(default_factory=list)
    #: Reasons of those who were tried or wait behind them.
    reasons: dict[WorkloadKey, Reason] = field(default_factory=dict)

    def refuse(self, members: Sequence[Candidate], need: Need, reason: Reason) -> None:
        """One answer for all of these."""
        self.refused.append(Refused(members=members, need=need, reason=reason))
        self.reasons |= {each.workload.key: reason for each in members}


def try_beneficiaries(field_: Field, held: Held, trial: Trial, tried: Tried) -> list[Candidate]:
    """Those for whom space was made come first, each with its own space. Returns all others."""
    beneficiaries = [each for each in field_.candidates if each.workload.key in held.keys]
    for each in sorted(beneficiaries, key=lambda each: (each.workload.arrival, each.workload.key)):
        held.release(each.workload.key, trial)
        answer = gangs.admit(each.workload, field_.need(each), trial)
        if isinstance(answer, Admit):
            held.used(each.workload.key)
            tried.admits.append(answer)
        else:
            held.restore(each.workload.key, trial)
            tried.refuse((each,), field_.need(each), answer)
    tried_already = {each.workload.key for each in beneficiaries}
    return [each for each in field_.candidates if each.workload.key not in tried_already]


def classes_of(field_: Field, candidates: Sequence[Candidate]) -> list[tuple[Candidate, Need]]:
    """The longest-waiting candidate of every (queue, shape), and what it lacks."""
    first: dict[tuple[QueueName, Hashable], Candidate] = {}
    for each in candidates:
        mark = (each.workload.queue, each.shape)
        known = first.get(mark)
        if known is None or waits_since(each.workload) < waits_since(known.workload):
            first[mark] = each
    return [(each, field_.need(each)) for each in first.values()]


def try_all(field_: Field, line: Line, trial: Trial, backfill: Backfill, tried: Tried) -> None:
    """Try head after head.

    A refusal answers for all of the same shape, and in a strict queue for all behind.
    """
    while (head := line.head()) is not None:
        answer = backfill.admit(head, field_.need(head), trial)
        if isinstance(answer, Admit):
            tried.admits.append(answer)
            line.admitted()
            continue
        refused = line.refused()
        tried.refuse(refused.alike, field_.need(head), answer)
        if refused.behind:
            behind = reasons.behind(head.workload.queue, str(head.workload))
            tried.reasons |= {each.workload.key: behind for each in refused.behind}
