"""Past use: who used less comes first, it fades by half, and nobody else is touched. And each law can fail."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from queues.order import line
from queues.quota.decayed_usage import DecayedUsage
from tests.laws.laws import past_use
from tests.laws.laws.past_use import QUEUES, worlds
from tests.laws.planted.bug import Bug, is_broken_in
from tests.laws.worlds.settings import in_worlds, law_test

few = settings(in_worlds(60), suppress_health_check=list(HealthCheck))


test_the_queue_that_used_less_comes_first = law_test(
    past_use.the_queue_that_used_less_comes_first, worlds(), few
)
test_the_user_who_used_less_comes_first = law_test(
    past_use.the_user_who_used_less_comes_first, worlds(QUEUES[:1]), few
)
test_what_was_used_a_half_life_ago_counts_half = law_test(past_use.a_half_life_ago_counts_half, worlds(), few)
test_without_a_half_life_the_past_does_not_count = law_test(
    past_use.without_a_half_life_the_past_does_not_count, worlds(), few
)
test_memo_and_order_of_the_past_decide_nothing = law_test(
    past_use.memo_and_order_of_the_past_decide_nothing, worlds(), few
)


# ── planted bugs ────────────────────────────────────────────────────────────────────────────────────────────

_see, _faded, _half_life, _key = (
    DecayedUsage.update,
    DecayedUsage._decayed,
    DecayedUsage.half_life,
    line.among_users,
)


def _never_fades(self: Any, half_life: int, sums: Any) -> Any:
    scale, _ = _faded(self, half_life, {})
    return scale, {account: sum(units << 16 for units in blocks.values()) for account, blocks in sums.items()}


def _unnoticed(self: Any, rows: Any, now: int) -> Any:
    _see(self, rows, now)
    return set()


def _users_before_priority(tree: Any, users: Any, alike: Any) -> Any:
    key = _key(tree, users, alike)
    return (key.share, *key)


BUGS = (
    Bug("past use of queues is forgotten", DecayedUsage, "of_queue", lambda *_: None,
        past_use.the_queue_that_used_less_comes_first),
    Bug("past use of users is forgotten", DecayedUsage, "of_user", lambda *_: None,
    past_use.the_user_who_used_less_comes_first),
    Bug("users come before priority", line, "among_users", _users_before_priority,
        past_use.the_user_who_used_less_comes_first),
    Bug("past use never fades", DecayedUsage, "_decayed", _never_fades, past_use.a_half_life_ago_counts_half),
    Bug("the past is weighed by the block", DecayedUsage, "_move", lambda self, queue, before, after:
        self._sums.setdefault(queue, {}).update({account: {max(blocks): sum(blocks.values())}
                                                 for account, blocks in after.items()}),
        past_use.a_half_life_ago_counts_half),
    Bug("old places are kept", DecayedUsage, "update", _unnoticed, past_use.memo_and_order_of_the_past_decide_nothing),
    Bug("past use counts everywhere", DecayedUsage, "half_life", lambda self, queue: 3600,
        past_use.without_a_half_life_the_past_does_not_count),
)  # fmt: skip


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_breaks_its_law(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    if bug.attribute == "half_life":
        monkeypatch.setattr(DecayedUsage, "over", classmethod(lambda cls, *books: cls(*books)))
    is_broken_in(worlds(), bug.law, examples=500)
