"""Laws of preemption, reclaim and clearing on small full worlds."""

from dataclasses import replace
from random import Random

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from tests.laws import victims
from tests.laws.after import apply, drained
from tests.laws.victims import full_worlds

worlds = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@worlds
@given(full_worlds())
def test_nobody_goes_but_for_somebody(snapshot: Snapshot) -> None:
    victims.no_victim_without_a_beneficiary(snapshot)


@worlds
@given(full_worlds())
def test_nobody_who_is_protected_goes(snapshot: Snapshot) -> None:
    victims.nobody_protected_goes(snapshot)


@worlds
@given(full_worlds())
def test_who_is_more_urgent_goes_only_for_what_others_own(snapshot: Snapshot) -> None:
    victims.priority_protects(snapshot)


@worlds
@given(full_worlds())
def test_budgets_hold(snapshot: Snapshot) -> None:
    victims.budgets_hold(snapshot)


@worlds
@given(full_worlds())
def test_nobody_goes_who_need_not(snapshot: Snapshot) -> None:
    victims.victim_sets_are_minimal(snapshot)


@worlds
@given(full_worlds())
def test_who_was_promised_a_place_gets_it(snapshot: Snapshot) -> None:
    victims.beneficiaries_come_in(snapshot)


@worlds
@given(full_worlds())
def test_evicted_work_does_not_evict_back(snapshot: Snapshot) -> None:
    victims.comes_to_rest(snapshot)


@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate]
)
@given(full_worlds(), st.integers())
def test_a_thousand_turns_of_coming_and_going_evict_nobody_too_often_and_end_at_rest(
    snapshot: Snapshot, seed: int
) -> None:
    chance = Random(seed)
    snapshot = replace(snapshot, budgets=())
    memo, evictions, number = Memo(), 0, 1000
    for turn in range(1000):
        plan, memo = decide(snapshot, memo)
        evictions += len(plan.evicts)
        snapshot = drained(apply(snapshot, plan))
        assert all(workload.evictions <= 3 for workload in snapshot.holders.values())
        over = {
            id_: frozenset(range(len(admission.seats)))
            for id_, admission in snapshot.admissions.items()
            if turn < 900 and chance.random() < 0.05
        }
        pending = dict(snapshot.pending)
        if turn < 900 and len(pending) < 6 and chance.random() < 0.5:
            number += 1
            like = chance.choice([*snapshot.holders.values(), *pending.values()] or [None])
            if like is not None:
                key = replace(like.key, uid=f"w{number}")
                pending[key] = replace(
                    like,
                    key=key,
                    name=key.uid,
                    arrival=number,
                    created=snapshot.now,
                    evictions=0,
                    waiting_since=0,
                )
        snapshot = replace(snapshot, now=snapshot.now + 60, pending=pending, ended=over)
    assert not decide(snapshot, memo)[0].evicts
