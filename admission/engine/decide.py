"""One turn: what is given back, what is taken in, then who goes in, head by head of the queues."""

from admission.engine import gangs, reasons, settlement
from admission.engine.eligible import Field, sort_out
from admission.engine.memo import Memo
from admission.engine.plan import Admit, Plan, Reason
from admission.engine.settlement import Seats
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.ordering import Line
from queues.workload import WorkloadKey

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
    seats = Seats.of(snapshot)

    frees = tuple(settlement.frees(snapshot, trial))
    evicts = tuple(settlement.evicts(snapshot, frees))
    adopts = tuple(settlement.adopts(snapshot, trial, seats))

    field = sort_out(snapshot, seats, trial, memo.prepared)
    admits, refusals = try_all(field, Line(trial.usage, field.candidates, snapshot.now), trial)

    waiting = field.reasons | refusals
    plan = Plan(
        now=snapshot.now,
        ledger_seq=snapshot.ledger_seq,
        frees=frees,
        adopts=adopts,
        starts=tuple(sorted(snapshot.started)),
        evicts=evicts,
        admits=admits,
        reasons={key: waiting[key] for key in snapshot.pending if key in waiting},
    )
    return plan, Memo(snapshot, plan, field.until, tree, booked, field.prepared)


def try_all(field: Field, line: Line, trial: Trial) -> tuple[tuple[Admit, ...], dict[WorkloadKey, Reason]]:
    """Try head after head.

    A refusal answers for all of the same shape, and in a strict queue for all behind.
    """
    admits: list[Admit] = []
    refusals: dict[WorkloadKey, Reason] = {}
    while (head := line.head()) is not None:
        answer = gangs.admit(head.workload, field.need(head), trial)
        if isinstance(answer, Admit):
            admits.append(answer)
            line.admitted()
            continue
        refused = line.refused()
        refusals |= {each.workload.key: answer for each in refused.alike}
        if refused.behind:
            behind = reasons.behind(head.workload.queue, str(head.workload))
            refusals |= {each.workload.key: behind for each in refused.behind}
    return tuple(admits), refusals
