"""Small full worlds in which evictions cost about the same, and the laws of what they leave idle."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from hypothesis import strategies as st

from admission.engine import decide as engine
from admission.engine.memo import Memo
from admission.engine.preemption.candidates import Candidate
from admission.engine.preemption.rules import EvictionRule
from admission.engine.snapshot import Snapshot
from queues.admissions import AdmissionState, Claim
from queues.quota.accounts import Account
from queues.quota.usage import Usage
from queues.resources import GPU
from queues.workload import NO_FLAVOR, AdmissionId, QueueName
from tests.builders.running_work import candidates_in
from tests.laws.laws.preemption import NOW, books, full_worlds, plan_of
from tests.laws.worlds.plan_effects import apply, drained

GPUS = Account(NO_FLAVOR, GPU)


@st.composite
def equal_worlds(draw: st.DrawFn) -> Snapshot:
    """Full worlds in which many lose as much work as others: so many device-seconds."""
    snapshot = draw(full_worlds())
    admissions = {}
    for number, admission in snapshot.admissions.items():
        gpus = sum(seat.takes[GPU] for seat in admission.seats) // 1000
        lost = draw(st.sampled_from([2400, 2400, 2460, 12_000]))
        admissions[number] = replace(admission, opened_at=NOW - lost // gpus)
    holders = {
        key: replace(each, checkpoint_interval=None, created=NOW - 2 * 12_000, evictions=0)
        for key, each in snapshot.holders.items()
    }
    pending = snapshot.pending
    if pending and draw(st.booleans()):  # the law is about sole beneficiaries
        sole = draw(st.sampled_from(sorted(pending)))
        pending = {sole: pending[sole]}
    return replace(snapshot, admissions=admissions, holders=holders, pending=pending, budgets=())


def no_other_victim_would_leave_less_idle(snapshot: Snapshot) -> None:
    """Of what could go alone for a sole beneficiary, nothing loses no more work and leaves fewer devices idle.

    But for what comes first: elastic parts, lower priorities of the own queue, what leaves queues what they deserve,
    and a single pod for a single pod.
    """
    plan, usage = plan_of(snapshot), books(snapshot)
    if len(plan.claims) != 1 or plan.admits:
        return
    (claim,) = plan.claims
    candidates = {
        each.workload.key: each
        for of_queue in candidates_in(snapshot, usage.tree).of_queue.values()
        for each in of_queue
        if each.whole
    }
    victims = [candidates[snapshot.admissions[number].workload] for number in claim.victims]
    for other in candidates.values():
        if other not in victims and _is_better(other, victims, claim, snapshot):
            alone = replace(
                snapshot,
                pending={claim.workload: snapshot.pending[claim.workload]},
                holders={other.workload.key: other.workload},
            )
            evicts = plan_of(alone).evicts
            is_lent = all(each.code != EvictionRule.RECLAIMED for each in evicts) or _is_all_lent(
                other, claim.queue, usage
            )
            assert not (evicts and is_lent), f"{other.workload} instead of {victims}"


def _is_better(other: Candidate, victims: list[Candidate], claim: Claim, snapshot: Snapshot) -> bool:
    beneficiary = snapshot.pending[claim.workload]
    own = [each.priority for each in victims if each.queue == claim.queue]
    if other.queue == claim.queue and other.priority > max(own, default=-1):
        return False
    if (other.protected_in_queue, True) > max((each.protected_in_queue, each.whole) for each in victims):
        return False
    if beneficiary.minimum == 1 and other.pods > 1 and [each.pods for each in victims] == [1]:
        return False
    return _freed([other]) < _freed(victims) and other.cost <= sum(each.cost for each in victims)


def _freed(candidates: Iterable[Candidate]) -> int:
    return sum(each.charged(GPUS) for each in candidates)


def _is_all_lent(other: Candidate, mine: QueueName, usage: Usage) -> bool:
    """Whether the eviction leaves every queue on its side what it deserves."""
    side = [name for name in usage.tree.paths[other.queue] if name not in usage.tree.paths[mine]]
    return all(
        usage.counted(name, GPUS) - other.charged(GPUS) >= usage.tree.deserved(name, GPUS) for name in side
    )


def what_is_freed_is_claimed(snapshot: Snapshot) -> None:
    """When the victims are gone nothing is admitted but what has a claim: all that fits was given one."""
    plan = plan_of(snapshot)
    evicted = {snapshot.admissions[each.admission].workload for each in plan.evicts}
    later = drained(apply(snapshot, plan))
    waiting = {key: each for key, each in later.pending.items() if key not in evicted}
    claimed = {each.workload for each in plan.claims}
    for admit in plan_of(replace(later, now=snapshot.now + 5, pending=waiting)).admits:
        assert admit.workload in claimed, plan.reasons[admit.workload]


def pods_of_victims_may_end_in_any_order(snapshot: Snapshot, seed: int) -> None:
    """Whichever pods of victims end first: each workload with a claim is admitted, at the latest when all have ended.

    But for one in whose place a more urgent workload of its queue comes.
    """
    chance = Random(seed)
    plan, memo = engine.decide(snapshot, Memo())
    promised, urgent = {claim.workload for claim in plan.claims}, set[tuple[QueueName, int]]()
    late = dict.fromkeys(promised)
    while seats := _ending(snapshot := apply(snapshot, plan)):
        number, index = chance.choice(seats)
        snapshot = replace(snapshot, now=snapshot.now + 1, ended={number: frozenset((index,))})
        plan, memo = engine.decide(snapshot, memo)
        assert plan == plan_of(snapshot)
        for admit in plan.admits:
            late.pop(admit.workload, None)
            if admit.workload not in promised:
                urgent.add((admit.queue, admit.priority))
    for key in late:
        waits = snapshot.pending[key]
        assert any(queue == waits.queue and priority > waits.priority for queue, priority in urgent), key


def _ending(snapshot: Snapshot) -> list[tuple[AdmissionId, int]]:
    """Seats of victims whose pods have not ended."""
    return [
        (number, index)
        for number, admission in snapshot.admissions.items()
        if admission.state is AdmissionState.EVICTING
        for index in range(len(admission.seats))
        if index not in admission.ended
    ]
