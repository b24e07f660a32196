"""Laws of quota that is held for gangs whose pods are being made, and bugs that break them."""

import random
from typing import Any

from admission.engine import claims, quota_holds
from admission.engine.pending import pending
from queues.quota import usage
from tests.laws.laws import decision
from tests.laws.laws.quota_holds import (
    holding_worlds,
    no_quota_is_promised_above_a_limit,
    quota_is_held_once_and_for_those_who_ask,
    what_is_gone_gets_no_quota,
    what_is_held_is_not_given_to_others,
)
from tests.laws.planted.bug import Bug, each_breaks_its_law
from tests.laws.worlds.settings import in_worlds, law_test

worlds = in_worlds(60)


test_no_quota_is_promised_above_a_limit = law_test(
    no_quota_is_promised_above_a_limit, holding_worlds(), worlds
)
test_what_is_held_is_not_given_to_others = law_test(
    what_is_held_is_not_given_to_others, holding_worlds(), worlds
)
test_quota_is_held_once_and_for_those_who_ask = law_test(
    quota_is_held_once_and_for_those_who_ask, holding_worlds(), worlds
)
test_what_is_gone_gets_no_quota = law_test(what_is_gone_gets_no_quota, holding_worlds(), worlds)
test_the_memo_decides_nothing_beside_held_quota = law_test(
    decision.memo_decides_nothing, holding_worlds(), worlds
)
test_the_order_decides_nothing_beside_held_quota = law_test(
    decision.independent_of_order, holding_worlds(), worlds
)
test_turns_come_to_rest_beside_held_quota = law_test(decision.reaches_a_fixed_point, holding_worlds(), worlds)


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


test_a_planted_bug_breaks_its_law = each_breaks_its_law(BUGS, holding_worlds())
