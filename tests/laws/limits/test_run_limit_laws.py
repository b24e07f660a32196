"""Laws of how long work may run, on worlds with limits of run times."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.pending.pending import PendingWorkloads
from admission.engine.snapshot import Snapshot
from queues.quota.queue import Queue, RunLimit
from queues.quota.tree import QueueTree
from tests.laws.laws import decision
from tests.laws.planted.bug import Bug, each_breaks_its_law
from tests.laws.worlds.run_limits import run_limited
from tests.laws.worlds.settings import in_worlds, law_test

worlds = in_worlds(60)


test_nothing_is_admitted_that_declares_to_run_too_long = law_test(
    decision.no_declared_run_time_above_a_limit, run_limited(), worlds
)
test_the_memo_only_saves_time = law_test(decision.memo_decides_nothing, run_limited(), worlds)
test_the_order_of_the_input_does_not_matter = law_test(
    decision.independent_of_order, run_limited(), worlds, st.integers()
)


@pytest.mark.parametrize("law", [decision.in_the_plan_or_one_reason, decision.reaches_a_fixed_point])
def test_the_other_laws_hold_beside_it(law: Callable[[Snapshot], None]) -> None:
    @worlds
    @given(run_limited())
    def holds(snapshot: Snapshot) -> None:
        law(snapshot)

    holds()


def _never(*_: Any, **__: Any) -> None:
    return None


def _own_queue_only(self: QueueTree, name: Any) -> RunLimit | None:
    queue: Queue | None = self.queues.get(name)
    if queue is None or queue.max_run_time is None:
        return None
    return RunLimit(queue.max_run_time, queue.name)


LAW = decision.no_declared_run_time_above_a_limit

BUGS = [
    Bug("no run time is refused", PendingWorkloads, "_run_time_refusal", _never, LAW, 6),
    Bug("limits of queues above are not looked at", QueueTree, "run_limit", _own_queue_only, LAW, rare=True),
]

test_a_planted_bug_breaks_its_law = each_breaks_its_law(BUGS, run_limited())
