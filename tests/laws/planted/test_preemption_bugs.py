"""Planted bugs in the choice of victims: each breaks one thing, and the law it names has to notice."""

from dataclasses import replace
from typing import Any

import pytest

from admission.engine import claims
from admission.engine.preemption import candidates, preemption, rules, victim_set
from tests.laws.laws import preemption as laws
from tests.laws.laws.preemption import full_worlds
from tests.laws.planted.bug import Bug, is_broken_in


def _greedy(self: Any, needed: Any = None) -> None:
    """Nobody is put back, and somebody more goes."""
    for unit in self.herd.of_queue.get(self.taken[0].unit.queue, ()):
        if not self.has(unit):
            self.take(unit)
            return


def _without_claims(*given: Any) -> Any:
    room = _make_room(*given)
    room.claims.clear()
    return room


def _for_free(self: Any, unit: Any, parts: Any) -> bool:
    return True


def _unprotected(self: Any, workload: Any, queue: Any, parts: Any) -> bool:
    return False


def _anybody(self: Any, unit: Any, taken: int = 0) -> Any:
    return rules.EvictionRule.RECLAIMED if unit.queue != self.workload.queue else rules.EvictionRule.PREEMPTED


def _less_urgent(*given: Any, **how: Any) -> Any:
    """Whoever runs counts as less urgent than he is, so equals take each other's place."""
    unit = _unit(*given, **how)
    elastic, cost, priority, newest, uid, number = unit.order
    return replace(unit, order=(elastic, cost, priority - 1, newest, uid, number))


def _hold_nothing(snapshot: Any, trial: Any, tree: Any, evicting: Any = None) -> Any:
    held = _hold(replace(snapshot, claims={}), trial, tree, evicting)
    held._dropped |= set(snapshot.claims)
    return held


_make_room, _hold, _unit = preemption.make_room, claims.hold, candidates._unit

BUGS = (
    Bug("nobody is spared", victim_set.VictimSet, "spare", _greedy, laws.victim_sets_are_minimal),
    Bug(
        "evictions without a claim",
        preemption,
        "make_room",
        _without_claims,
        laws.no_victim_without_a_beneficiary,
    ),
    Bug("budgets are ignored", victim_set.VictimSet, "_budgets", _for_free, laws.budgets_hold),
    Bug("nothing protects", candidates._Protection, "now", _unprotected, laws.nobody_protected_goes),
    Bug(
        "everybody may take from everybody", rules.PreemptionRights, "rule", _anybody, laws.priority_protects
    ),
    Bug("equals take each other's place", candidates, "_unit", _less_urgent, laws.no_ping_pong),
    Bug("claims hold nothing", claims, "hold", _hold_nothing, laws.beneficiaries_come_in),
)


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_breaks_its_law(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    is_broken_in(full_worlds(), bug.law)
