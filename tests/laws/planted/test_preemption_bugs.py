"""Planted bugs in the choice of victims: each breaks one thing, and the law it names has to notice."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from msgspec import structs

from admission.engine import claims
from admission.engine.preemption import (
    candidates,
    preemption,
    protection,
    rules,
    running,
    search,
    victim_set,
)
from admission.explain import takers
from queues.quota import tree
from tests.laws.laws import idle_devices
from tests.laws.laws import preemption as laws
from tests.laws.laws.preemption import full_worlds, lent_worlds
from tests.laws.planted.bug import Bug, each_breaks_its_law, is_broken_in


def _greedy(self: Any, needed: Any = None) -> None:
    """No victim is put back, and one more is taken."""
    for candidate in self.candidates.of_queue.get(self.victims[0].candidate.queue, ()):
        if not self.has(candidate):
            self.take(candidate)
            return


def _without_claims(*given: Any) -> Any:
    result = _make_room(*given)
    result.claims.clear()
    return result


def _unlimited(self: Any, workload: Any, pods: int) -> list[str]:
    return []


def _unprotected(*given: Any) -> Any:
    nobody = frozenset[Any]()
    return protection.Protection(nobody, nobody, nobody, nobody, nobody, None)


def _whatever_the_class_says(refused: Any) -> bool:
    return not (refused.need.complete or refused.need.shortfall)


def _all_of_them(wishing: Any, queue: Any, tree: Any) -> Any:
    return wishing


def _as_the_class_says(self: Any, queue: Any, priority: int) -> int:
    return priority


def _every_candidate(self: Any, candidate: Any) -> Any:
    same_queue = candidate.queue == self.workload.queue
    return rules.EvictionRule.PREEMPTED if same_queue else rules.EvictionRule.RECLAIMED


def _nobody(question: Any) -> Any:
    return iter(())


def _less_urgent(*given: Any, **how: Any) -> Any:
    """Running workloads count as less urgent than they are, so equals take each other's place."""
    candidate = _candidate(*given, **how)
    return structs.replace(candidate, priority=candidate.priority - 1)


def _hold_nothing(snapshot: Any, trial: Any, evicting: Any) -> Any:
    held = _hold(replace(snapshot, claims={}), trial, evicting)
    held._dropped |= set(snapshot.claims)
    return held


_make_room, _hold, _candidate = preemption.make_room, claims.hold, running._candidate

BUGS = (
    Bug(
        "unneeded victims stay",
        victim_set.VictimSet,
        "put_back_unneeded",
        _greedy,
        laws.victim_sets_are_minimal,
        21,
    ),
    Bug(
        "evictions without a claim",
        preemption,
        "make_room",
        _without_claims,
        laws.no_victim_without_a_beneficiary,
    ),
    Bug("budgets are ignored", candidates.VictimCandidates, "keeping", _unlimited, laws.budgets_hold, 1),
    Bug("nothing protects", running, "protection_of", _unprotected, laws.nobody_protected_goes, 5),
    Bug(
        "a gang keeps nothing that it waited for",
        running,
        "reclaimable_from",
        lambda workload, first_opened, policy: first_opened,
        laws.nobody_protected_goes,
        5,
    ),
    Bug(
        "evictions protect from no further ones",
        running,
        "evictable_from",
        lambda workload, last_opened, policy: last_opened,
        lambda world: laws.few_evictions_in_a_day(world, Random(1)),
    ),
    Bug(
        "preemptionPolicy: Never is ignored",
        preemption,
        "may_evict",
        _whatever_the_class_says,
        laws.nothing_goes_for_who_never_preempts,
        7,
    ),
    Bug(
        "every candidate may be taken",
        rules.PreemptionRights,
        "rule",
        _every_candidate,
        laws.priority_protects,
        16,
    ),
    Bug("equals take each other's place", running, "_candidate", _less_urgent, laws.no_ping_pong, 3),
    Bug(
        "a gang that starves is not named", takers, "_clearing", _nobody, laws.evictions_were_named, rare=True
    ),
    Bug("an owner is not named", takers, "_reclaiming", _nobody, laws.evictions_were_named),
    Bug("claims hold nothing", claims, "hold", _hold_nothing, laws.beneficiaries_come_in, 7),
)

test_a_planted_bug_breaks_its_law = each_breaks_its_law(BUGS, full_worlds())


@pytest.mark.parametrize(
    ("attribute", "wrong", "first"),
    [
        pytest.param("_leave_fewer_idle", lambda *_: None, 33, id="sets"),
        pytest.param("_smaller_of_equals_first", lambda _self, singles, _: singles, 6, id="single pods"),
    ],
)
def test_victims_that_free_more_than_is_needed_break_their_law(
    attribute: str, wrong: Any, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search.VictimSearch, attribute, wrong)
    law = idle_devices.no_other_victim_would_leave_less_idle
    is_broken_in(idle_devices.equal_worlds(), law, first=first)


def test_what_is_freed_and_left_to_chance_breaks_its_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption.SpareRoom, "claim", lambda _: None)
    is_broken_in(full_worlds(), idle_devices.what_is_freed_is_claimed, first=27)


def test_a_claim_that_holds_nothing_once_it_was_tried_breaks_its_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims.HeldClaims, "restore", lambda self, key, _: self._released.discard(key))
    is_broken_in(
        full_worlds(), lambda world: idle_devices.pods_of_victims_may_end_in_any_order(world, 1), first=8
    )


def test_a_wish_that_counts_for_lent_quota_breaks_its_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protection, "within_deserved", _all_of_them)
    is_broken_in(lent_worlds(), laws.borrowers_keep_nothing)


def test_a_priority_that_counts_whole_breaks_its_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree.QueueTree, "counted_priority", _as_the_class_says)
    is_broken_in(full_worlds(), lambda world: laws.priority_beyond_the_highest_counts_nothing(world, 10))
