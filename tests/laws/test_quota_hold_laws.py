"""Laws of quota that is held for gangs whose pods are being made, and bugs that break them."""

import random
from typing import Any

import pytest
from hypothesis import given

from admission.engine import claims, quota_holds
from admission.engine.pending import pending
from admission.engine.snapshot import Snapshot
from queues.quota import usage
from tests.laws.laws import decision
from tests.laws.laws.quota_holds import (
    holding_worlds,
    no_quota_is_promised_above_a_limit,
    quota_is_held_once_and_for_those_who_ask,
    what_is_gone_gets_no_quota,
    what_is_held_is_not_given_to_others,
)
from tests.laws.planted.bug import Bug, is_broken_in, tried
from tests.laws.worlds.settings import in_worlds

worlds = in_worlds(60)


@worlds
@given(holding_worlds())
def test_no_quota_is_promised_above_a_limit(snapshot: Snapshot) -> None:
    no_quota_is_promised_above_a_limit(snapshot)


@worlds
@given(holding_worlds())
def test_what_is_held_is_not_given_to_others(snapshot: Snapshot) -> None:
    what_is_held_is_not_given_to_others(snapshot)


@worlds
@given(holding_worlds())
def test_quota_is_held_once_and_for_those_who_ask(snapshot: Snapshot) -> None:
    quota_is_held_once_and_for_those_who_ask(snapshot)


@worlds
@given(holding_worlds())
def test_what_is_gone_gets_no_quota(snapshot: Snapshot) -> None:
    what_is_gone_gets_no_quota(snapshot)


@worlds
@given(holding_worlds())
def test_the_memo_decides_nothing_beside_held_quota(snapshot: Snapshot) -> None:
    decision.memo_decides_nothing(snapshot)


@worlds
@given(holding_worlds())
def test_the_order_decides_nothing_beside_held_quota(snapshot: Snapshot) -> None:
    decision.independent_of_order(snapshot, random.Random(1))


@worlds
@given(holding_worlds())
def test_turns_come_to_rest_beside_held_quota(snapshot: Snapshot) -> None:
    decision.reaches_a_fixed_point(snapshot)


def _charge_nothing(self: Any, claim: Any, sign: int, trial: Any) -> None: ...


def _forget(self: Any, entry: Any) -> None:
    self._leave(entry)
    self._drop_own_reason(entry.workload.key)
    if entry.workload_class is not None and entry.workload_class.blocked is None:
        self._limits.remove(entry)


_chance = random.Random(0)

BUGS = (
    Bug("quota is never refused", usage.Usage, "refusal", lambda *_: None, no_quota_is_promised_above_a_limit, 1),
    Bug("what is held is not charged", claims.HeldClaims, "_promise", _charge_nothing,
        what_is_held_is_not_given_to_others, rare=True),
    Bug("quota is held again and again", claims, "_is_over", lambda claim, snapshot: False,
        quota_is_held_once_and_for_those_who_ask),
    Bug("quota is held for whoever waits", pending, "awaits_pods", lambda workload: True,
        quota_is_held_once_and_for_those_who_ask, 15),
    Bug("groups that are gone are given quota", pending.PendingWorkloads, "_forget", _forget,
        what_is_gone_gets_no_quota),
    Bug("whoever is seen first gets it", quota_holds, "_order", lambda workload: _chance.getrandbits(30),
        decision.independent_of_order, 10),
)  # fmt: skip


@pytest.mark.parametrize("bug", tried(BUGS))
def test_a_planted_bug_breaks_its_law(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)

    def law(snapshot: Snapshot) -> None:
        if bug.law is decision.independent_of_order:
            decision.independent_of_order(snapshot, random.Random(1))
        else:
            bug.law(snapshot)

    is_broken_in(holding_worlds(), law, first=bug.first)
