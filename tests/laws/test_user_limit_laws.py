"""Laws of what one user may use, on worlds with limits per user."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.snapshot import Snapshot
from queues.quota.usage import UserUse
from tests.laws.laws import decision
from tests.laws.planted.bug import Bug, each_breaks_its_law
from tests.laws.worlds.settings import in_worlds, law_test
from tests.laws.worlds.user_limits import user_limited

worlds = in_worlds(60)


@worlds
@given(user_limited())
def test_no_admission_raises_a_user_above_a_limit(snapshot: Snapshot) -> None:
    decision.no_user_above_a_limit(snapshot)


test_the_memo_only_saves_time = law_test(decision.memo_decides_nothing, user_limited(), worlds)
test_the_order_of_the_input_does_not_matter = law_test(
    decision.independent_of_order, user_limited(), worlds, st.integers()
)


@pytest.mark.parametrize(
    "law",
    [
        decision.in_the_plan_or_one_reason,
        decision.no_queue_above_a_limit,
        decision.gangs_whole_or_nothing,
        decision.reaches_a_fixed_point,
        decision.nobody_who_fits_is_left_out,
    ],
)
def test_the_other_laws_hold_beside_it(law: Callable[[Snapshot], None]) -> None:
    @worlds
    @given(user_limited())
    def holds(snapshot: Snapshot) -> None:
        law(snapshot)

    holds()


def _never(*_: Any, **__: Any) -> None:
    return None


def _own_queue_only(self: UserUse, queue: Any, user: str, amounts: Any, times: int = 1) -> None:
    for name, account, _ in self.tree.user_limits(queue)[:1]:
        book = self._used.setdefault((name, user), Counter())
        book[account] += amounts.get(account, 0) * times


BUGS = [
    Bug("users are never refused", UserUse, "hit", _never, decision.no_user_above_a_limit),
    Bug("use of users is not counted", UserUse, "add", _never, decision.no_user_above_a_limit, 1),
    Bug("only the nearest limit counts", UserUse, "add", _own_queue_only, decision.no_user_above_a_limit, 2),
]

test_a_planted_bug_breaks_its_law = each_breaks_its_law(BUGS, user_limited())
