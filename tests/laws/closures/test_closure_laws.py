"""Laws of nodes that Reservations and NodeDrains close, and bugs that break them."""

from dataclasses import replace
from typing import Any

import pytest

from admission.engine import decide as engine
from admission.engine.closures import closing, held_work
from admission.engine.closures.closing import Leaving
from admission.engine.nodes import closed_nodes, table
from tests.laws.laws import decision
from tests.laws.laws.closures import (
    a_choice_is_kept,
    booked_worlds,
    closing_worlds,
    nothing_foreign_outlasts_the_start,
    the_holders_gang_starts_on_the_minute,
    what_is_in_the_way_is_evicted,
)
from tests.laws.planted.bug import Bug, each_breaks_its_law, is_broken_in
from tests.laws.worlds.settings import in_worlds, law_test

worlds = in_worlds(60)


test_nothing_foreign_outlasts_the_start = law_test(
    nothing_foreign_outlasts_the_start, closing_worlds(), worlds
)
test_what_is_in_the_way_is_evicted = law_test(what_is_in_the_way_is_evicted, closing_worlds(), worlds)
test_a_choice_is_kept = law_test(a_choice_is_kept, closing_worlds(), worlds)
test_the_holders_gang_starts_on_the_minute = law_test(
    the_holders_gang_starts_on_the_minute, booked_worlds(), worlds
)
test_the_memo_decides_nothing_beside_closed_nodes = law_test(
    decision.memo_decides_nothing, closing_worlds(), worlds
)
test_the_order_decides_nothing_beside_closed_nodes = law_test(
    decision.independent_of_order, closing_worlds(), worlds
)
test_turns_come_to_rest_beside_closed_nodes = law_test(
    decision.reaches_a_fixed_point, closing_worlds(), worlds
)


def _choose_anew(closure: Any, *rest: Any) -> tuple[Any, ...]:
    return _chosen(replace(closure, nodes=()), *rest)


_chosen = closing.chosen_nodes

MUTATIONS = (
    Bug("closed nodes are open", table, "open_to", lambda nodes, closed, mask: mask,
        nothing_foreign_outlasts_the_start, 6),
    Bug("run times are not looked at", closed_nodes, "longest_run", lambda workload, queues: 1,
        nothing_foreign_outlasts_the_start, 5),
    Bug("the window is open to all", closed_nodes.ClosedNodes, "is_of_holder", lambda self, path: True,
        nothing_foreign_outlasts_the_start, 2),
    Bug("the holder comes early", closing, "ClosedNodes",
        lambda closure, mask, in_window: closed_nodes.ClosedNodes(closure, mask, True),
        nothing_foreign_outlasts_the_start, 6),
    Bug("nobody has to leave", engine, "evicted_from", lambda *_: Leaving({}, None), what_is_in_the_way_is_evicted),
    Bug("nobody rests", held_work, "rest_after", lambda evictions: 0, what_is_in_the_way_is_evicted,
        rare=True),
    Bug("nodes are chosen anew", closing, "chosen_nodes",
        _choose_anew, a_choice_is_kept, 58),
)  # fmt: skip

test_a_planted_bug_breaks_its_law = each_breaks_its_law(MUTATIONS, closing_worlds())


def test_the_holders_gang_waits_where_its_window_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_nodes.ClosedNodes, "is_of_holder", lambda self, path: False)
    is_broken_in(booked_worlds(), the_holders_gang_starts_on_the_minute)
